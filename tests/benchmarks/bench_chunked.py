"""What chunked prefill is worth to running decodes: long prompts arrive among 12 of them; whole against chunks of 256.

python -m tests.benchmarks.bench_chunked
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from cbatch.traces.trace import Manifest, TraceRequest
from cbatch.traces.writer import TraceWriter

MS = 1_000_000


def write_trace(path: Path) -> None:
    """12 short prompts with 200 output tokens each, a fifth of a second apart; at 6 and 18 s one of 2,000 tokens."""
    running = [TraceRequest(n * 200 * MS, prompt_tokens=32, output_tokens=200) for n in range(12)]
    long = [TraceRequest(at * 1000 * MS, prompt_tokens=2000, output_tokens=8) for at in (6, 18)]
    with TraceWriter(path, Manifest(source={"kind": "long prompts among decodes"})) as writer:
        for request in [*running, *long]:
            writer.add(request)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "long.parquet"
        write_trace(trace)
        policies = ("--policies", "continuous,continuous+chunked", "--repeat", "3", "--no-report", "-q")
        subprocess.run([sys.executable, "-m", "cbatch", "compare", str(trace), *policies], check=True)


if __name__ == "__main__":
    main()
