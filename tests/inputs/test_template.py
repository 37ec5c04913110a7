from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.errors import UsageError
from cbatch.inputs import template
from cbatch.inputs.fault import Fault
from cbatch.inputs.template import Template
from tests.fuzzing import fuzzing
from tests.inputs.reading import fault, row


def render(source: str, **fields: Any) -> str:
    return Template(source).render(fields)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Classify: {{ text }}\n", "Classify: Hi\n"),
        ('{{ row["odd name"] }}', "7"),
        ("{% for tag in tags %}{{ loop.index }}{{ tag }} {% endfor %}", "1a 2b "),
        ("{% for n in range(3) %}{{ n }}{% else %}none{% endfor %}", "012"),
        ("{{ text ~ 1 ~ none }}", "Hi1None"),
        ('{{ missing | default("x") }}{% if missing is defined %}y{% endif %}', "x"),
        ("{{ when.year }} {{ meta.lang }} {{ text.upper() }} {{ tags | join('+') }}", "2024 en HI a+b"),
        ("{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice(text) }}", "HiHi"),
        ("{% for a in tree recursive %}{{ a.n }}{{ loop(a.kids) }}{% endfor %}", "12"),
        ("<b>", "<b>"),
        ("{{ '%.2f' % 1.5 }} {{ '%5d' | format(7) }}{{ 'x' | center(3) }}", "1.50     7 x "),
    ],
)
def test_a_template_sees_all_fields(source: str, expected: str) -> None:
    fields = {
        "text": "Hi",
        "odd name": 7,
        "tags": ["a", "b"],
        "when": pa.scalar(datetime(2024, 5, 1, tzinfo=timezone.utc)),
        "meta": pa.scalar({"lang": "en", "x": None}),
        "tree": [{"n": 1, "kids": [{"n": 2, "kids": []}]}],
    }
    assert render(source, **fields) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ txt }}", r"'txt' is undefined; the row's fields are 'text', 'n': correct the name, or use default\(\)"),
        ("{{ text.a.b }}", "no attribute 'a'"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ text + 1 }}", "TypeError"),
        ("{{ text.__class__ }}", "unsafe"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "it calls itself too often"),
        ("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "too often|more than 1,000,000 rounds"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "more than 1,000,000 rounds",
        ),
        ("{{ range(10 ** 9) }}", "OverflowError"),
        ("{{ 10 ** 99999 }}", "too many digits"),
        ("{{ 'x' * 10 ** 9 }}", "more than 16,777,216 characters"),
        ("{{ [1] * 10 ** 9 }}", "more than"),
        ("{{ text.ljust(10 ** 9) }}", "more than"),
        ("{{ '%999999999d' % 1 }}", "more than"),
        ("{{ ('%' ~ '*d') | format(10 ** 9, 1) }}", "more than"),
        ("{{ text | center(10 ** 9) }}", "more than"),
        (
            "{% set s = namespace(x='xx') %}{% for a in range(99) %}{% set s.x = s.x ~ s.x %}{% endfor %}",
            "more than",
        ),
        (
            "{% set s = namespace(x='xx') %}{% for a in range(99) %}{% set s.x = s.x + s.x %}{% endfor %}",
            "more than",
        ),
        ("{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "more than"),
        ("{{ lipsum() }}", "'lipsum' is undefined"),
    ],
)
def test_what_goes_wrong_is_a_fault_of_the_row(source: str, message: str) -> None:
    with pytest.raises(Fault, match=message) as caught:
        render(source, text="Hi", n=1)
    assert caught.value.code == "template_failed"


def test_nothing_random_can_be_asked_for() -> None:
    with pytest.raises(UsageError, match="No filter named 'random'"):
        Template("{{ [1, 2] | random }}")


def test_rows_dont_share_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "MAX_STEPS", 5)
    found = Template("{% for n in range(3) %}{{ n }}{% endfor %}")
    assert [found.render({}) for _ in range(4)] == ["012"] * 4


def test_a_row_with_a_template_needs_no_prompt_and_carries_all() -> None:
    found = row({"text": "Hi", "prompt": 1, "messages": 2, "id": "x", "max_tokens": 3}, template="Q: {{ text }}")
    assert (found.content, found.ref.id, found.sampling.max_tokens) == ("Q: Hi", "x", 3)
    assert found.ref.carried == {"text": "Hi", "prompt": 1, "messages": 2}
    assert row("Hi", template="Q: {{ prompt }}").content == "Q: Hi"
    assert fault({"text": ""}, template="{{ text }}").code == "empty_prompt"
    assert fault({"a": 1}, template="{{ '\\ud800' }}").code == "invalid_utf8"
    assert fault({"a": 1, "id": "x"}, template="{{ b }}").ref.carried == {"a": 1}


_PARTS = st.sampled_from(
    [
        *("{{", "}}", "{%", "%}", "{#", "#}", "for x in", "endfor", "if", "else", "endif", "set x =", "macro f(x)"),
        *(
            "endmacro",
            "call f()",
            "endcall",
            "a",
            "b",
            "x",
            "row",
            "self",
            "loop",
            "range(9)",
            "range(99999)",
            "|",
            "~",
        ),
        *(
            "join",
            "list",
            "tojson",
            "sort",
            "map('upper')",
            "length",
            "center(9)",
            "(",
            ")",
            "[",
            "]",
            "'s'",
            "9",
            "99",
        ),
        *("+", "*", "**", "%", "//", ".", ",", "is defined", "not", "in", "namespace()", "cycler(1)", " ", "\n", "\0"),
    ]
)


@fuzzing(0.1)
@given(
    st.lists(_PARTS, max_size=14).map(" ".join) | st.text(max_size=40),
    st.dictionaries(st.sampled_from("abx"), st.text() | st.integers()),
)
def test_fuzz_a_template_gives_a_prompt_or_says_why_not(part: int, source: str, fields: dict[str, Any]) -> None:
    try:
        found = Template(source)
    except UsageError:
        return
    with suppress(Fault):
        assert isinstance(found.render(fields), str)
