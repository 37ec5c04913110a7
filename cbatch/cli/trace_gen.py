"""What `cbatch trace gen` does: a trace from distributions and a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cbatch.cli.trace_arrivals import arrival_process
from cbatch.cli.trace_file import check_output, say_written, write_trace
from cbatch.errors import UsageError
from cbatch.traces.generate import GenerateConfig, generate
from cbatch.traces.parse import parse_lengths, parse_priorities


@dataclass(frozen=True, slots=True, kw_only=True)
class GenOptions:
    """`cbatch trace gen`'s options, one field each; see its help."""

    output: Path
    arrival: str | None
    request_rate: float | None
    burstiness: float | None
    num_requests: int | None
    duration: float | None
    prompt_tokens: str
    output_tokens: str
    prefix_share: float
    num_prefixes: int | None
    prefix_block: int | None
    priorities: str | None
    seed: int
    force: bool

    def config(self) -> GenerateConfig:
        """Raises `UsageError`, and `InputError` for a trace to take lengths from."""
        return GenerateConfig(
            arrival_process(self.arrival, self.request_rate, self.burstiness),
            parse_lengths(self.prompt_tokens, "prompt_tokens"),
            parse_lengths(self.output_tokens, "output_tokens"),
            num_requests=self.num_requests,
            duration_s=self.duration,
            prefix_share=self.prefix_share,
            seed=self.seed,
            **self._given(),
        )

    def _given(self) -> dict[str, Any]:
        """What has a default in the configuration."""
        prefixes = {"num_prefixes": self.num_prefixes, "prefix_block": self.prefix_block}
        given: dict[str, Any] = {name: value for name, value in prefixes.items() if value is not None}
        if given and self.prefix_share == 0:
            option = f"--{next(iter(given)).replace('_', '-')}"
            raise UsageError(f"{option} says nothing while no prefix is shared: give --prefix-share, such as 0.5")
        if self.priorities is not None:
            given["priorities"] = parse_priorities(self.priorities)
        return given


def gen_trace(options: GenOptions) -> None:
    """Write the trace and say what it is like."""
    check_output(options.output, options.force)
    config = options.config()
    changes: Counter[str] = Counter()
    manifest = config.manifest(changes)
    if_empty = f"no request arrives within --duration {options.duration}: give a longer one, or a higher --request-rate"
    stats = write_trace(options.output, generate(config, changes), manifest, if_empty=if_empty)
    say_written(options.output, stats, manifest, changes)
    if options.prefix_share > 0 and not stats.reusable_tokens:
        typer.echo(
            "  reuse: none, since no prompt begins with a block of one before it: "
            "give a larger --prefix-share, a smaller --prefix-block, or a smaller --num-prefixes"
        )
