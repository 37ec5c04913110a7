from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from cbatch.llama import machine, probe
from cbatch.llama.probe import REINSTALL_LINE, warning_for

# A child that works on every type but those named, at which it dies as its first argument says.
_DYING = """
import os, signal, sys, time
how, bad, names = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
for name in names:
    if name in bad and how.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, how))
    if name in bad and how == "hang":
        time.sleep(60)
    if name in bad:
        sys.exit(how)
    print(name, flush=True)
"""


def _dying(how: str, *bad: str) -> tuple[str, ...]:
    return (sys.executable, "-c", _DYING, how, ",".join(bad))


def test_this_build_works_and_is_remembered(tmp_path: Path) -> None:
    types = frozenset({"F32", "Q4_1", "Q6_K"})
    result = probe.probe(types, cache_dir=tmp_path)
    assert result.ok
    assert not result.cached
    assert result.detail == "F32: works; Q4_1: works; Q6_K: works"
    start = time.perf_counter()
    again = probe.probe(types, cache_dir=tmp_path, child=_dying("SIGSEGV", *types))
    assert time.perf_counter() - start < 0.1
    assert again.ok
    assert again.cached


def test_types_that_crash_are_told_from_those_that_work(tmp_path: Path) -> None:
    types = frozenset({"F32", "Q4_0", "Q4_1", "Q8_0"})
    result = probe.probe(types, cache_dir=tmp_path, child=_dying("SIGSEGV", "Q4_0", "Q8_0"))
    assert not result.ok
    assert result.crashed == {"Q4_0": "killed by SIGSEGV", "Q8_0": "killed by SIGSEGV"}
    assert "Q4_1: works" in result.detail
    cached = probe.probe(frozenset({"Q4_0", "F32"}), cache_dir=tmp_path)
    assert cached.cached
    assert cached.crashed == {"Q4_0": "killed by SIGSEGV"}
    assert probe.probe(frozenset({"F32"}), cache_dir=tmp_path).ok
    assert probe.probe(frozenset({"Q4_0"}), cache_dir=tmp_path, fresh=True).ok
    assert probe.probe(frozenset({"Q4_0"}), cache_dir=tmp_path).ok


def test_the_warning_names_types_and_the_repair(tmp_path: Path) -> None:
    warning = warning_for(probe.probe(frozenset({"Q4_1"}), cache_dir=tmp_path, child=_dying("SIGILL", "Q4_1")))
    assert "Q4_1 weights (killed by SIGILL)" in warning
    assert "use_extra_bufts=False" in warning
    assert warning.endswith(REINSTALL_LINE)


def test_a_hang_says_nothing_about_kernels_and_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_TIMEOUT_S", 2)
    types, start = frozenset({"F32", "Q4_0", "Q8_0"}), time.perf_counter()
    result = probe.probe(types, cache_dir=tmp_path, child=_dying("hang", "Q4_0", "Q8_0"))
    assert time.perf_counter() - start < 3.9
    assert result.ok
    assert result.unknown == dict.fromkeys(("Q4_0", "Q8_0"), "not probed: no answer within 2 s")
    assert probe.probe(frozenset({"F32"}), cache_dir=tmp_path).cached
    monkeypatch.undo()
    again = probe.probe(types, cache_dir=tmp_path)
    assert not again.cached
    assert not again.unknown


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("SIGKILL", "the child ended with code -9 (no message)"),
        ("no memory", "the child ended with code 1 (no memory)"),
    ],
)
def test_other_failures_say_nothing_about_kernels(tmp_path: Path, how: str, reason: str) -> None:
    types = frozenset({"F32", "Q4_0"})
    result = probe.probe(types, cache_dir=tmp_path, child=_dying(how, "Q4_0"))
    assert result.ok
    assert result.unknown == {"Q4_0": f"not probed: {reason}"}
    assert not probe.probe(types, cache_dir=tmp_path).cached


def test_a_type_that_gguf_does_not_know_is_not_probed(tmp_path: Path) -> None:
    result = probe.probe(frozenset({"Q99"}), cache_dir=tmp_path)
    assert result.ok
    assert "doesn't know this type" in result.unknown["Q99"]


def test_another_library_or_processor_is_probed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types, crash = frozenset({"F32"}), _dying("SIGSEGV", "F32")
    assert not probe.probe(types, cache_dir=tmp_path, child=crash).ok
    with monkeypatch.context() as patch:
        patch.setattr(machine, "cpu_flags", lambda: frozenset({"other"}))
        assert probe.probe(types, cache_dir=tmp_path).ok
    with monkeypatch.context() as patch:
        patch.setattr(probe, "library_identity", lambda: ["reinstalled"])
        assert probe.probe(types, cache_dir=tmp_path).ok
    assert not probe.probe(types, cache_dir=tmp_path).ok


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00"])
def test_a_spoilt_cache_is_no_cache(tmp_path: Path, content: str) -> None:
    probe.probe(frozenset({"F32"}), cache_dir=tmp_path)
    (cache,) = tmp_path.iterdir()
    cache.write_text(content)
    assert not probe.probe(frozenset({"F32"}), cache_dir=tmp_path).cached
    assert json.loads(cache.read_text()) == {"F32": ""}


def test_a_cache_that_can_not_be_written_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert probe.probe(frozenset({"F32"}), cache_dir=tmp_path / "file").ok


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert probe.probe(frozenset({"F32"})).ok
    assert len(list((tmp_path / "cbatch").iterdir())) == 1


def test_modules_in_the_users_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("import os; os.kill(os.getpid(), 11)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != ""])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    assert probe.probe(frozenset({"F32"}), cache_dir=tmp_path / "cache").ok
