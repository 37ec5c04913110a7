"""What tuning found, on stdout: what was tried beside llama.cpp's defaults, slots, the choice and its gain."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.report.layout import Paths, facts, figures, json_line, print_endings, width_of
from cbatch.report.text import latency, one_line, percent, rate
from cbatch.tune.result import Confirmation, Tuning
from cbatch.tune.setting import describe, short_name

_CHOSEN, _OTHER = "* ", "  "


def tuning_json(tuning: Tuning, paths: Paths) -> str:
    """One JSON object in one line: `Tuning.to_dict()`, `paths` and `notes`."""
    return json_line(tuning.to_dict(), paths, tuning.notes)


def print_tuning(tuning: Tuning, paths: Paths, *, console: Console | None = None) -> None:
    """At most 80 columns wide."""
    console = console if console is not None else Console()
    width = width_of(console)
    console.print(_tried_table(tuning), width=width)
    console.print()
    console.print(_slots_table(tuning), width=width)
    console.print()
    console.print(facts(_choice(tuning)), width=width)
    print_endings(console, [*_refusals(tuning), *tuning.notes], paths)


def _tried_table(tuning: Tuning) -> Table:
    diverges = any(each.divergence is not None for each in tuning.tried)
    table = figures("tried, tok/s", ["prefill", "decode", "job", "x llama.cpp", *(["differs"] if diverges else [])])
    for each in tuning.tried:
        name = _marked(short_name(each.setting), each.setting == tuning.setting)
        if each.speeds is None:
            table.add_row(name, "-", "-", "-", "refused" if each.refused else "no time")
            continue
        over = "-" if each.over_llama_cpp is None else f"{each.over_llama_cpp:.2f}"
        differs = [percent(each.divergence)] if diverges else []
        rates = rate(each.speeds.prefill_tokens_per_s), rate(each.speeds.decode_tokens_per_s), rate(each.tokens_per_s)
        table.add_row(name, *rates, over, *differs)
    return table


def _marked(name: str, chosen: bool) -> Text:
    """Not by its colour alone, which not every terminal and nobody's file has."""
    return Text(_CHOSEN + name, "bold green") if chosen else Text(_OTHER + name)


def _slots_table(tuning: Tuning) -> Table:
    bounded = any(option.batched_tokens is not None for option in tuning.slot_options)
    rated = any(option.attainment is not None for option in tuning.slot_options)
    more = [*(["tokens a step"] if bounded else []), *(["SLO"] if rated else [])]
    table = figures("slots (predicted)", ["job tok/s", "step", *more])
    for option in tuning.slot_options:
        cells = [rate(option.tokens_per_s), latency(option.step_ns)]
        cells += [f"{option.batched_tokens:,}"] if bounded and option.batched_tokens is not None else []
        cells += [percent(option.attainment)] if rated else []
        table.add_row(_marked(str(option.slots), option == tuning.slots), *cells)
    return table


def _choice(tuning: Tuning) -> Iterator[tuple[str, str]]:
    budget = tuning.slots.batched_tokens
    stall = "" if budget is None else f", at most {budget:,} tokens a step"
    yield "* choice", f"{describe(tuning.setting)}, {_count(tuning.slots.slots)}{stall}"
    if tuning.gain is not None:
        theirs = f"{short_name(tuning.llama_cpp)}, {_count(tuning.usual_slots)}"
        yield "gain", f"{tuning.gain:.2f} times llama.cpp's defaults ({theirs})"
    if tuning.slots.attainment is not None:
        yield "SLO", _attained(tuning)
    for each in tuning.confirmations:
        yield "in turns", _in_turns(each)
    if tuning.is_default:
        yield "defaults", "the choice is what cbatch does anyway: nothing else was faster by more than noise"
    else:
        yield "defaults", f"without a profile, cbatch takes {short_name(tuning.default)}"
    error = tuning.error
    yield "model", f"off by {percent(error.mean)} of a step in the mean, on {error.steps} steps it wasn't fitted to"
    yield "took", latency(tuning.seconds * 1e9)


def _count(slots: int) -> str:
    return f"{slots} slot{'' if slots == 1 else 's'}"


def _attained(tuning: Tuning) -> str:
    """`98 % of requests within the limits, 91 % with 32 slots (predicted)`."""
    usual = [each for each in tuning.slot_options if each.slots == tuning.usual_slots and each != tuning.slots]
    others = "".join(f", {percent(each.attainment)} with {_count(each.slots)}" for each in usual)
    return f"{percent(tuning.slots.attainment)} of requests within the limits{others} (predicted)"


def _in_turns(found: Confirmation) -> str:
    """`f16 fa split 512: 1.05 times as fast as bf16 fa split 512 on 32 rows (by pairs: 1.04, 1.06); taken`."""
    if found.setting == found.usual_setting:
        ours, theirs = _count(found.slots), str(found.usual_slots)
    else:
        ours, theirs = short_name(found.setting), short_name(found.usual_setting)
    pairs = ", ".join(f"{ratio:.2f}" for ratio in found.pairs)
    told = f"{found.ratio:.2f} times as fast as {theirs} on {found.rows} rows (by pairs: {pairs})"
    return f"{ours}: {told}; {'' if found.holds else 'not '}taken"


def _refusals(tuning: Tuning) -> Iterator[str]:
    for each in tuning.tried:
        if each.refused is not None:
            yield f"{short_name(each.setting)}: {one_line(each.refused)}"
    if any(each.divergence is not None for each in tuning.tried):
        yield (
            f"differs: share of tokens that the model chose otherwise than with {short_name(tuning.default)}, "
            "given the same text before"
        )
