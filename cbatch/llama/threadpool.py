"""ggml's own thread pool: CPU placement and thread priority for a context.

The functions exist in the shared libraries, but the bindings don't declare them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from cbatch.config import MAX_CPUS
from cbatch.errors import EngineError, UsageError
from cbatch.llama import lib

_PRIORITIES = {"low": -1, "normal": 0, "medium": 1, "high": 2, "realtime": 3}
"""enum ggml_sched_priority."""


class _Params(ctypes.Structure):
    """struct ggml_threadpool_params of ggml.h."""

    _fields_ = (
        ("cpumask", ctypes.c_bool * MAX_CPUS),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


def _check_permission(priority: str) -> None:
    """Refuse what ggml would only warn about, on every step. Raises `UsageError`."""
    if _PRIORITIES[priority] <= 0 or not hasattr(os, "sched_setscheduler"):
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, policy, parameters)
    except OSError as error:
        raise UsageError(
            f"priority {priority} isn't allowed here ({error.strerror}): it needs CAP_SYS_NICE; "
            "use low or normal, or raise the limit on real-time priority (ulimit -r)"
        ) from None


class ThreadPool:
    """Persistent compute threads, each bound to one CPU of the mask (if any), with a priority.

    Attach it to a context; free it after the context. Whoever computes is one of the threads, so the calling thread is
    bound too, until `close` gives it back the CPUs it had: what it may use later, and how many cores it counts, depends
    on that.
    """

    def __init__(self, threads: int, *, cpus: tuple[int, ...], priority: str) -> None:
        _check_permission(priority)
        self._cpus_before = os.sched_getaffinity(0) if sys.platform == "linux" else None
        params = _Params()
        lib.shared_library("ggml-base").ggml_threadpool_params_init(ctypes.byref(params), threads)
        params.prio = _PRIORITIES[priority]
        for cpu in cpus:
            params.cpumask[cpu] = True
        params.strict_cpu = bool(cpus)
        create = lib.shared_library("ggml-cpu").ggml_threadpool_new
        create.restype = ctypes.c_void_p
        self.handle: int | None = create(ctypes.byref(params))
        if not self.handle:
            raise EngineError(f"ggml can't make a pool of {threads} threads: {lib.take_errors()}")

    def attach(self, context: Any) -> None:
        """Let the context compute on these threads."""
        attach = lib.shared_library("llama").llama_attach_threadpool
        attach.argtypes = [ctypes.c_void_p] * 3
        attach.restype = None
        attach(context, self.handle, self.handle)

    def close(self) -> None:
        if self.handle:
            free = lib.shared_library("ggml-cpu").ggml_threadpool_free
            free.argtypes = [ctypes.c_void_p]
            free.restype = None
            free(self.handle)
            self.handle = None
            if self._cpus_before is not None:
                os.sched_setaffinity(0, self._cpus_before)
