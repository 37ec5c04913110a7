from __future__ import annotations

from cbatch.cli.job_notes import left_over
from cbatch.driver import Ending, Outcome
from cbatch.metrics import RunAccumulator


def test_what_is_left_is_told_with_the_command_that_goes_on() -> None:
    summary = RunAccumulator(1).summary()
    [note] = left_over(Outcome(Ending.ABORTED, 3), None, 4, summary, again="the same command without --force")
    assert "at least 7 rows" in note
    assert note.endswith("the same command without --force goes on with them")
    assert list(left_over(Outcome(Ending.COMPLETE, 0), 0, 0, summary, again="")) == []
