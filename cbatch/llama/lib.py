"""The native library: its bindings, its log, and the functions that the bindings leave out.

Everything in `cbatch.llama` reaches llama.cpp through the name `C` here.
"""

from __future__ import annotations

import ctypes
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as _bindings

C: Any = _bindings
"""llama.cpp's C API, as llama-cpp-python 0.3.36 declares it."""

_ERROR_LEVEL = 4
_recent_errors: deque[str] = deque(maxlen=20)


def _keep_errors(level: int, text: bytes, _data: object) -> None:
    if level == _ERROR_LEVEL and text.strip():
        _recent_errors.append(text.decode("utf-8", "replace").strip())


# The library calls it for as long as the process lives, so it must never be collected.
_log_callback = C.llama_log_callback(_keep_errors)


@cache
def start() -> None:
    """Initialise the backends and take over the library's log. Calling it again does nothing."""
    C.llama_log_set(_log_callback, ctypes.c_void_p(0))
    C.llama_backend_init()


def take_errors() -> str:
    """The error lines that the library logged since the last call, joined; for messages."""
    text = "; ".join(_recent_errors)
    _recent_errors.clear()
    return text


@cache
def shared_library(stem: str) -> ctypes.CDLL:
    """The library `stem` (`ggml-base`, `ggml-cpu`, `llama`) that ships with the bindings."""
    folder = Path(_bindings.__file__).parent / "lib"
    for name in (f"lib{stem}.so", f"lib{stem}.dylib", f"{stem}.dll"):
        if (folder / name).exists():
            return ctypes.CDLL(str(folder / name))
    raise OSError(f"no library {stem} in {folder}")
