"""What tuning found, on stdout: what was tried beside llama.cpp's defaults, slots, the choice and its gain."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.report.layout import Paths, facts, figures, json_line, print_endings, width_of
from cbatch.report.text import latency, one_line, percent, rate
from cbatch.tune.result import Tuning
from cbatch.tune.setting import Setting


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
    names = ["prefill", "decode", "job tok/s", "x llama.cpp", *(["differs"] if diverges else [])]
    table = figures("tried", names)
    for each in tuning.tried:
        name = Text(_name(each.setting), "bold green" if each.setting == tuning.setting else "")
        if each.speeds is None:
            table.add_row(name, "-", "-", "-", "refused" if each.refused else "no time")
            continue
        over = "-" if each.over_llama_cpp is None else f"{each.over_llama_cpp:.2f}"
        differs = [percent(each.divergence)] if diverges else []
        rates = rate(each.speeds.prefill_tokens_per_s), rate(each.speeds.decode_tokens_per_s), rate(each.tokens_per_s)
        table.add_row(name, *rates, over, *differs)
    return table


def _name(setting: Setting) -> str:
    """Short: `bf16 fa split 512`."""
    flash = {"on": "fa", "off": "no fa", "auto": "fa auto"}[setting.flash_attn]
    threads = "" if setting.threads is None else f" {setting.threads} threads"
    return f"{setting.kv_type} {flash} {setting.kv_mode} {setting.ubatch}{threads}"


def _slots_table(tuning: Tuning) -> Table:
    bounded = any(option.batched_tokens is not None for option in tuning.slot_options)
    rated = any(option.attainment is not None for option in tuning.slot_options)
    more = [*(["tokens a step"] if bounded else []), *(["SLO"] if rated else [])]
    table = figures("slots (predicted)", ["job tok/s", "step", *more])
    for option in tuning.slot_options:
        cells = [rate(option.tokens_per_s), latency(option.step_ns)]
        cells += [f"{option.batched_tokens:,}"] if bounded and option.batched_tokens is not None else []
        cells += [percent(option.attainment)] if rated else []
        table.add_row(Text(str(option.slots), "bold green" if option == tuning.slots else ""), *cells)
    return table


def _choice(tuning: Tuning) -> Iterator[tuple[str, str]]:
    kept = "; cbatch's defaults: nothing else was faster by more than noise" if tuning.is_default else ""
    budget = tuning.slots.batched_tokens
    stall = "" if budget is None else f", at most {budget:,} tokens a step"
    yield "choice", f"{_name(tuning.setting)}, {tuning.slots.slots} slots{stall}{kept}"
    if tuning.gain is not None:
        yield "gain", f"{tuning.gain:.2f} times llama.cpp's defaults ({_name(tuning.llama_cpp)}, 32 slots)"
    if tuning.confirmed is not None:
        pairs = ", ".join(f"{ratio:.2f}" for ratio in tuning.confirmed.ratios)
        times = f"{tuning.confirmed.seconds:.1f} s, predicted {tuning.confirmed.predicted_s:.1f} s"
        yield "confirmed", f"{pairs} times cbatch's defaults, on {tuning.confirmed.rows} rows in turns ({times})"
    error = tuning.error
    yield "model", f"off by {percent(error.mean)} of a step in the mean, on {error.steps} steps it wasn't fitted to"
    yield "took", f"{tuning.seconds:.0f} s"


def _refusals(tuning: Tuning) -> Iterator[str]:
    for each in tuning.tried:
        if each.refused is not None:
            yield f"{_name(each.setting)}: {one_line(each.refused)}"
