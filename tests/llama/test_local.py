"""Library use: the example of the package's docstring, and requests that can't be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cbatch
from cbatch import Engine, FinishReason, SamplingParams
from cbatch.errors import ParameterError
from cbatch.llama.local import LocalModel


@pytest.mark.e2e
def test_the_documented_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cbatch.__doc__ is not None
    (example,) = re.findall(r"\n\n((?:    .*\n|\n)+)", cbatch.__doc__)
    exec("\n".join(line[4:] for line in example.splitlines()), {})
    assert sorted(line[0] for line in capsys.readouterr().out.splitlines() if line[:1] in ("0", "1")) == ["0", "1"]


def test_prompts_chats_and_raw_text(tiny_model: Path) -> None:
    with LocalModel(str(tiny_model), max_num_seqs=2, cells_per_seq=256, threads=1) as model:
        chat = [{"role": "user", "content": "Hi"}]
        requests = [
            model.request("plain", "Hi"),
            model.request("chat", chat),
            model.request("raw", "Hi", SamplingParams(max_tokens=3), raw=True),
        ]
        assert requests[0].prompt.tolist() == requests[1].prompt.tolist()
        assert requests[2].prompt.size == 3
        engine = Engine(model.runner)
        for request in requests:
            engine.add(request)
        outputs = {output.id: output for output in engine}
        assert outputs["raw"].finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        assert outputs["plain"].token_ids.tolist() == outputs["chat"].token_ids.tolist()
        assert 0 <= outputs["raw"].request.arrival_ns <= outputs["raw"].enqueued_ns <= outputs["raw"].finished_ns
        with pytest.raises(ParameterError, match=r"request 'x': .* empty"):
            model.request("x", "")
