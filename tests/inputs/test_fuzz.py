"""Whatever the bytes, a reader gives rows and faults, or says why it can't go on."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.errors import InputError, UsageError
from cbatch.inputs import READ_FAULTS, InputOptions, read_rows
from cbatch.types import RowFault
from tests.fuzzing import fuzzing
from tests.inputs.reading import DEFAULTS
from tests.inputs.test_forms_agree import FORMS, jsonl
from tests.inputs.test_streams import zstd

ROWS: list[dict[str, Any]] = [
    {
        "prompt": f"p{n}",
        "id": f"row-{n}",
        "max_tokens": n,
        "temperature": 0.5,
        "score": n,
        "weight": n / 2,
        "label": 'a "b", c',
        "flag": n % 2 == 0,
    }
    for n in range(4)
]
VALID = {
    ".jsonl": jsonl(ROWS),
    ".jsonl.zst": zstd(jsonl(ROWS)),
    ".csv.gz": gzip.compress(FORMS[".csv"](ROWS)),
    ".txt": b"Hi\nHo\n",
    **{form: make(ROWS) for form, make in FORMS.items()},
}
_BYTES = st.binary(min_size=1, max_size=4) | st.sampled_from(
    [
        b'"',
        b"\n",
        b"\r",
        b",",
        b"\\",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\x1f\x8b\x08",
        b"null",
        b"9" * 30,
    ]
)


def mutate(data: bytes, changes: list[tuple[float, int, bytes]], end: float) -> bytes:
    for at, length, new in changes:
        place = int(at * len(data))
        data = data[:place] + new + data[place + length :]
    return data[: int(end * len(data)) or None]


MUTATED = st.builds(
    lambda form, changes, end: (form, mutate(VALID[form], changes, end)),
    st.sampled_from(list(VALID)),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8), _BYTES), max_size=4),
    st.just(1.0) | st.floats(0, 1),
)
RANDOM = st.tuples(st.sampled_from(list(VALID)), st.lists(_BYTES, max_size=30).map(b"".join))
OPTIONS: Any = st.fixed_dictionaries(
    {},
    optional={
        "where": st.sampled_from(["score > 1", "label is null", "'p' in prompt"]),
        "template": st.just("{{ prompt }}{{ score }}"),
        "sample": st.sampled_from([0.5, 2]),
    },
)


@fuzzing(0.6)
@given(MUTATED | RANDOM, OPTIONS)
def test_fuzz_a_reader_gives_rows_or_says_why_not(part: int, file: tuple[str, bytes], options: dict[str, Any]) -> None:
    form, data = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows{form}"
        path.write_bytes(data)
        last = 0
        try:
            rows = read_rows([str(path)], defaults=DEFAULTS, clock=VirtualClock(), options=InputOptions(**options))
            for item in rows:
                assert item.ref.number > last
                last = item.ref.number
                item.ref.where.encode()
                item.ref.id.encode()
                if isinstance(item, RowFault):
                    assert item.code in READ_FAULTS
        except (InputError, UsageError) as error:
            str(error).encode()
