from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.traces.formats.format import BadRow
from cbatch.traces.formats.timestamps import parse_timestamp

MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2099, 12, 30))  # noqa: DTZ001


@given(MOMENTS, st.integers(0, 10**9 - 1), st.integers(0, 9), st.sampled_from(" T"), st.integers(-839, 839) | st.none())
def test_every_way_to_write_a_time_is_read_to_the_nanosecond(
    moment: datetime, ns: int, digits: int, between: str, east: int | None
) -> None:
    ns -= ns % 10 ** (9 - digits)
    text = moment.replace(microsecond=0).isoformat(between)
    if digits:
        text += f".{ns:09d}"[: digits + 1]
    zone = timezone.utc if east is None else timezone(timedelta(minutes=east))
    if east is not None:
        text += f"{'-' if east < 0 else '+'}{abs(east) // 60:02d}:{abs(east) % 60:02d}"
    seconds = (moment.replace(microsecond=0, tzinfo=zone) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(
        seconds=1
    )
    found, form = parse_timestamp(text)
    assert found == seconds * 10**9 + ns
    assert form.startswith("naive" if east is None else "times with a zone")
    assert form.endswith(f"{digits} fractional digits" if digits else "no fraction")


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-16T18:17:03Z",
        "2023-11-16 18:17:03+00:00",
        "2023-11-16 18:17:03+0000",
        " 2023-11-16 18:17:03 ",
        "2023-11-16 16:47:03-01:30",
    ],
)
def test_the_same_second(text: str) -> None:
    assert parse_timestamp(text)[0] == 1_700_158_623 * 10**9


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("16.11.2023 18:17", "the time is '16.11.2023 18:17': write it like 2023-11-16 18:17:03.9799600"),
        ("2023-02-29 00:00:00", "the time is '2023-02-29"),
        ("2023-11-16 24:00:00", "the time is"),
        ("2023-11-16 18:17:03.1234567890", "at most 9 digits"),
        ("0001-01-01 00:00:00", "year from 1970 to 2099"),
        ("٢٠٢٣-11-16 18:17:03", "the time is"),
        ("", "the time is ''"),
        (17, "the time is 17"),
        (None, "the time is null"),
    ],
)
def test_what_is_no_time_is_shown(value: object, message: str) -> None:
    with pytest.raises(BadRow) as caught:
        parse_timestamp(value)
    assert message in str(caught.value)


@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d)?", fullmatch=True))
def test_any_text_is_a_time_or_a_bad_row(text: str) -> None:
    try:
        ns, _ = parse_timestamp(text)
    except BadRow:
        return
    assert -(10**14) < ns < 2**62
