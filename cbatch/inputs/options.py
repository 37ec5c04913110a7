"""What of the inputs becomes rows, and how. Checks the values; reads nothing."""

from __future__ import annotations

from dataclasses import dataclass

from cbatch.errors import UsageError
from cbatch.inputs.forms import FORMS
from cbatch.inputs.template import Template
from cbatch.inputs.where import Where

AUTO = "auto"
FORMATS = (AUTO, *FORMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """Raises `UsageError` for values that can't be, and for what `template` and `where` get wrong."""

    format: str = AUTO
    """One of `FORMATS`; `auto` goes by each file's name."""
    prompt_column: str | None = None
    """The field with the prompt, in place of `prompt` and `messages`."""
    id_column: str | None = None
    """The field with the id, in place of `custom_id` and `id`."""
    messages_column: str | None = None
    """The field with a chat, in place of `prompt` and `messages`. With `prompt_column` too, a row gives either."""
    template: str | None = None
    """Jinja2 source that makes a prompt of the row's fields."""
    where: str | None = None
    """The condition that rows have to meet (`cbatch.inputs.where`)."""
    offset: int = 0
    """Rows to leave out at the start, of those that `where` and `sample` let through."""
    limit: int | None = None
    """Rows to take at most, after `offset`."""
    sample: float | None = None
    """A share of the rows between 0 and 1, or a whole number of them: which ones, `seed` and their numbers decide."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f"--format is {self.format!r}: give one of {', '.join(FORMATS)}")
        self._check_columns()
        self._check_amounts()
        if self.template is not None:
            Template(self.template)
        if self.where is not None:
            Where(self.where)

    def _check_columns(self) -> None:
        for option in ("prompt", "id", "messages"):
            if getattr(self, f"{option}_column") == "":
                raise UsageError(f"--{option}-column is empty: give the name of a column")
        if self.prompt_column is not None and self.prompt_column == self.messages_column:
            raise UsageError(
                f"--prompt-column and --messages-column are both {self.prompt_column!r}: "
                "keep --prompt-column for plain text, --messages-column for chats"
            )
        for option in ("prompt", "messages"):
            if self.template is not None and getattr(self, f"{option}_column") is not None:
                raise UsageError(f"--template makes the prompt: leave --{option}-column out")

    def _check_amounts(self) -> None:
        if self.offset < 0:
            raise UsageError(f"--offset is {self.offset}: give 0 or more rows")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit is {self.limit}: give 1 or more rows")
        if self.sample is not None and not (0 < self.sample < 1 or (self.sample >= 1 and self.sample % 1 == 0)):
            raise UsageError(f"--sample is {self.sample:g}: give a share such as 0.1, or a whole number of rows")
