"""`cbatch doctor`: what this machine and this build of the library can do."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cbatch import __version__
from cbatch.cli.text import format_bytes, hang


def doctor(
    model: Annotated[str | None, typer.Option("--model", help="Check this model too, and its weight types.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Report on the library, the processor, memory and GPUs, and whether the library's kernels work here.

    The kernels are tried anew in a child process. Exits with 1 if they fail or the model can't be used.
    """
    report = _examine(model)
    typer.echo(json.dumps(report, indent=2) if as_json else _text(report))
    if not report["ok"]:
        raise typer.Exit(1)


def _examine(model: str | None) -> dict[str, Any]:
    """All findings, as JSON values."""
    from cbatch.llama import machine, probe

    checked = None if model is None else _check_model(model)
    types = probe.COMMON_TYPES | frozenset(checked["weight_types"] if checked else ())
    result = probe.probe(types, fresh=True)
    left_out = sorted(machine.cpu_features_present() - machine.features_compiled())
    return {
        "ok": result.ok and (checked is None or checked["problem"] is None),
        "cbatch": __version__,
        "library": machine.library_version(),
        "python": platform.python_version(),
        "python_executable": sys.executable,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": machine.cpu_name(),
        "features_compiled": sorted(machine.features_compiled()),
        "features_present": sorted(machine.cpu_features_present()),
        "features_left_out": left_out,
        "default_threads": machine.default_threads(),
        "memory_total_bytes": machine.total_memory(),
        "memory_available_bytes": machine.available_memory(),
        "gpus": [asdict(gpu) for gpu in machine.gpu_devices()],
        "probe": {
            "ok": result.ok,
            "types": sorted(types),
            "crashed": dict(result.crashed),
            "unknown": dict(result.unknown),
        },
        "model": checked,
        "reinstall": "not needed" if result.ok and not left_out else "needed" if not result.ok else "recommended",
        "reinstall_line": probe.REINSTALL_LINE,
    }


def _check_model(spec: str) -> dict[str, Any]:
    from cbatch.errors import ModelError
    from cbatch.llama.gguf_file import check_model_files
    from cbatch.llama.locate import resolve_model

    try:
        path, header = check_model_files(resolve_model(spec))
    except ModelError as error:
        return {"spec": spec, "problem": str(error), "weight_types": []}
    return {
        "spec": spec,
        "problem": None,
        "path": str(path),
        "bytes": header.bytes,
        "architecture": header.architecture,
        "weight_types": sorted(header.weight_types),
    }


def _text(report: dict[str, Any]) -> str:
    lines = [
        ("cbatch", report["cbatch"]),
        ("library", report["library"]),
        ("python", f"{report['python']}, {report['python_executable']}"),
        ("system", report["system"]),
        ("processor", report["processor"]),
        ("  built for", " ".join(report["features_compiled"])),
        ("  it has", " ".join(report["features_present"])),
        ("  left out", _left_out(report["features_left_out"])),
        ("threads", f"{report['default_threads']} by default: the physical cores this process may use"),
        ("memory", _memory(report)),
        *(("GPU", _gpu(gpu)) for gpu in report["gpus"]),
        *([] if report["gpus"] else [("GPU", "none that this build of the library can use")]),
        *_probe_lines(report["probe"]),
        *([] if report["model"] is None else [("model", _model(report["model"]))]),
        ("reinstall", f"{report['reinstall']}{_reinstall_reason(report)}"),
    ]
    return "\n".join([*(hang(f"{name:<12} {value}", 13) for name, value in lines), f"  {report['reinstall_line']}"])


def _left_out(features: list[str]) -> str:
    return f"{' '.join(features)}: the processor has it, the library was built without" if features else "nothing"


def _memory(report: dict[str, Any]) -> str:
    total, available = format_bytes(report["memory_total_bytes"]), format_bytes(report["memory_available_bytes"])
    return f"{total}, {available} available"


def _gpu(gpu: dict[str, Any]) -> str:
    free, total = format_bytes(gpu["free_bytes"]), format_bytes(gpu["total_bytes"])
    return f"{gpu['name']}, {gpu['description']}, {total}, {free} free"


def _probe_lines(probe: dict[str, Any]) -> list[tuple[str, str]]:
    """One line for all that works, one for each type that doesn't or that couldn't be tried."""
    works = [name for name in probe["types"] if name not in probe["crashed"] and name not in probe["unknown"]]
    lines = [f"work here: {' '.join(works)}"] if works else []
    lines += [f"{name}: FAILS, {how}" for name, how in sorted(probe["crashed"].items())]
    lines += [f"{name}: {how}" for name, how in sorted(probe["unknown"].items())]
    return [("kernels" if i == 0 else "", line) for i, line in enumerate(lines)]


def _model(model: dict[str, Any]) -> str:
    if model["problem"] is not None:
        return f"NOT USABLE: {model['problem']}"
    types = " ".join(model["weight_types"])
    return f"ok: {model['architecture']}, {format_bytes(model['bytes'])}, {types}, {model['path']}"


def _reinstall_reason(report: dict[str, Any]) -> str:
    if report["reinstall"] == "needed":
        return ": this build of the library crashes. Until then cbatch runs with use_extra_bufts=False, slower"
    if report["reinstall"] == "recommended":
        return ": built on this machine, the library uses what is left out above"
    return ". For when it is:"
