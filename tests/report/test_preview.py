"""A dry run in a terminal: all of it there, in its width, whatever the rows hold."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from cbatch.metrics.preview import Estimate, FaultView, MemoryFit, Piece, Preview, PromptView, TokenLengths
from cbatch.report.preview import MOST_FAULTS, preview_json, print_preview

MEMORY = MemoryFit(
    slots=32, cells_per_seq=512, total_cells=16384, kv_mode="split", kv_type="bf16", kv_bytes=360 * 2**20,
    most_cells=2048, policy="error", refused=0, prompts_cut=0, max_tokens_cut=0, outgrown=0,
)  # fmt: skip
ESTIMATE = Estimate(
    measured_s=8.04, load_s=1.2, rows_begun=57, rows_finished=31, at_once=32, prefill_tokens_per_s=1320.0,
    decode_step_ns=78e6, decode_tokens_per_s=410.0, output_tokens=(61.2, 190.0), window_s=(65.0, 201.0),
    rows_total=123_456, total_s=(790.0, 2450.0),
)  # fmt: skip
PROMPT = PromptView(
    row=1,
    id="france",
    where="prompts.jsonl:1",
    prompt_tokens=1037,
    max_tokens=256,
    truncated_tokens=0,
    pieces=(
        Piece("<|im_start|>", "special"),
        Piece("user\nWhat is the capital of France? " + "And of Spain? " * 9),
        Piece(" … 877 tokens … ", "cut"),
        Piece("日本語 \x1b[31m" * 20),
        Piece("<|im_end|>", "special"),
        Piece("\n"),
    ),
)


def fault(number: int, code: str = "invalid_json") -> FaultView:
    return FaultView(number, f"id-{number}", f"prompts.jsonl:{number}", code, "not JSON: '}' is missing, " * 5)


PREVIEW = Preview(
    rows_read=10_000,
    all_read=False,
    prompts=(PROMPT,),
    faults=tuple(fault(n, "invalid_json" if n % 2 else "empty_prompt") for n in range(2, 32)),
    lengths=TokenLengths.of([*range(20, 300), 1037, 9000]),
    memory=MEMORY,
    estimate=ESTIMATE,
    notes=("plain prompts: the model's chat template",),
)


def printed(preview: Preview, width: int = 80, encoding: str = "utf-8") -> list[str]:
    data = io.BytesIO()
    console = Console(file=io.TextIOWrapper(data, encoding, write_through=True), width=width)
    print_preview(preview, console=console)
    return [line.rstrip() for line in data.getvalue().decode(encoding).splitlines()]


def squeezed(preview: Preview) -> str:
    return " ".join(" ".join(printed(preview)).split())


def test_prompts_are_shown_with_their_line_breaks_and_control_tokens() -> None:
    lines = printed(PREVIEW)
    assert lines[0] == "Rows"
    assert lines[1] == "row 1  france  prompts.jsonl:1  1,037 tokens, max_tokens 256"
    assert lines[2] == "       <|im_start|>user↵"
    assert lines[3].startswith("       What is the capital")
    assert "… 877 tokens …" in squeezed(PREVIEW)
    assert "\x1b" not in "".join(lines)
    assert any(line.endswith("<|im_end|>↵") for line in lines)
    cut = replace(PROMPT, truncated_tokens=1500)
    assert "1,037 tokens (1,500 more cut), max_tokens" in squeezed(replace(PREVIEW, prompts=(cut,)))


def test_errors_are_told_one_by_one_and_then_counted() -> None:
    text = squeezed(PREVIEW)
    assert "Errors: 30 of 10,000 rows can't be run" in text
    assert "row 2 id-2 prompts.jsonl:2 empty_prompt: not JSON" in text
    assert f"id-{MOST_FAULTS + 1} " in text
    assert f"id-{MOST_FAULTS + 2} " not in text
    assert "+ 20 empty_prompt 10, invalid_json 10" in text
    assert "Errors" not in squeezed(replace(PREVIEW, faults=()))


def test_the_histogram() -> None:
    lines = printed(replace(PREVIEW, lengths=TokenLengths.of([10] * 8 + [11] * 4 + [12])))
    start = lines.index("Tokens of prompts: min 10  p50 10  p90 11  p99 12  max 12; 136 in all")
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["10", "█" * 40, "8"],
        ["11", "█" * 20, "4"],
        ["12", "█" * 5, "1"],
    ]
    assert "16 to 31" in squeezed(PREVIEW)
    assert "8,192 to 16,383" in squeezed(PREVIEW)
    lines = printed(replace(PREVIEW, lengths=TokenLengths.of([10] * 5000 + [12])))
    assert ["12", "▏", "1"] in [line.split() for line in lines], "a single row shows"
    assert ["11", "0"] in [line.split() for line in lines]


def test_what_fits() -> None:
    text = squeezed(PREVIEW)
    assert "32 rows at once, up to 512 KV cells each KV 360 MiB of bf16" in text
    assert "a row may fill 2,048 cells at most" in text
    assert "none: each prompt fits, and so does its output" in text
    pool = replace(MEMORY, kv_mode="unified")
    assert "each in one pool of 16,384" in squeezed(replace(PREVIEW, memory=pool))


@pytest.mark.parametrize(
    ("policy", "counts", "words"),
    [
        ("error", {"refused": 3}, "3 rows fail, their prompts are longer than that (--on-overflow error)"),
        ("error", {"refused": 3, "max_tokens_cut": 2}, "error); 2 rows have their max_tokens cut"),
        ("truncate-left", {"prompts_cut": 4}, "4 prompts lose their first tokens (--on-overflow truncate-left)"),
        ("truncate-middle", {"prompts_cut": 4}, "4 prompts lose their middles"),
        ("shift", {"outgrown": 5}, "5 rows may outgrow it and lose sight of what is older (--on-overflow shift)"),
    ],
)
def test_what_becomes_of_rows_that_do_not_fit(policy: str, counts: dict[str, int], words: str) -> None:
    memory = replace(MEMORY, policy=policy, **counts)  # type: ignore[arg-type]
    assert words in squeezed(replace(PREVIEW, memory=memory))


def test_the_time() -> None:
    text = squeezed(PREVIEW)
    assert "measured 8.0 s: 57 rows begun, 31 finished, up to 32 at once" in text
    assert "prefill 1,320 tok/s, decode 410 tok/s with 32 rows at once (78.0 ms a step)" in text
    assert "between 61 and 190 tokens a row" in text
    assert "10,000 rows between 1:05 and 3:21" in text
    assert "all rows between 13:10 and 40:50 for about 123,456; 1.2 s to begin" in text


def test_the_time_of_a_job_that_is_known() -> None:
    known = replace(ESTIMATE, output_tokens=(64.0, 64.0), window_s=(3.21, 3.24), total_s=(3.21, 3.24), rows_total=31)
    text = squeezed(replace(PREVIEW, all_read=True, rows_read=31, faults=(), estimate=known))
    assert "about 64 tokens a row all rows about 3.2 s for 31; 1.2 s to begin" in text
    assert "Looked at all rows; nothing was written." in text


def test_what_may_be_missing() -> None:
    unknown = replace(ESTIMATE, rows_total=None, total_s=None, decode_step_ns=None, decode_tokens_per_s=None)
    text = squeezed(replace(PREVIEW, estimate=unknown))
    assert "unknown: nobody can tell yet how many there are; 1.2 s to begin" in text
    assert "prefill 1,320 tok/s outputs" in text
    text = squeezed(replace(PREVIEW, prompts=(), lengths=None, estimate=None))
    assert "Time" not in text
    assert "Tokens" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_it_fits_80_columns_in_any_encoding(width: int, encoding: str) -> None:
    lines = printed(replace(PREVIEW, notes=()), width, encoding)
    assert max(cell_len(line) for line in lines) <= (min(80, width) if encoding == "utf-8" else 80)
    assert any("█" in line or "##" in line for line in lines)
    assert any("8,192" in line for line in lines)


def test_json_says_all() -> None:
    record = json.loads(preview_json(PREVIEW))
    assert record["estimate"]["total_s"] == [790.0, 2450.0]
    assert record["prompts"][0]["pieces"][0] == {"text": "<|im_start|>", "kind": "special"}
    assert len(record["faults"]) == 30
    assert record["lengths"]["max"] == 9000
    assert record["notes"] == ["plain prompts: the model's chat template"]
