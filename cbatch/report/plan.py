"""What a job will take, on stdout: what a dry run tells of it, its time by the cost model, and what would be faster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from cbatch.report.layout import facts, print_endings, width_of
from cbatch.report.preview import between, print_preview, seconds
from cbatch.report.text import percent
from cbatch.tune.plan import JobTime, Plan


def plan_json(plan: Plan) -> str:
    """One JSON object in one line: the fields of `Plan`."""
    return json.dumps(asdict(plan), allow_nan=False)


def print_plan(plan: Plan, *, console: Console | None = None) -> None:
    """At most 80 columns wide."""
    console = console if console is not None else Console()
    print_preview(plan.preview, console=console)
    if plan.time is not None:
        console.print()
        console.print(Text("Time", style="bold"), width=width_of(console))
        console.print(facts(_time(plan, plan.time)), width=width_of(console))
    print_endings(console, [f"settings: {plan.settings}"], {})


def _time(plan: Plan, time: JobTime) -> Iterator[tuple[str, str]]:
    about = "" if plan.preview.all_read else "about "
    rows = f"{about}{time.rows:,} rows" if time.known_rows else f"the first {time.rows:,} rows"
    outputs = between(*time.output_tokens, lambda tokens: f"{tokens:,.0f}")
    yield "work", f"{rows}, {time.prompt_tokens:,} prompt tokens, outputs of {outputs} tokens"
    yield "time", f"{between(*time.seconds, seconds)}, and the model to load"
    yield "by", f"step costs measured on {time.measured}; taken to be off by {percent(time.doubt)} at most"
    if time.output_tokens[0] < time.output_tokens[1]:
        yield "outputs", "how long they get isn't known: --output-len says it, run --dry-run tries rows"
    for each in plan.suggestions:
        yield "faster", f"{each.option} would save {percent(each.saved)}"
    if not plan.suggestions:
        yield "faster", "nothing that the cost model knows of"
