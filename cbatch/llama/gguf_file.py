"""GGUF files, by their headers: whether one is whole, what it holds, and whether cbatch can run it.

Reads headers only, however large the file, through ggml's own parser. Loads nothing, and doesn't know whether the
library supports the architecture.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path

from cbatch.errors import ModelError
from cbatch.llama.gguf_header import GgufHeader, parse_header

_DECODER = "give a decoder-only model, such as an instruct model"
_EMBEDDER = f"is an embedding model, which can't generate text: {_DECODER}"
_REFUSED_KINDS = {
    "adapter": "is a LoRA adapter, not a model: pass it with --lora, beside the --model it was trained on",
    "mmproj": "is a vision or audio projector (mmproj), not a language model: give the model it belongs to",
    "imatrix": "is an importance matrix, not a model: give the model it was computed from",
}
_REFUSED_ARCHITECTURES = {
    "clip": _REFUSED_KINDS["mmproj"],
    "controlvector": "is a control vector, not a model: give the model it was made for",
    "t5": f"is an encoder-decoder model, which cbatch can't run: {_DECODER}",
    "t5encoder": _EMBEDDER,
    "wavtokenizer-dec": f"is an audio decoder, which can't generate text: {_DECODER}",
} | dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), f"is a diffusion model, which cbatch can't run: {_DECODER}")
_SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf")


def check_model_files(path: Path) -> tuple[Path, GgufHeader]:
    """Check the model at `path`, every part of it when it is split.

    Returns:
        The file to load (of a split model the first part, whichever was given) and the header: types, tensors and
        bytes are those of all parts together.

    Raises:
        ModelError: missing, damaged, cut short, incomplete, or nothing that generates text.
    """
    header = read_header(path)
    if header.split_count > 1:
        path, header = _join(_part_paths(path, header))
    _refuse_unusable(path, header)
    return path, header


def _part_paths(path: Path, header: GgufHeader) -> list[Path]:
    """The files of a split model, in order, given any one of them. Raises `ModelError` where one is missing."""
    match = _SPLIT_NAME.fullmatch(path.name)
    if match is None or int(match["parts"]) != header.split_count:
        raise ModelError(
            f"{path} is part {header.split_no + 1} of {header.split_count} of a split model, but its name doesn't "
            f"end in -{header.split_no + 1:05d}-of-{header.split_count:05d}.gguf, by which the others are found: "
            f"give the parts their original names"
        )
    names = split_names(path.name)
    missing = [name for name in names if not (path.parent / name).exists()]
    if missing:
        raise ModelError(f"{path} is one of {len(names)} parts, and {', '.join(missing)} is missing beside it")
    return [path.parent / name for name in names]


def split_names(name: str) -> list[str]:
    """The names of all parts, given one such as `m-00002-of-00003.gguf`; just `name` where it isn't of that form."""
    match = _SPLIT_NAME.fullmatch(name)
    if match is None:
        return [name]
    return [f"{match['stem']}-{i + 1:05d}-of-{match['parts']}.gguf" for i in range(int(match["parts"]))]


def _join(paths: list[Path]) -> tuple[Path, GgufHeader]:
    headers = [read_header(path) for path in paths]
    types: Counter[str] = Counter()
    for i, (path, header) in enumerate(zip(paths, headers, strict=True)):
        if (header.split_no, header.split_count) != (i, len(paths)):
            raise ModelError(
                f"{path} calls itself part {header.split_no + 1} of {header.split_count} inside, but its name says "
                f"{i + 1} of {len(paths)}: download it again"
            )
        types.update(header.tensor_types)
    first, n_tensors = headers[0], sum(header.n_tensors for header in headers)
    if first.split_tensors is not None and n_tensors != first.split_tensors:
        raise ModelError(
            f"{paths[0]} and its other parts hold {n_tensors} tensors of {first.split_tensors}: they belong to "
            f"different models, download them again"
        )
    joined = replace(
        first,
        n_tensors=n_tensors,
        tensor_types=dict(types),
        weight_types=frozenset[str]().union(*(header.weight_types for header in headers)),
        bytes=sum(header.bytes for header in headers),
    )
    return paths[0], joined


def _refuse_unusable(path: Path, header: GgufHeader) -> None:
    reason = _REFUSED_KINDS.get(header.kind) or _REFUSED_ARCHITECTURES.get(header.architecture)
    if reason is None:
        if not header.architecture:
            reason = "doesn't name its architecture, so it is no model that llama.cpp can load"
        elif header.n_tensors == 0:
            reason = "holds a vocabulary only and no weights: give the whole model"
        elif _embeds(header):
            reason = _EMBEDDER
        elif not header.causal:
            reason = f"doesn't attend causally, so it can't generate text token by token: {_DECODER}"
    if reason is not None:
        raise ModelError(f"{path} {reason}")


def _embeds(header: GgufHeader) -> bool:
    """Whether it is an embedding model. `pangu-embedded`, which is for embedded devices, isn't one."""
    name = header.architecture
    return "bert" in name or name.endswith(("-embed", "-embedding")) or bool(header.pooling_type)


def read_header(path: Path) -> GgufHeader:
    """The header of the file at `path`, of any kind. Raises `ModelError` where it isn't a whole GGUF file."""
    try:
        size = _require_gguf(path)
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from error
    try:
        header = parse_header(path)
    except ValueError as error:
        raise ModelError(
            f"{path} is truncated or damaged: in its {size:,} bytes there is no whole header ({error}). "
            f"Download it again"
        ) from error
    if header.data_end > size:
        raise ModelError(
            f"{path} is truncated: it has {size:,} bytes of {header.data_end:,}. Download it again, or let the "
            f"download finish"
        )
    return header


def _require_gguf(path: Path) -> int:
    """The file's size, if it starts like a GGUF file of a version that the library reads."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(
            f"{path} doesn't exist: give a GGUF file, smollm2, or hf:owner/repo/file.gguf (`cbatch models` lists "
            f"what is on this machine)"
        ) from None
    if stat.S_ISDIR(status.st_mode):
        found = sorted(file.name for file in path.iterdir() if file.suffix == ".gguf")
        inside = f"one in it, such as {path / found[0]}" if found else "a GGUF file (there is none in it)"
        raise ModelError(f"{path} is a folder: give {inside}")
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{path} isn't a regular file: give a GGUF file")
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        raise ModelError(f"{path} is empty: download it again")
    if start[:4] != b"GGUF":
        raise ModelError(f"{path} isn't a GGUF file: {_looks_like(start)}")
    _require_version(path, start)
    return status.st_size


def _require_version(path: Path, start: bytes) -> None:
    if len(start) < 24:
        raise ModelError(f"{path} is truncated: {len(start)} bytes are less than a GGUF header. Download it again")
    version = int.from_bytes(start[4:8], "little")
    if version & 0xFFFF == 0:
        raise ModelError(f"{path} is a big-endian GGUF file: get the little-endian one, or convert it with gguf-py")
    if version not in (2, 3):
        raise ModelError(f"{path} is GGUF version {version}, and this llama.cpp reads 2 and 3: convert the model again")


def _looks_like(start: bytes) -> str:
    text = start.lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer to the model: run `git lfs pull` in its repository"
    if text.startswith((b"<!doctype html", b"<html")):
        return "it is an HTML page, as from a wrong link or one that needs a login. Download the file itself"
    if start[8:9] == b"{":
        return "it looks like safetensors: convert the model with llama.cpp's convert_hf_to_gguf.py"
    if start.startswith((b"PK\x03\x04", b"\x80\x02")):
        return "it looks like a PyTorch checkpoint or a zip archive: convert it with llama.cpp's convert_hf_to_gguf.py"
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh")):
        return "it is compressed: unpack it first"
    if start[:4] in (b"lmgg", b"fmgg", b"tjgg", b"algg"):
        return "it is in llama.cpp's format of before August 2023: download the model as GGUF"
    if not any(start):
        return "it starts with zero bytes, as an unfinished download does. Download it again"
    return f"it starts with {start[:8]!r}. Give a file that starts with b'GGUF'"
