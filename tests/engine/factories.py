"""Short ways to make requests and engines on the fake runner."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.engine.fake import letters
from cbatch.engine.sequence import Sequence
from cbatch.sampling import SamplingParams
from cbatch.types import Request


def request(request_id: str, prompt: int = 4, max_tokens: int = 3, **fields: Any) -> Request:
    """A request of `prompt` tokens; sampling fields by name, `priority` and `arrival_ns` too."""
    own = {name: fields.pop(name) for name in ("priority", "arrival_ns", "end_tokens") if name in fields}
    return Request(
        request_id,
        np.arange(1, prompt + 1, dtype=np.int32),
        SamplingParams(max_tokens=max_tokens, **fields),
        **own,
    )


def engine(runner: FakeRunner | None = None, **config: Any) -> tuple[Engine, FakeRunner]:
    """An engine on a fake runner and its virtual clock."""
    if runner is None:
        runner = FakeRunner(max_num_seqs=config.get("max_num_seqs", 4))
    return Engine(runner, SchedulerConfig(**{"max_num_seqs": 4, **config})), runner


def alone(wanted: Request) -> list[int]:
    """The tokens of a request by the fake runner's rule, with nobody beside it."""
    seq = Sequence(wanted, 0)
    while True:
        token = letters(seq)
        seq.append(token, 0)
        if wanted.is_end(token) or seq.num_output == wanted.sampling.max_tokens:
            return seq.output
