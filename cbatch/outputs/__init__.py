"""What a run leaves on disk: results, requests, steps and `run.json`. Knows no engine and no terminal.

A file gets its final name only when it's complete and on disk; until then it's a hidden `.name.tmp` beside it.
"""

from cbatch.outputs.comparison import write_comparison
from cbatch.outputs.directory import check_directory, output_paths, prepare_directory
from cbatch.outputs.files import WriteError
from cbatch.outputs.reproduction import write_reproduction
from cbatch.outputs.run_json import environment, utc_now, write_run_json
from cbatch.outputs.sweep import write_sweep
from cbatch.outputs.writer import OUTPUT_FORMATS, RunWriter

__all__ = [
    "OUTPUT_FORMATS",
    "RunWriter",
    "WriteError",
    "check_directory",
    "environment",
    "output_paths",
    "prepare_directory",
    "utc_now",
    "write_comparison",
    "write_reproduction",
    "write_run_json",
    "write_sweep",
]
