"""How long a worker has shown no sign of life, by the clock of a parent that may itself have been stopped."""

from __future__ import annotations

from cbatch.supervise.heartbeat import Heartbeat, Phase


class StallTimer:
    """Looked at every `period_s` seconds at least: after a longer gap, in which all was suspended, it starts again."""

    def __init__(self, heartbeat: Heartbeat, period_s: float, now_s: float) -> None:
        self._heartbeat = heartbeat
        self._longest_gap_s = 2 * period_s
        self._looked_s = now_s
        self._loop = _Still(now_s)
        self._row = _Still(now_s)

    def still_s(self, now_s: float) -> float:
        """Seconds without life: of the engine's loop while it should step, or of the row that is being tokenised."""
        suspended, self._looked_s = now_s - self._looked_s > self._longest_gap_s, now_s
        if suspended:
            self.restart(now_s)
        steps, row = self._heartbeat.phase is Phase.RUNNING, self._heartbeat.tokenising
        loop_s = self._loop.seconds(self._heartbeat.beats, now_s)
        row_s = self._row.seconds(row, now_s)
        return max(loop_s if steps else 0.0, row_s if row else 0.0)

    def restart(self, now_s: float) -> None:
        """Count from now on."""
        self._loop.since_s = self._row.since_s = now_s


class _Still:
    """Since when a value is the same."""

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self._value: int | None = None

    def seconds(self, value: int, now_s: float) -> float:
        if value != self._value:
            self._value, self.since_s = value, now_s
        return now_s - self.since_s
