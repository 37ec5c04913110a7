"""How often another type of KV makes the model choose another token, given the same text before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, Runner
from cbatch.errors import EngineError
from cbatch.sampling import SamplingParams
from cbatch.tune.goal import Goal, spread
from cbatch.tune.result import Tried
from cbatch.tune.setting import Setting
from cbatch.tune.workbench import Workbench
from cbatch.types import Request, Tokens

TEXT = (
    "The ferry left the harbour at seven, when the fog was still lying on the water. Two men on the upper deck argued "
    "about the price of fish, and a child counted the gulls that followed the ship. Nobody noticed that the captain "
    "had changed course. By noon the coast was out of sight, the wind had turned to the north, and the passengers "
    "began to ask whether the island would be reached before dark. The answer, when it came, was short: perhaps."
)
"""To look at where there are no rows."""
MOST_TOKENS = 128
"""Of a text."""
_MOST_TEXTS = 4
Choices = npt.NDArray[np.int32]


def choices(runner: Runner, texts: Sequence[Tokens]) -> Choices:
    """int32[n]: the likeliest token at every place of the texts but their first ones. Raises `EngineError`."""
    engine = Engine(runner, SchedulerConfig(runner.capacity.max_num_seqs, share_cells=False))
    sampling = SamplingParams(max_tokens=1, echo=True, logprobs=1, ignore_eos=True)
    for number, text in enumerate(texts):
        engine.add(Request(str(number), text[:MOST_TOKENS], sampling))
    found = {output.id: output for output in engine}
    parts = []
    for number in range(len(texts)):
        output = found[str(number)]
        if output.error is not None or output.prompt_logprobs is None:
            raise EngineError(f"a text can't be scored: {output.error}")
        parts.append(output.prompt_logprobs.top_ids[1:, 0])
    return np.concatenate(parts)


def divergence(ours: Choices, theirs: Choices) -> float:
    """Share of places where they differ; 0 for none."""
    return float(np.mean(ours != theirs)) if ours.size else 0.0


def with_divergence(tried: Sequence[Tried], default: Setting, goal: Goal, workbench: Workbench) -> list[Tried]:
    """What was tried, with how far the quantised types of KV are from what cbatch takes by itself."""
    if not any(map(_matters, tried)):
        return list(tried)
    texts = _texts(goal, workbench)
    usual = _choices(workbench, default, texts)
    return [
        replace(each, divergence=divergence(usual, _choices(workbench, each.setting, texts)))
        if _matters(each)
        else each
        for each in tried
    ]


def _matters(tried: Tried) -> bool:
    return tried.setting.quantised and tried.speeds is not None


def _texts(goal: Goal, workbench: Workbench) -> list[Tokens]:
    """Some of the rows' prompts. Made-up ones are random, which no model has an opinion of."""
    if goal.made_up:
        return [workbench.tokenizer.tokenize(TEXT, parse_special=False)]
    return [request.prompt for request in spread(goal.requests, _MOST_TEXTS)]


def _choices(workbench: Workbench, setting: Setting, texts: Sequence[Tokens]) -> Choices:
    cells = min(MOST_TOKENS, max(text.size for text in texts)) + 1
    with workbench.runner(setting, len(texts), cells) as runner:
        return choices(runner, texts)
