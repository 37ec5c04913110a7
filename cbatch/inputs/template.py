"""Makes a prompt of a row's fields by a Jinja2 template, in a sandbox. Knows no chat templates.

A template can't hang the job: loops and calls are counted, and text is bounded wherever one operation could make much
of little. What isn't bounded is the time of a single filter over a row's own data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import do_format
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from cbatch.errors import UsageError
from cbatch.inputs.fault import Fault, shorten, show
from cbatch.inputs.records import plain

MAX_CHARACTERS = 1 << 24
"""Of a prompt, or of a string that the template makes on the way to it."""
MAX_STEPS = 1_000_000
"""Rounds of loops, and calls, for one row."""

_WIDE = re.compile(r"%[^%a-zA-Z]*([0-9]{8}|\*)")
"""A format that pads to a great width, or to one that a value gives."""

_ROW = "row"
"""Stands for all fields, unless one has that name: `{{ row["odd name"] }}`."""


class Template:
    """A prompt template. Raises `UsageError` where its source is wrong."""

    def __init__(self, source: str) -> None:
        self._environment = _Environment()
        try:
            tree = self._environment.parse(source)
            self._names = find_undeclared_variables(tree)
            for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
                raise UsageError(f"--template, line {node.lineno}: it can't load other templates: put all into one")
            code = self._environment.compile(_Bounds().visit(tree))
        except jinja2.TemplateSyntaxError as error:
            raise UsageError(f"--template, line {error.lineno}: {error.message}: correct it") from None
        except (RecursionError, MemoryError, SyntaxError) as error:  # Python's own, of what Jinja made
            raise UsageError(f"--template can't be compiled ({error}): make it simpler") from None
        self._template = jinja2.Template.from_code(self._environment, code, self._environment.make_globals(None))

    def render(self, fields: Mapping[str, Any]) -> str:
        """The prompt. Raises `Fault` with `template_failed` or `invalid_value`."""
        context = self._context(fields)
        self._environment.begin()
        try:
            return _bounded_join(self._template.generate(context))
        except jinja2.UndefinedError as error:
            found = ", ".join(show(name) for name in list(fields)[:8]) or "none"
            raise _failed(
                f"{error.message}; the row's fields are {found}: correct the name, or use default()"
            ) from None
        except RecursionError:
            raise _failed("it calls itself too often") from None
        except Exception as error:  # noqa: BLE001  (a template can raise anything, and only its row is to blame)
            raise _failed(f"{type(error).__name__}: {error}") from None

    def _context(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        context = {name: plain(fields[name]) for name in self._names if name in fields}
        if _ROW in self._names and _ROW not in fields:
            context[_ROW] = {name: plain(value) for name, value in fields.items()}
        return context


class _Environment(ImmutableSandboxedEnvironment):
    """Nothing in it is random, so that a row gets the same prompt each time."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
        del self.globals["lipsum"], self.filters["random"]
        self.filters |= {_COUNTED: self._counted, _JOINED: _bounded_join, "format": _bounded_format}
        self.filters |= {name: _bounded_filter(self.filters[name]) for name in ("center", "indent")}
        self._steps = 0

    def begin(self) -> None:
        """A row begins."""
        self._steps = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise SecurityError(f"it takes more than {MAX_STEPS:,} rounds of loops and calls")

    def _counted(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.step()
            yield item

    def call(self, context: Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.step()
        if isinstance(getattr(function, "__self__", None), str):
            _check_widths(args)
        return super().call(context, function, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_size(operator, left, right)
        return super().call_binop(context, operator, left, right)


_COUNTED, _JOINED = "cbatch counted", "cbatch joined"
"""Names that no template can write."""


class _Bounds(NodeTransformer):
    """Puts the bounds on loops and on `~` into a template."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, _COUNTED, [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, _JOINED, [], [], None, None, lineno=node.lineno)


def _bounded_join(parts: Iterable[Any]) -> str:
    texts, size = [], 0
    for part in parts:
        texts.append(text := str(part))
        size += len(text)
        if size > MAX_CHARACTERS:
            raise _too_long()
    return "".join(texts)


def _check_size(operator: str, left: Any, right: Any) -> None:
    """Bounds what an operator makes."""
    if operator == "**":
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > 10_000:
            raise SecurityError("a power has too many digits")
    elif operator == "%":
        _check_format(left)
    elif operator == "*":
        for sequence, times in ((left, right), (right, left)):
            if isinstance(times, int) and hasattr(sequence, "__len__") and len(sequence) * times > MAX_CHARACTERS:
                raise _too_long()
    elif hasattr(left, "__len__") and hasattr(right, "__len__") and len(left) + len(right) > MAX_CHARACTERS:
        raise _too_long()


def _check_widths(args: Iterable[Any]) -> None:
    if any(isinstance(arg, int) and arg > MAX_CHARACTERS for arg in args):
        raise _too_long()


def _check_format(text: Any) -> None:
    if isinstance(text, str) and _WIDE.search(text):
        raise _too_long()


def _bounded_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def bounded(value: Any, *args: Any, **kwargs: Any) -> Any:
        _check_widths((*args, *kwargs.values()))
        return function(value, *args, **kwargs)

    return bounded


def _bounded_format(text: Any, *args: Any, **kwargs: Any) -> Any:
    _check_format(text)
    return do_format(text, *args, **kwargs)


def _too_long() -> SecurityError:
    return SecurityError(f"it makes more than {MAX_CHARACTERS:,} characters")


def _failed(problem: str) -> Fault:
    return Fault("template_failed", f"the template fails: {shorten(problem, 300)}")
