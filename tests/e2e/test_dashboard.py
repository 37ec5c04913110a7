"""The dashboard in a real terminal: nothing wraps, nothing is left behind, the summary takes its place."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command import command, results, write_rows

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux isn't installed")


class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, width: int, height: int) -> None:
        self._tmux = ["tmux", "-L", f"cbatch-test-{os.getpid()}-{width}"]
        self.width = width
        self._call("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height))

    def _call(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, timeout=10).stdout

    def type(self, line: str) -> None:
        self._call("send-keys", line, "Enter")

    def screen(self) -> list[str]:
        return self._call("capture-pane", "-p").splitlines()

    def close(self) -> None:
        self._call("kill-server")


@pytest.fixture(params=[(80, 24), (200, 50)], ids=["80x24", "200x50"])
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    opened = Terminal(*request.param)
    yield opened
    opened.close()


def wait_for(terminal: Terminal, text: str, seconds: float) -> list[str]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        screen = terminal.screen()
        if any(text in line for line in screen):
            return screen
        time.sleep(0.1)
    raise AssertionError(f"{text!r} didn't appear:\n" + "\n".join(terminal.screen()))


def test_the_picture_fits_and_goes(terminal: Terminal, tiny_model: Path, tmp_path: Path) -> None:
    rows = [{"id": f"row-{i}", "prompt": f"नमस्ते 👩‍👩‍👧 {i} " * 5, "max_tokens": 300} for i in range(64)]
    path = write_rows(tmp_path / "rows.jsonl", [*rows, {"prompt": ""}])
    line = shlex.join(command("run", path, "-m", tiny_model, "-t", 1, "--ignore-eos", "-o", tmp_path / "out"))
    terminal.type(f"cd {shlex.quote(str(Path.cwd()))}; PS1='$ '; clear; {line}; echo ended with $?")
    wait_for(terminal, "slots", 30)
    heights = []
    for _ in range(10):
        screen = [text for text in terminal.screen() if text.strip()]
        if any("ended with" in text for text in screen):
            break
        shown = [text for text in screen if text.startswith(("cbatch run", "slots", "KV ", "TTFT", "TPOT", "errors"))]
        assert len(shown) == len({text.split()[0] for text in shown}), "\n".join(screen)
        assert "Ctrl-C finishes the running rows" in screen[-1]
        heights.append(len(screen))
        time.sleep(0.15)
    assert heights
    assert heights == sorted(heights)  # the lists of slots, errors and answers fill up, and nothing jumps
    end = wait_for(terminal, "ended with 3", 90)
    assert not any("Ctrl-C" in text or "waiting" in text for text in end)
    assert any("64 of 65 answered" in text for text in wait_for(terminal, "ended with 3", 1)) or len(end) <= 24
    assert len(results(tmp_path / "out")) == 65
