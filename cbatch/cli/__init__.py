"""The command line: one thin file a command. The only layer that builds concrete parts and puts them together."""

from __future__ import annotations

from cbatch.cli.app import main

__all__ = ["main"]
