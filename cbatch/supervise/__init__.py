"""A small parent process that survives its worker, finds the row that kills it, and keeps stdin for the next one.

    parent: supervise -> fork, watch the heartbeat, wait -> Death -> Suspects -> fork again
    worker: Link -> Watch, WatchedRunner, Quarantine (cbatch.feed) -> heartbeat

`cbatch.supervise.watched` is imported by workers only: the parent does without numpy and the engine.
"""

from __future__ import annotations

from cbatch.supervise.heartbeat import Heartbeat, Phase
from cbatch.supervise.link import Link
from cbatch.supervise.lock import DirectoryLock
from cbatch.supervise.supervisor import supervise

__all__ = ["DirectoryLock", "Heartbeat", "Link", "Phase", "supervise"]
