"""Imports go down only: a package may import what is below it, and not what stands beside or above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "cbatch"
BOTTOM = {"errors", "clock", "sampling", "logprobs", "priority", "types", "config", "row_set"}
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "sampling": {"errors"},
    "logprobs": set(),
    "priority": set(),
    "types": {"errors", "logprobs", "sampling"},
    "config": {"errors"},
    "row_set": set(),
    "inputs": BOTTOM,
    "traces": BOTTOM,
    "engine": BOTTOM,
    "metrics": BOTTOM,
    "outputs": BOTTOM | {"metrics"},
    "feed": BOTTOM,
    "supervise": BOTTOM | {"engine", "feed"},
    "llama": BOTTOM | {"engine"},
    "driver": BOTTOM | {"engine", "feed"},
    "sim": BOTTOM | {"engine", "metrics"},
    "tune": BOTTOM | {"engine", "metrics", "sim", "llama", "feed", "replay"},
    "replay": BOTTOM | {"engine", "feed", "metrics", "driver"},
    "pages": BOTTOM | {"metrics", "outputs"},
    "report": BOTTOM | {"metrics", "driver", "replay", "traces", "sim", "tune"},
    "cli": BOTTOM
    | {"inputs", "engine", "metrics", "outputs", "feed", "llama", "driver", "replay", "report", "traces", "pages"}
    | {"sim", "supervise", "tune"},
}


def imports(path: Path) -> set[str]:
    """The parts of cbatch that a module imports, and `` for the package itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "cbatch":
            found |= {node.module.split(".")[1]} if "." in node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("cbatch.")}
    return found


@pytest.mark.parametrize("layer", BELOW)
def test_imports_point_down(layer: str) -> None:
    single = PACKAGE / f"{layer}.py"
    paths = [single] if single.exists() else sorted((PACKAGE / layer).rglob("*.py"))
    assert paths
    for path in paths:
        foreign = imports(path) - BELOW[layer] - {layer, "__version__"}
        assert not foreign, f"{path.relative_to(PACKAGE)} imports {', '.join(sorted(foreign))}"


def test_every_part_has_its_layer() -> None:
    parts = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert parts - {"__init__", "__main__"} == BELOW.keys()
