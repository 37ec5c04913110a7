"""What a run leaves on disk: results, requests, steps and `run.json`. Knows no engine and no terminal.

A file gets its final name only when it's complete and on disk; until then it's a hidden `.name.tmp` beside it. What is
finished is in the journal within a second, and goes on from there:

    RunWriter -> journal/NNNNN.wal -> results/part-NNNNN.parquet -> (complete) merged parts, or one file
                                   -> journal/requests-, steps-  -> (closed)   requests.parquet, steps.parquet
    open_stored: mends what a crash left half done, and tells what there is
"""

from cbatch.outputs.comparison import write_comparison
from cbatch.outputs.directory import check_directory, output_paths, owns, prepare_directory, set_aside, usable
from cbatch.outputs.files import WriteError
from cbatch.outputs.merge import ORDERS
from cbatch.outputs.reproduction import write_reproduction
from cbatch.outputs.run_json import environment, read_run_json, utc_now, write_run_json
from cbatch.outputs.stored import Stored, open_stored
from cbatch.outputs.sweep import write_sweep
from cbatch.outputs.writer import OUTPUT_FORMATS, RunWriter

__all__ = [
    "ORDERS",
    "OUTPUT_FORMATS",
    "RunWriter",
    "Stored",
    "WriteError",
    "check_directory",
    "environment",
    "open_stored",
    "output_paths",
    "owns",
    "prepare_directory",
    "read_run_json",
    "set_aside",
    "usable",
    "utc_now",
    "write_comparison",
    "write_reproduction",
    "write_run_json",
    "write_sweep",
]
