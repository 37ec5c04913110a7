"""Which fields of a row mean something. Knows no values."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cbatch.inputs.options import InputOptions
from cbatch.inputs.parameters import NAMES


@dataclass(frozen=True, slots=True)
class FieldNames:
    """The fields with the id and the prompt; the rest are parameters or carried."""

    ids: tuple[str, ...] = ("custom_id", "id")
    """The first that isn't null counts."""
    prompt: str | None = "prompt"
    messages: str | None = "messages"
    id_required: bool = False
    """Whether a row without the id field is wrong."""
    envelopes: bool = True
    """Whether a row may be an OpenAI Batch line."""

    @classmethod
    def of(cls, options: InputOptions) -> FieldNames:
        """Those that the options ask for, else the usual ones."""
        names = cls()
        if options.id_column is not None:
            names = replace(names, ids=(options.id_column,), id_required=True)
        if options.template is not None:
            return replace(names, prompt=None, messages=None, envelopes=False)
        if options.prompt_column is not None or options.messages_column is not None:
            return replace(names, prompt=options.prompt_column, messages=options.messages_column, envelopes=False)
        return names

    @property
    def contents(self) -> tuple[str, ...]:
        """The fields that a prompt may be in."""
        return tuple(name for name in (self.prompt, self.messages) if name is not None)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of parameters; not those of which the options say otherwise."""
        return NAMES.difference(self.ids, self.contents)
