"""How `cbatch run` begins: mistakes are told at once, and the work is done by a child process that is watched.

The parent imports neither numpy nor the native library: it starts at once, and has nothing that could make it die.
"""

from __future__ import annotations

import typer

from cbatch.cli.run_options import RunOptions
from cbatch.supervise import Link, supervise


def start(options: RunOptions) -> int:
    """Run the job, or with `--dry-run` look at it; returns the exit code. Raises `CbatchError`."""
    options.check()
    options.check_output()
    if options.dry_run:
        from cbatch.cli.dry_run import dry_run

        return dry_run(options)
    if not options.supervise:
        return _work(options, Link.alone())
    reads_stdin = "-" in options.inputs
    return supervise(
        lambda link: _work(options, link),
        stall_timeout_s=options.stall_timeout or None,
        say=lambda message: typer.echo(f"cbatch: {message}", err=True),
        again=options.again,
        stdin_fd=0 if reads_stdin else None,
        spool_dir=options.directory().absolute().parent if reads_stdin else None,
    )


def _work(options: RunOptions, link: Link) -> int:
    from cbatch.cli.job import run_job  # loads the native library

    return run_job(options, link)
