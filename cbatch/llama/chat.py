"""Chat templates: messages in, prompt text out, without letting the messages write control tokens.

Knows Jinja and the conventions of Hugging Face's templates; knows no tokens, only the texts of control tokens.
A template comes with the model and runs in Jinja's sandbox: it can't reach Python, files or the network, but
nothing bounds its time and memory.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cbatch.errors import CbatchError, UsageError
from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.types import Messages

_OTHER_TEMPLATE = "give another with --chat-template FILE, or --raw"


class ChatTemplateError(CbatchError):
    """The template can't render these messages."""


class ChatTemplate:
    """A parsed chat template. Raises `UsageError` where `source` doesn't parse."""

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        kwargs: Mapping[str, Any] | None = None,
        origin: str = "the model's chat template",
        now: time.struct_time | None = None,
    ) -> None:
        """`kwargs` are the user's variables; `now` is what `strftime_now` formats, for all rows alike."""
        self.origin = origin
        if "messages" in (kwargs or {}):
            raise UsageError("template-kwargs sets 'messages', which every row brings: leave it out")
        self._variables = {
            "tools": None,  # templates ask `tools is not none`, which holds for an undefined variable
            "documents": None,
            "bos_token": bos_token,
            "eos_token": eos_token,
            **(kwargs or {}),
        }
        try:
            self._template = _environment(now or time.localtime()).from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise UsageError(
                f"{origin} doesn't parse: line {error.lineno}: {error.message}; {_OTHER_TEMPLATE}"
            ) from error

    def render(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        """The prompt of a conversation. Raises `ChatTemplateError` where the template fails on it."""
        variables = {"add_generation_prompt": add_generation_prompt, **self._variables}
        try:
            return self._template.render(messages=[dict(message) for message in messages], **variables)
        except Exception as error:  # a template can fail in any way that Python can
            reason = str(error) or type(error).__name__
            raise ChatTemplateError(f"{self.origin} fails on these messages: {reason}") from error


def load_template(model: Model, override: Path | None, kwargs: Mapping[str, Any]) -> ChatTemplate | None:
    """The template in the file `override`, else the model's own, else None. Raises `UsageError`."""
    source = model.chat_template if override is None else _read(override)
    if source is None:
        return None
    return ChatTemplate(
        source,
        bos_token=_token_text(model, C.llama_vocab_bos(model.vocab)),
        eos_token=_token_text(model, C.llama_vocab_eos(model.vocab)),
        kwargs=kwargs,
        origin="the model's chat template" if override is None else f"chat template from {override}",
    )


def with_system(messages: Messages, text: str) -> Messages:
    """`messages` with a system message of `text` in front, unless they bring their own."""
    if any(message.get("role") in ("system", "developer") for message in messages):
        return messages
    return [{"role": "system", "content": text}, *messages]


class ControlGuard:
    """Tells which control texts of a rendered conversation the template wrote.

    A control text counts as the template's only if its first character is. To see that, the characters of the
    messages that could begin one are rendered as stand-ins: then no joining, trimming or replacing in the
    template can complete a control text out of a message. (A template that builds `'<|' + role + '|>'` means it.)
    """

    def __init__(self, control_texts: Iterable[str]) -> None:
        texts = sorted(control_texts, key=len, reverse=True)
        self._control = _any_of(texts)
        # Letters and digits are too common to hide: where a control text begins with one, hide whole occurrences.
        self._starts = _any_of([text if text[0].isalnum() else text[0] for text in texts])
        firsts = sorted({text[0] for text in texts})
        # Lone surrogates: no valid text holds them.
        self._stand_ins = {first: chr(0xDC00 + i) for i, first in enumerate(firsts)}
        self._firsts = {ord(stand_in): first for first, stand_in in self._stand_ins.items()}

    def split(self, render: Callable[[Messages], str], messages: Messages) -> list[str]:
        """Render; returns by turns literal text and a control text that the template wrote.

        Raises `ChatTemplateError` if that can't be told, because the template acts on control texts in messages.
        """
        plain = render(messages)
        plain.encode()  # raises for lone surrogates, which would pass for stand-ins
        pieces = self._control.split(plain)
        hidden = self._hide(messages, self._starts)
        if hidden == list(messages):
            return pieces
        safe = self._control.split(render(hidden))
        if self._reveal("".join(safe)) == plain:
            return [self._reveal(piece) for piece in safe]
        # The template acts on what was hidden, as in `'</think>' in content`. Then the text must be the plain one
        # and its control tokens those of the safe one.
        if pieces[1::2] == safe[1::2]:
            return pieces
        exact = self._control.split(render(self._hide(messages, self._control)))
        if self._reveal("".join(exact)) == plain and exact[1::2] == safe[1::2]:
            return [self._reveal(piece) for piece in exact]
        raise ChatTemplateError(
            "the messages hold control tokens that the chat template acts on: "
            "remove them, or allow them with --parse-special"
        )

    def _hide(self, messages: Messages, pattern: re.Pattern[str]) -> list[Any]:
        def hide_first(match: re.Match[str]) -> str:
            return self._stand_ins[match[0][0]] + match[0][1:]

        return [_map_strings(message, lambda text: pattern.sub(hide_first, text)) for message in messages]

    def _reveal(self, text: str) -> str:
        return text.translate(self._firsts)


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks what training should learn; here its body is just text."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment(now: time.struct_time) -> ImmutableSandboxedEnvironment:
    """Jinja as `apply_chat_template` of Hugging Face transformers sets it up."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: time.strftime(form, now)
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own, it doesn't escape HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"chat template {path} can't be read: {error}") from error


def _token_text(model: Model, token: int) -> str:
    if token == C.LLAMA_TOKEN_NULL:
        return ""
    text: bytes = C.llama_vocab_get_text(model.vocab, token)
    return text.decode("utf-8", "replace")


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    """Matches any of `texts`, the first that fits, as group 1."""
    return re.compile("(" + ("|".join(map(re.escape, dict.fromkeys(texts))) or "(?!)") + ")")


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every string in it changed, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_map_strings(key, change): _map_strings(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map_strings(item, change) for item in value]
    return value
