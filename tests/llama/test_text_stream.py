from __future__ import annotations

import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.llama.text_stream import TextStream

ALPHABET = "ab\né€😀"


def run(parts: list[bytes], stop: tuple[str, ...]) -> tuple[list[str], bool]:
    """What each push gives until a stop string is complete, then what `finish` gives."""
    stream = TextStream(parts.__getitem__, stop)
    given_text: list[str] = []
    stopped = False
    for token in range(len(parts)):
        text, stopped = stream.push(token)
        given_text.append(text)
        if stopped:
            break
    return [*given_text, stream.finish()], stopped


def reference(data: bytes, stop: tuple[str, ...]) -> str:
    """Decode everything, then cut where the stop string begins that is complete first."""
    text = data.decode("utf-8", "replace")
    for end in range(1, len(text) + 1):
        starts = [end - len(s) for s in stop if text[:end].endswith(s)]
        if starts:
            return text[: min(starts)]
    return text


valid = st.text(ALPHABET, max_size=30).map(str.encode)
stops = st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3).map(tuple)


@st.composite
def cut_bytes(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> list[bytes]:
    """Bytes cut any way into tokens, empty ones too."""
    whole = draw(data)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=len(whole))))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(
    cut_bytes(
        valid | st.binary(max_size=30) | st.lists(st.sampled_from([b"a", b"\xe2", b"\x82", b"\xac"])).map(b"".join)
    ),
    stops,
)
def test_output_does_not_depend_on_how_bytes_are_cut(parts: list[bytes], stop: tuple[str, ...]) -> None:
    assert "".join(run(parts, stop)[0]) == reference(b"".join(parts), stop)


@given(cut_bytes(valid), stops)
def test_stopped_is_told_with_the_token_that_completes_the_string(parts: list[bytes], stop: tuple[str, ...]) -> None:
    texts, stopped = run(parts, stop)
    seen = b"".join(parts[: len(texts) - 1]).decode("utf-8", "ignore")
    assert stopped == any(s in seen for s in stop)
    before = b"".join(parts[: max(0, len(texts) - 2)]).decode("utf-8", "ignore")
    assert not any(s in before for s in stop)


@given(cut_bytes(valid), stops)
def test_only_what_may_begin_a_stop_string_is_held_back(parts: list[bytes], stop: tuple[str, ...]) -> None:
    stream = TextStream(parts.__getitem__, stop)
    emitted = ""
    for token in range(len(parts)):
        text, stopped = stream.push(token)
        if stopped:
            return
        emitted += text
        seen = b"".join(parts[: token + 1]).decode("utf-8", "ignore")
        held = seen[len(emitted) :]
        assert held == "" or any(s.startswith(held) for s in stop)


def test_character_comes_with_its_last_byte() -> None:
    assert run([b"\xf0\x9f", b"\x98\x80!"], ()) == (["", "😀!", ""], False)


def test_unfinished_character_is_replaced_at_the_end() -> None:
    assert run([b"a\xf0\x9f"], ()) == (["a", "\ufffd"], False)


def test_stop_string_across_tokens_is_not_emitted() -> None:
    assert run([b"say E", b"N", b"D now"], ("END",)) == (["say ", "", "", ""], True)


def test_false_start_is_emitted_later() -> None:
    assert run([b"E", b"N", b"E"], ("END",)) == (["", "", "EN", "E"], False)


def test_string_that_is_complete_first_wins() -> None:
    assert run([b"xabcd"], ("abcd", "bc")) == (["xa", ""], True)


def test_longest_of_two_that_end_together_wins() -> None:
    assert run([b"xabc"], ("bc", "abc")) == (["x", ""], True)


def test_replacement_of_the_tail_can_complete_a_stop_string() -> None:
    assert run([b"ab\xf0"], ("b\ufffd",)) == (["a", ""], False)


def test_nothing_comes_after_a_stop() -> None:
    stream = TextStream([b"x", b"aSb", b"c"].__getitem__, ("S",))
    assert [stream.push(token) for token in range(3)] == [("x", False), ("a", True), ("", True)]
    assert stream.finish() == ""


def test_finish_gives_held_text_once() -> None:
    stream = TextStream([b"E"].__getitem__, ("END",))
    stream.push(0)
    assert (stream.finish(), stream.finish()) == ("E", "")


@given(valid, cut_bytes(valid), stops)
def test_the_prompts_text_goes_before_and_holds_no_stop_string(
    prompt: bytes, parts: list[bytes], stop: tuple[str, ...]
) -> None:
    stream = TextStream(parts.__getitem__, stop, prompt)
    texts = []
    for token in range(len(parts)):
        text, stopped = stream.push(token)
        texts.append(text)
        if stopped:
            break
    texts.append(stream.finish())
    assert "".join(texts) == prompt.decode() + reference(b"".join(parts), stop)
    assert texts[0].startswith(prompt.decode())


def test_a_character_that_the_prompt_began_is_whole() -> None:
    stream = TextStream([b"\x82\xac!"].__getitem__, (), b"a\xe2")
    assert stream.push(0) == ("a€!", False)


@pytest.mark.parametrize(("stop", "most_us"), [((), 5), (("\n\n", "</answer>"), 20)])
def test_push_is_fast(stop: tuple[str, ...], most_us: float) -> None:
    stream = TextStream([b" word"].__getitem__, stop)
    seconds = min(timeit.repeat(lambda: stream.push(0), number=1000, repeat=5)) / 1000
    assert seconds * 1e6 < most_us
