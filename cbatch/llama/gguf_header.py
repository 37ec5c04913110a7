"""What a GGUF header says, through ggml's own parser. Judges nothing: see `cbatch.llama.gguf_file`."""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cbatch.llama import lib


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF header says. Numbers that the file doesn't give are None."""

    architecture: str
    """Empty in the later parts of a split model."""
    name: str
    kind: str
    """`general.type`: `model`, `adapter`, `mmproj`, ..."""
    n_tensors: int
    tensor_types: Mapping[str, int]
    """Number of tensors of each ggml type, such as `{"F32": 61, "Q4_1": 211}`."""
    weight_types: frozenset[str]
    """Types of the matrices: the kernels that computing with them takes."""
    bytes: int
    """Size of the file."""
    data_end: int
    """Where the last tensor ends: a whole file has at least as many bytes."""
    split_no: int
    split_count: int
    """Parts of the model; 0 or 1 when it isn't split."""
    split_tensors: int | None
    block_count: int | None
    context_length: int | None
    embedding_length: int | None
    head_count: tuple[int, ...]
    """One number, or one for each block."""
    head_count_kv: tuple[int, ...]
    """One number, or one for each block; empty where the file leaves it out (then it is `head_count`)."""
    key_length: int | None
    value_length: int | None
    pooling_type: int | None
    causal: bool

    @property
    def quantisation(self) -> str:
        """The type that most matrices have, such as `Q4_1`."""
        weights = {name: count for name, count in self.tensor_types.items() if name in self.weight_types}
        return max(weights, key=lambda name: weights[name], default="-")


class GgufTensor(NamedTuple):
    """A tensor of a GGUF file."""

    name: str
    type: str
    """Such as `Q4_1`."""
    shape: tuple[int, ...]
    """Four numbers, as ggml has them: the elements of a row, then the rows."""
    bytes: int
    end: int
    """Offset in the file of the first byte after it."""


def parse_header(path: Path) -> GgufHeader:
    """The header of the GGUF file at `path`. Raises `ValueError` with the library's reason where it can't be parsed."""
    with _opened(path) as reader:
        return _header(reader, path.stat().st_size)


def parse_tensors(path: Path) -> list[GgufTensor]:
    """The tensors of the GGUF file at `path`. Raises `ValueError` as `parse_header` does."""
    with _opened(path) as reader:
        return reader.tensors()


@contextmanager
def _opened(path: Path) -> Iterator[_Reader]:
    api = _api()
    lib.start()
    lib.take_errors()
    handle = api.gguf_init_from_file(os.fsencode(path), _InitParams(no_alloc=True, ctx=None))
    if not handle:
        raise ValueError(lib.take_errors() or "the library gives no reason")
    try:
        yield _Reader(api, handle)
    finally:
        api.gguf_free(handle)


def parse_numbers(path: Path) -> dict[str, tuple[int, ...]]:
    """The whole numbers, and lists of them, that the GGUF file at `path` gives of its architecture.

    By key without the architecture, such as `attention.head_count_kv`. Raises `ValueError` as `parse_header` does.
    """
    with _opened(path) as reader:
        prefix = f"{reader.string('general.architecture')}."
        keys = [key for key in reader.all_keys() if key.startswith(prefix)]
        return {key.removeprefix(prefix): numbers for key in keys if (numbers := reader.integers(key))}


def _header(reader: _Reader, size: int) -> GgufHeader:
    architecture = reader.string("general.architecture")
    tensors = reader.tensors()
    return GgufHeader(
        architecture=architecture,
        name=reader.string("general.name"),
        kind=reader.string("general.type"),
        n_tensors=len(tensors),
        tensor_types=dict(Counter(tensor.type for tensor in tensors)),
        weight_types=frozenset(tensor.type for tensor in tensors if tensor.shape[1] > 1),
        bytes=size,
        data_end=max((tensor.end for tensor in tensors), default=0),
        split_no=reader.integer("split.no") or 0,
        split_count=reader.integer("split.count") or 0,
        split_tensors=reader.integer("split.tensors.count"),
        block_count=reader.integer(f"{architecture}.block_count"),
        context_length=reader.integer(f"{architecture}.context_length"),
        embedding_length=reader.integer(f"{architecture}.embedding_length"),
        head_count=reader.integers(f"{architecture}.attention.head_count"),
        head_count_kv=reader.integers(f"{architecture}.attention.head_count_kv"),
        key_length=reader.integer(f"{architecture}.attention.key_length"),
        value_length=reader.integer(f"{architecture}.attention.value_length"),
        pooling_type=reader.integer(f"{architecture}.pooling_type"),
        causal=reader.integer(f"{architecture}.attention.causal") != 0,
    )


# gguf_type of ggml/include/gguf.h, the integer types and bool.
_INTEGERS: dict[int, Any] = {
    0: ctypes.c_uint8,
    1: ctypes.c_int8,
    2: ctypes.c_uint16,
    3: ctypes.c_int16,
    4: ctypes.c_uint32,
    5: ctypes.c_int32,
    7: ctypes.c_bool,
    10: ctypes.c_uint64,
    11: ctypes.c_int64,
}
_STRING, _ARRAY = 8, 9


class _Reader:
    """An open GGUF context.

    The library aborts the process on a value of another type than asked for, so types are looked at first.
    """

    def __init__(self, api: Any, handle: int) -> None:
        self._api = api
        self._handle = handle
        self._data_offset = int(api.gguf_get_data_offset(handle))

    def all_keys(self) -> list[str]:
        count = self._api.gguf_get_n_kv(self._handle)
        return [self._api.gguf_get_key(self._handle, i).decode("utf-8", "replace") for i in range(count)]

    def _find(self, key: str) -> tuple[int, int | None]:
        index = self._api.gguf_find_key(self._handle, key.encode())
        return index, None if index < 0 else self._api.gguf_get_kv_type(self._handle, index)

    def string(self, key: str) -> str:
        """The string at `key`; empty where there is none."""
        index, kind = self._find(key)
        if kind != _STRING:
            return ""
        value: bytes = self._api.gguf_get_val_str(self._handle, index)
        return value.decode("utf-8", "replace")

    def integer(self, key: str) -> int | None:
        """The whole number at `key`, with booleans as 0 and 1; None where there is none."""
        index, kind = self._find(key)
        if kind not in _INTEGERS:
            return None
        return int(_INTEGERS[kind].from_address(self._api.gguf_get_val_data(self._handle, index)).value)

    def integers(self, key: str) -> tuple[int, ...]:
        """The whole number or numbers at `key`; empty where there are none."""
        index, kind = self._find(key)
        if kind != _ARRAY:
            value = self.integer(key)
            return () if value is None else (value,)
        item = _INTEGERS.get(self._api.gguf_get_arr_type(self._handle, index))
        count = self._api.gguf_get_arr_n(self._handle, index)
        if item is None or count == 0:
            return ()
        return tuple(int(v) for v in (item * count).from_address(self._api.gguf_get_arr_data(self._handle, index)))

    def tensors(self) -> list[GgufTensor]:
        return [self._tensor(i) for i in range(int(self._api.gguf_get_n_tensors(self._handle)))]

    def _tensor(self, i: int) -> GgufTensor:
        api, handle = self._api, self._handle
        size = int(api.gguf_get_tensor_size(handle, i))
        return GgufTensor(
            name=api.gguf_get_tensor_name(handle, i).decode("utf-8", "replace"),
            type=api.ggml_type_name(api.gguf_get_tensor_type(handle, i)).decode().upper(),
            shape=tuple(api.gguf_get_tensor_ne(handle, i)[:4]),
            bytes=size,
            end=self._data_offset + int(api.gguf_get_tensor_offset(handle, i)) + size,
        )


class _InitParams(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


@cache
def _api() -> Any:
    """ggml's GGUF reader, declared as in ggml/include/gguf.h."""
    api = lib.shared_library("ggml-base")
    context, index = ctypes.c_void_p, ctypes.c_int64
    api.gguf_init_from_file.argtypes = [ctypes.c_char_p, _InitParams]
    api.gguf_init_from_file.restype = context
    api.gguf_free.argtypes = [context]
    api.gguf_free.restype = None
    api.ggml_type_name.argtypes = [ctypes.c_int]
    api.ggml_type_name.restype = ctypes.c_char_p
    api.gguf_find_key.argtypes = [context, ctypes.c_char_p]
    api.gguf_find_key.restype = index
    for name in ("gguf_get_data_offset", "gguf_get_n_tensors", "gguf_get_n_kv"):
        getattr(api, name).argtypes = [context]
        getattr(api, name).restype = ctypes.c_size_t
    for name, result in {
        "gguf_get_key": ctypes.c_char_p,
        "gguf_get_kv_type": ctypes.c_int,
        "gguf_get_arr_type": ctypes.c_int,
        "gguf_get_arr_n": ctypes.c_size_t,
        "gguf_get_arr_data": ctypes.c_void_p,
        "gguf_get_val_data": ctypes.c_void_p,
        "gguf_get_val_str": ctypes.c_char_p,
        "gguf_get_tensor_name": ctypes.c_char_p,
        "gguf_get_tensor_ne": ctypes.POINTER(ctypes.c_int64),
        "gguf_get_tensor_type": ctypes.c_int,
        "gguf_get_tensor_offset": ctypes.c_size_t,
        "gguf_get_tensor_size": ctypes.c_size_t,
    }.items():
        getattr(api, name).argtypes = [context, index]
        getattr(api, name).restype = result
    return api
