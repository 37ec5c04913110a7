from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from cbatch.llama import machine

pytestmark = pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="reads Linux's files")


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_features_of_the_cpu_part_only() -> None:
    info = (
        "CUDA : ARCHS = 900 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX2 = 0 | AMX_INT8 = 1 | SVE_CNT = 16 | REPACK = 1 | "
    )
    assert machine.parse_features(info) == {"SSE3", "AMX_INT8", "SVE_CNT", "REPACK"}
    assert machine.parse_features("") == frozenset()


def test_features_present_go_by_ggml_names(tmp_path: Path) -> None:
    x86 = "processor\t: 0\nmodel name\t: Xeon 9\nflags\t\t: fpu pni avx2 avx512f amx_int8\n\nmodel name: B\n"
    root = _tree(tmp_path / "x86", {"proc/cpuinfo": x86})
    assert machine.cpu_name(root) == "Xeon 9"
    assert machine.cpu_features_present(root) == {"SSE3", "AVX2", "AVX512", "AMX_INT8"}
    arm = _tree(tmp_path / "arm", {"proc/cpuinfo": "processor : 0\nFeatures : fp asimd asimddp i8mm\n"})
    assert machine.cpu_features_present(arm) == {"NEON", "ARM_FMA", "DOTPROD", "MATMUL_INT8"}
    assert machine.cpu_name(arm)


def test_this_processor_has_what_the_library_was_built_for() -> None:
    build_choices = {"LLAMAFILE", "OPENMP", "REPACK", "ACCELERATE", "KLEIDIAI", "CPU_HBM", "SVE_CNT"}
    assert machine.features_compiled() - build_choices <= machine.cpu_features_present()


def test_threads_of_one_core_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    root = _tree(tmp_path, {topology.format(cpu): siblings for cpu, siblings in enumerate(["0,2", "1,3"] * 2)})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert machine.default_threads(root) == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3})
    assert machine.default_threads(root) == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5, 6})  # no topology given: each is its own core
    assert machine.default_threads(root) == 3


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "350000 100000\n"}, 3),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "350000 100000\n",
            },
            2,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/docker/1\n2:memory:/x\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        ({"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}, 8),
        ({}, 8),
    ],
)
def test_a_cpu_quota_bounds_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert machine.default_threads(_tree(tmp_path, files)) == threads


def test_memory_limits_of_containers_count(tmp_path: Path) -> None:
    nothing = machine.available_memory(tmp_path)
    assert 0 < nothing <= psutil.virtual_memory().total
    v2 = {
        "proc/self/cgroup": "0::/a\n",
        "sys/fs/cgroup/a/memory.max": "1000000\n",
        "sys/fs/cgroup/a/memory.current": "700000\n",
        "sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 100000\n",
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/memory.current": "1\n",
    }
    assert machine.available_memory(_tree(tmp_path / "v2", v2)) == 400_000
    assert machine.memory_limit(tmp_path / "v2") == 1_000_000
    assert machine.memory_limit(tmp_path) == machine.total_memory()
    v1 = {
        "proc/self/cgroup": "4:memory:/docker/1\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1100000\n",
        "sys/fs/cgroup/memory/memory.stat": "inactive_file 5\ntotal_inactive_file 200000\n",
    }
    assert machine.available_memory(_tree(tmp_path / "v1", v1)) == 100_000


def test_no_room_is_zero_and_not_less(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "1000\n",
        "sys/fs/cgroup/memory.current": "3000\n",
    }
    assert machine.available_memory(_tree(tmp_path, files)) == 0


def test_this_machine() -> None:
    assert machine.library_version().startswith("llama-cpp-python 0.3.36, ggml ")
    assert 1 <= machine.default_threads() <= (os.cpu_count() or 1)
    assert 0 < machine.available_memory() <= machine.total_memory()
    for gpu in machine.gpu_devices():
        assert gpu.name
        assert 0 <= gpu.free_bytes <= gpu.total_bytes
