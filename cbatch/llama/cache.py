"""Where what was found out about this machine is kept between runs, and which library it was found out with."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cbatch.llama import lib, machine


def user_cache() -> Path:
    """cbatch's folder among the user's caches, or among temporary files where nobody has a home; it may be missing."""
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(tempfile.gettempdir() if folder.startswith("~") else folder) / "cbatch"


def library_identity() -> list[str | int]:
    """JSON-ready; changes with a reinstall, even of the same version. Raises OSError where the library is gone."""
    file = Path(lib.shared_library("ggml-cpu")._name).stat()
    return [machine.library_version(), file.st_size, file.st_mtime_ns]
