from __future__ import annotations

import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.llama.text_stream import TextStream

ALPHABET = "ab\né€😀"


def run(parts: list[bytes], stop: tuple[str, ...], prompt: bytes = b"") -> tuple[str, int | None]:
    """The text, and which token completed a stop string, after which none is pushed."""
    stream = TextStream(parts.__getitem__, stop, prompt)
    last = next((token for token in range(len(parts)) if stream.push([token])), None)
    return stream.finish(), last


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
    assert run(parts, stop)[0] == reference(b"".join(parts), stop)


@given(cut_bytes(valid), stops)
def test_pushed_at_once_or_one_by_one_is_the_same(parts: list[bytes], stop: tuple[str, ...]) -> None:
    stream = TextStream(parts.__getitem__, stop)
    text, last = run(parts, stop)
    assert stream.push(range(len(parts))) == (last is not None)
    assert stream.finish() == text


@given(cut_bytes(valid), stops)
def test_stopped_is_told_with_the_token_that_completes_the_string(parts: list[bytes], stop: tuple[str, ...]) -> None:
    _, last = run(parts, stop)
    ends = range(len(parts)) if last is None else range(last)
    before = [b"".join(parts[: end + 1]).decode("utf-8", "ignore") for end in ends]
    assert not any(s in text for text in before for s in stop)
    assert last is None or any(s in b"".join(parts[: last + 1]).decode("utf-8", "ignore") for s in stop)


def test_a_character_of_several_tokens() -> None:
    assert run([b"\xf0\x9f", b"\x98\x80!"], ()) == ("😀!", None)


def test_unfinished_character_is_replaced_at_the_end() -> None:
    assert run([b"a\xf0\x9f"], ()) == ("a\ufffd", None)


def test_stop_string_across_tokens() -> None:
    assert run([b"say E", b"N", b"D now"], ("END",)) == ("say ", 2)


def test_false_start_stays() -> None:
    assert run([b"E", b"N", b"E"], ("END",)) == ("ENE", None)


def test_string_that_is_complete_first_wins() -> None:
    assert run([b"xabcd"], ("abcd", "bc")) == ("xa", 0)


def test_longest_of_two_that_end_together_wins() -> None:
    assert run([b"xabc"], ("bc", "abc")) == ("x", 0)


def test_replacement_of_the_tail_can_complete_a_stop_string() -> None:
    assert run([b"ab\xf0"], ("b\ufffd",)) == ("a", None)


def test_nothing_comes_after_a_stop() -> None:
    stream = TextStream([b"x", b"aSb", b"c"].__getitem__, ("S",))
    assert [stream.push([token]) for token in range(3)] == [False, True, True]
    assert stream.finish() == "xa"


def test_text_can_be_had_twice() -> None:
    stream = TextStream([b"E"].__getitem__, ("END",))
    stream.push([0])
    assert (stream.finish(), stream.finish()) == ("E", "E")


@given(valid, cut_bytes(valid), stops)
def test_the_prompts_text_goes_before_and_holds_no_stop_string(
    prompt: bytes, parts: list[bytes], stop: tuple[str, ...]
) -> None:
    assert run(parts, stop, prompt)[0] == prompt.decode() + reference(b"".join(parts), stop)


def test_a_character_that_the_prompt_began_is_whole() -> None:
    assert run([b"\x82\xac!"], (), b"a\xe2") == ("a€!", None)


@pytest.mark.parametrize(("stop", "most_us"), [((), 5), (("\n\n", "</answer>"), 20)])
def test_push_is_fast(stop: tuple[str, ...], most_us: float) -> None:
    stream = TextStream([b" word"].__getitem__, stop)
    seconds = min(timeit.repeat(lambda: stream.push([0]), number=1000, repeat=5)) / 1000
    assert seconds * 1e6 < most_us
