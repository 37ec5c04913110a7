"""Names of priorities. Lower numbers run earlier, as in vLLM."""

from __future__ import annotations

PRIORITIES = {"high": -1, "normal": 0, "low": 1}
