from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from cbatch.report.trace_show import print_trace_stats
from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.generate import GenerateConfig, generate
from cbatch.traces.lengths import Fixed, Uniform
from cbatch.traces.stats import TraceStats
from cbatch.traces.trace import SECOND, Manifest, TraceRequest


def printed(stats: TraceStats, manifest: Manifest, width: int = 80, encoding: str = "utf-8") -> list[str]:
    data = io.BytesIO()
    console = Console(file=io.TextIOWrapper(data, encoding, write_through=True), width=width)
    print_trace_stats(stats, manifest, console=console)
    return [line.rstrip() for line in data.getvalue().decode(encoding).splitlines()]


def squeezed(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def generated(kind: str = "poisson", burstiness: float | None = None) -> tuple[TraceStats, Manifest]:
    arrival = ArrivalProcess(kind, 4.0, burstiness)
    config = GenerateConfig(arrival, Uniform(10, 1000), Fixed(64), num_requests=2000, prefix_share=0.5)
    changes: Counter[str] = Counter()
    return TraceStats.of(generate(config, changes)), config.manifest(changes)


def every(gap_ns: int, count: int) -> TraceStats:
    return TraceStats.of(TraceRequest(n * gap_ns, prompt_tokens=5, output_tokens=7) for n in range(count))


def test_a_generated_trace() -> None:
    stats, manifest = generated()
    text = squeezed(
        printed(stats, replace(manifest, transforms=("speedup 2",), changes={"outputs_cut": 12, "none": 0}))
    )
    assert stats.request_rate is not None
    assert f"rate {stats.request_rate:.2f} requests/s, made for 4.00" in text
    assert "arrivals like Poisson, gaps vary by" in text
    assert "outputs 64 tokens each; 128,000 tokens in all" in text
    assert (
        f"reuse {stats.reusable_tokens / stats.prompt_tokens.total * 100:.0f} % of" in text
        if stats.prompt_tokens
        else False
    )
    assert "made generated, arrival (poisson, request_rate 4.0), prompt_tokens (uniform, low 10" in text
    assert "seed 0 then speedup 2 changed 12 outputs cut" in text
    assert "priorities" not in text.split("made")[0]


def test_the_highest_column_is_the_fullest_bin() -> None:
    arrivals = [0, 1, 2, 3, 4, 5, 5, 5, 6, 7]
    stats = TraceStats.of(TraceRequest(s * SECOND, prompt_tokens=1) for s in arrivals)
    lines = printed(stats, Manifest())
    top = next(line for line in lines if line.startswith("arrivals      "))
    assert top.split()[1] == str(max(stats.arrivals.counts if stats.arrivals else ()))
    assert stats.arrivals is not None
    peak = stats.arrivals.counts.index(3)
    assert top[16 + peak] == "█"
    assert top.count("█") == 1
    assert "0                                                        7 s" in "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "burstiness", "words"),
    [
        ("poisson", None, "like Poisson"),
        ("gamma", 0.25, "burstier than"),
        ("gamma", 4.0, "smoother than"),
        ("constant", None, "evenly"),
    ],
)
def test_burstiness_in_words(kind: str, burstiness: float | None, words: str) -> None:
    assert f"arrivals {words}" in squeezed(printed(*generated(kind, burstiness)))


def test_a_few_requests_are_not_called_bursty() -> None:
    stats = replace(every(SECOND, 10), gap_cv=1.5)
    assert "like Poisson" in squeezed(printed(stats, Manifest()))
    assert "burstier than Poisson" in squeezed(printed(replace(stats, num_requests=1000), Manifest()))


def test_what_a_trace_may_lack() -> None:
    requests = [
        TraceRequest(0, prompt="x"),
        TraceRequest(0, prompt_tokens=5, priority=3, tenant="a\x1b", session_id="s"),
    ]
    lines = printed(TraceStats.of(requests), Manifest())
    assert lines == [
        "requests    2 in 0.0 s",
        "rate        - requests/s",
        "arrivals    all at once",
        "prompts     5 tokens each; 5 tokens in all; 1 given as text",
        "outputs     2 until the model stops",
        "priorities  0: 1, 3: 1",
        "sessions    1",
        "tenants     a�: 1",
        "made        unknown: the file doesn't say",
    ]
    assert printed(TraceStats.of([]), Manifest())[0] == "requests  0 in 0.0 s"


def test_many_tenants_are_counted() -> None:
    requests = [TraceRequest(n, prompt_tokens=1, tenant=str(n % 12)) for n in range(24)]
    assert "7: 2, and 4 more" in squeezed(printed(TraceStats.of(requests), Manifest()))


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_it_fits_80_columns_in_any_encoding(width: int, encoding: str) -> None:
    stats, manifest = generated()
    lines = printed(replace(stats, tenants={"日本語" * 50: 1}), manifest, width, encoding)
    assert max(cell_len(line) for line in lines) <= (min(80, width) if encoding == "utf-8" else 80)
    assert any("█" in line or "##" in line for line in lines)
