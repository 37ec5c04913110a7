"""The machine under the library: processor, memory, threads, GPUs. Knows what this process may use of them,
containers included. Linux and macOS.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cbatch.llama import lib

ROOT = Path("/")

# ggml's feature names (ggml_backend_cpu_get_features) and the flags that /proc/cpuinfo has for them, x86 and Arm.
_FEATURE_FLAGS = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "AVX": "avx",
    "AVX_VNNI": "avx_vnni",
    "AVX2": "avx2",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "AVX512": "avx512f",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
    "NEON": "asimd",
    "ARM_FMA": "asimd",
    "FP16_VA": "asimdhp",
    "MATMUL_INT8": "i8mm",
    "SVE": "sve",
    "DOTPROD": "asimddp",
    "SME": "sme",
}
_MAC_FEATURES = {
    "NEON": "AdvSIMD",
    "ARM_FMA": "AdvSIMD",
    "FP16_VA": "FEAT_FP16",
    "MATMUL_INT8": "FEAT_I8MM",
    "DOTPROD": "FEAT_DotProd",
    "SME": "FEAT_SME",
}


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU that the library can use."""

    name: str
    description: str
    free_bytes: int
    total_bytes: int
    integrated: bool


def library_version() -> str:
    """Such as `llama-cpp-python 0.3.36, ggml 0.25.3`."""
    ggml = lib.shared_library("ggml-base")
    ggml.ggml_version.restype = ctypes.c_char_p
    version: bytes = ggml.ggml_version()
    return f"llama-cpp-python {importlib.metadata.version('llama-cpp-python')}, ggml {version.decode()}"


def cpu_name(root: Path = ROOT) -> str:
    """Such as `AMD EPYC`."""
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.machine()
    return _cpuinfo(root).get("model name") or platform.machine()


def cpu_flags(root: Path = ROOT) -> frozenset[str]:
    """Instruction set extensions as the operating system names them."""
    if sys.platform == "darwin":
        return frozenset(name for name in _MAC_FEATURES.values() if _sysctl(f"hw.optional.arm.{name}") == "1")
    info = _cpuinfo(root)
    return frozenset((info.get("flags") or info.get("Features") or "").split())


def cpu_features_present(root: Path = ROOT) -> frozenset[str]:
    """What this processor has of the features that ggml has kernels for, by ggml's names."""
    names = _MAC_FEATURES if sys.platform == "darwin" else _FEATURE_FLAGS
    flags = cpu_flags(root)
    return frozenset(feature for feature, flag in names.items() if flag in flags)


def features_compiled() -> frozenset[str]:
    """What the library's CPU part was built with, by ggml's names: instruction sets, and such as `OPENMP`, `REPACK`."""
    return parse_features(lib.C.llama_print_system_info().decode())


def parse_features(system_info: str) -> frozenset[str]:
    """Features of the CPU backend that are on in `CUDA : ARCHS = 900 | CPU : SSE3 = 1 | AVX = 1 | `."""
    _, _, cpu = system_info.partition("CPU : ")
    return frozenset(name for name, value in re.findall(r"(\w+) = (\w+)", cpu) if value != "0")


def default_threads(root: Path = ROOT) -> int:
    """Physical cores that this process may use: affinity and container quota count, a core's second thread doesn't."""
    quota = _cpu_quota(root)
    cores = _physical_cores(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def allowed_cpus() -> tuple[int, ...]:
    """CPUs that this thread may run on; empty where the system doesn't tell (macOS)."""
    return tuple(sorted(os.sched_getaffinity(0))) if sys.platform == "linux" else ()


def available_memory(root: Path = ROOT) -> int:
    """Bytes that can be allocated before the machine swaps or the container's limit kills."""
    machine = int(psutil.virtual_memory().available)
    return min([machine, *_cgroup_room(root)])


def memory_limit(root: Path = ROOT) -> int:
    """Bytes that this process may come to: the machine's memory, or less where a container is limited to that."""
    return min([total_memory(), *(limit for _, limit in _cgroup_limits(root))])


def own_memory() -> int:
    """Bytes of this process that no file backs (all that are resident, where the system doesn't tell them apart)."""
    info = psutil.Process().memory_info()
    return int(info.rss - getattr(info, "shared", 0))


def total_memory() -> int:
    """Bytes of memory in the machine, whatever a container may use of it."""
    return int(psutil.virtual_memory().total)


def gpu_devices() -> list[GpuDevice]:
    """GPUs, integrated ones too, that the installed build of the library can use."""
    lib.start()
    api = lib.shared_library("ggml")
    api.ggml_backend_dev_count.restype = ctypes.c_size_t
    api.ggml_backend_dev_get.restype = ctypes.c_void_p
    api.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    devices = [api.ggml_backend_dev_get(i) for i in range(api.ggml_backend_dev_count())]
    api.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    return [_gpu(api, device) for device in devices if api.ggml_backend_dev_type(device) in (_DISCRETE, _INTEGRATED)]


_DISCRETE, _INTEGRATED = 1, 2  # GGML_BACKEND_DEVICE_TYPE_GPU and _IGPU of ggml-backend.h


def _gpu(api: Any, device: int) -> GpuDevice:
    for function in (api.ggml_backend_dev_name, api.ggml_backend_dev_description):
        function.argtypes = [ctypes.c_void_p]
        function.restype = ctypes.c_char_p
    api.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p] + [ctypes.POINTER(ctypes.c_size_t)] * 2
    api.ggml_backend_dev_memory.restype = None
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    api.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
    name: bytes = api.ggml_backend_dev_name(device)
    description: bytes = api.ggml_backend_dev_description(device)
    integrated = api.ggml_backend_dev_type(device) == _INTEGRATED
    return GpuDevice(name.decode(), description.decode("utf-8", "replace"), free.value, total.value, integrated)


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    text = _read(root / "proc/cpuinfo") or ""
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def _physical_cores(root: Path) -> int:
    if sys.platform == "darwin":
        # Efficiency cores would hold up every matrix product, as all threads wait for the slowest.
        return int(_sysctl("hw.perflevel0.physicalcpu") or psutil.cpu_count(logical=False) or 1)
    cores = {_core_of(root, cpu) for cpu in os.sched_getaffinity(0)}
    return len(cores)


def _core_of(root: Path, cpu: int) -> str:
    """The hardware threads that share `cpu`'s core; only itself where the kernel doesn't say."""
    siblings = _read(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return siblings or str(cpu)


def _cpu_quota(root: Path) -> float | None:
    """Cores' worth of time that the tightest control group grants; None without a limit."""
    quotas = []
    for folder in _cgroup_folders(root, "cpu"):
        limit, _, period = (_read(folder / "cpu.max") or "").partition(" ")
        limit = limit or _read(folder / "cpu.cfs_quota_us") or "max"
        period = period or _read(folder / "cpu.cfs_period_us") or "100000"
        if limit not in ("max", "-1"):
            quotas.append(int(limit) / int(period))
    return min(quotas, default=None)


def _cgroup_room(root: Path) -> Iterator[int]:
    """Bytes left under each memory limit above this process. Page cache counts as used there, but can be dropped."""
    for folder, limit in _cgroup_limits(root):
        used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
        if used is not None:
            # In v1, `inactive_file` leaves out the groups below and `total_inactive_file` counts them.
            cache = re.findall(r"^(?:total_)?inactive_file (\d+)", _read(folder / "memory.stat") or "", re.MULTILINE)
            yield max(0, limit - int(used) + max(map(int, cache), default=0))


def _cgroup_limits(root: Path) -> Iterator[tuple[Path, int]]:
    """The groups above this process that limit memory, and to how many bytes."""
    for folder in _cgroup_folders(root, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes") or "max"
        if limit != "max":
            yield folder, int(limit)


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's group and those above it, in cgroup v2 and v1. Inside a container the upper ones don't exist."""
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            base = root / "sys/fs/cgroup" / controller
        else:
            continue
        group = Path(path.lstrip("/"))
        yield from (base / part for part in (group, *group.parents) if (base / part).is_dir())


def _read(path: Path) -> str | None:
    """The file's text, stripped; None where there is none: kernels and containers differ in what they show."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _sysctl(name: str) -> str:
    return subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False).stdout.strip()
