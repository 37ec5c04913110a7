"""The options of `cbatch run` as given, and what they spell. Imports nothing heavy: the parent process has them too."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cbatch.cli.options import JobOptions, OutputFormat
from cbatch.cli.read_again import read_again, results_in
from cbatch.errors import InputError, UsageError

if TYPE_CHECKING:
    from cbatch.inputs import InputOptions

ORDERS = ("input", "completion")
_FILES = {f".{form.value}": form for form in OutputFormat}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(JobOptions):
    """`cbatch run`'s options."""

    inputs: list[str]
    input_format: str = "auto"
    prompt_column: str | None = None
    id_column: str | None = None
    messages_column: str | None = None
    template: str | None = None
    """Its text, or the path of a file."""
    where: str | None = None
    sample: float | None = None
    offset: int = 0
    limit: int | None = None
    dry_run: bool = False
    retry_failed: bool = False
    supervise: bool = True
    stall_timeout: float = 300.0
    """Seconds."""
    memory_check: bool = True
    order: str = "input"
    auto: bool = True
    given: tuple[str, ...] = ()
    """Names of the options that the user gave."""

    def check(self) -> None:
        """Raise for every mistake that can be seen in the options alone."""
        JobOptions.check(self)  # super() doesn't work in a class with slots
        if self.order not in ORDERS:
            raise UsageError(f"--order is {self.order!r}: give {' or '.join(ORDERS)}")
        if not self.stall_timeout >= 0:
            raise UsageError(f"--stall-timeout is {self.stall_timeout:g}: give seconds, or 0 for never")
        if "stall_timeout" in self.given and self.stall_timeout and not self.supervise:
            raise UsageError("--stall-timeout is kept by a process that --no-supervise does without: keep one")
        if self.force and self.retry_failed:
            raise UsageError("--force starts over and --retry-failed goes on: keep one")

    def check_output(self) -> None:
        """The same of where the results are to go."""
        directory = self.directory()
        if self.output is not None and any(_is_same(self.output, name) for name in self.inputs):
            raise UsageError(f"--output {self.output} is one of the inputs: give another name")
        if found := read_again(self.inputs, self.input_format, results_in(directory, self.results_format, self.target)):
            raise UsageError(
                f"{found[0]} would be one of the inputs that {found[1]} stands for when the same command goes on: "
                "give an --output elsewhere"
            )
        if "output_format" in self.given and self.output_format is not self.results_format:
            raise UsageError(f"--output-format {self.output_format.value} can't be written to {self.target}: keep one")

    def input_options(self) -> InputOptions:
        """Raises `UsageError` for what can't be, and for a template file that can't be read."""
        from cbatch.inputs import InputOptions  # brings pyarrow, which the parent process does without

        return InputOptions(
            format=self.input_format,
            prompt_column=self.prompt_column,
            id_column=self.id_column,
            messages_column=self.messages_column,
            template=self._template_text(),
            where=self.where,
            sample=self.sample,
            offset=self.offset,
            limit=self.limit,
            seed=self.seed,
        )

    @property
    def target(self) -> Path | None:
        """The single file that the results become, where `--output` names one."""
        if self.output is None or self.output.suffix not in _FILES or os.path.isdir(self.output):
            return None
        return self.output

    @property
    def results_format(self) -> OutputFormat:
        """Of the results: as the name of the single file says, else as given."""
        return self.output_format if self.target is None else self._form_of_target

    @property
    def _form_of_target(self) -> OutputFormat:
        assert self.output is not None
        return _FILES[self.output.suffix]

    @property
    def again(self) -> str:
        """What goes on where the run broke off."""
        return "the same command without --force" if self.force else "the same command"

    def directory(self) -> Path:
        """Where to write: as given, or beside the single file, or beside the first input."""
        if self.target is not None:
            return Path(f"{self.target}.cbatch")
        if self.output is not None:
            return self.output
        first = self.inputs[0]
        if first == "-":
            return Path("stdin.cbatch")
        if len(self.inputs) == 1 and not os.path.exists(first) and not glob.has_magic(first):
            raise InputError(f"{first} can't be read: there is no such file")
        if len(self.inputs) > 1 or not (os.path.isfile(first) or os.path.isdir(first)):
            raise UsageError("several inputs, globs and pipes have no default output: give -o DIR")
        return Path(first.rstrip("/") + ".cbatch")

    def _template_text(self) -> str | None:
        if self.template is None or not os.path.isfile(self.template):
            return self.template
        try:
            return Path(self.template).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--template {self.template} can't be read: {error}") from error


def _is_same(output: Path, name: str) -> bool:
    return os.path.isfile(output) and os.path.exists(name) and os.path.samefile(output, name)
