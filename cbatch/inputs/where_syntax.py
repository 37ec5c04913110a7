"""The language of --where: Python's, with SQL's spellings. Parses text to a checked syntax tree; computes nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from cbatch.errors import UsageError
from cbatch.inputs.fault import shorten, show

_TOKENS = re.compile(
    r"""(?P<string>"(?:\\.|""|[^"\\])*"|'(?:\\.|''|[^'\\])*')"""
    r"""|`(?P<quoted>[^`]+)`|(?P<word>[^\W\d]\w*)|(?P<operator><>|[=!<>]=|=)""",
    re.DOTALL,
)
_WORDS = {"and": "and", "or": "or", "not": "not", "is": "is", "in": "in"} | {
    "null": "None",
    "none": "None",
    "true": "True",
    "false": "False",
}
_OPERATORS = {"=": "==", "<>": "!="}
_EXAMPLE = """give a condition such as score > 3 and lang in ("en", "fr")"""
_MAX_LENGTH = 10_000

_NODES = (
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div),
    *(ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.List, ast.Call),
)


def parse_where(text: str) -> ast.expr:
    """The condition's tree, of `_NODES` only; fields with odd names are calls of `field`. Raises `UsageError`."""
    if len(text) > _MAX_LENGTH:
        raise UsageError(f"--where has {len(text):,} characters: {_MAX_LENGTH:,} are the most")
    try:
        tree = ast.parse(_TOKENS.sub(_respell, text).strip(), mode="eval").body
        lists = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in _lists(node, text)}
        for node in ast.walk(tree):
            _check(node, text)
            if isinstance(node, (ast.Tuple, ast.List)) and id(node) not in lists:
                raise refused(text, "has a list, which may stand only behind in")
    except SyntaxError as error:
        raise refused(text, f"isn't a condition ({error.msg})") from None
    except (ValueError, RecursionError, MemoryError):  # a NUL; too many parentheses
        raise refused(text, "isn't a condition") from None
    return tree


def fields_of(tree: ast.expr) -> tuple[str, ...]:
    """The names of the fields that it looks at, in order."""
    return tuple(dict.fromkeys(_fields(tree)))


def field_name(node: ast.expr) -> str | None:
    """The field that the node stands for, if it stands for one."""
    match node:
        case ast.Name(name):
            return name
        case ast.Call(ast.Name("field"), [ast.Constant(str(name))]):
            return name
    return None


def refused(text: str, problem: str) -> UsageError:
    """An error about the condition as a whole."""
    return UsageError(f"--where {shorten(text, 80)!r} {problem}: {_EXAMPLE}")


def _respell(found: re.Match[str]) -> str:
    text = found.group()
    if found["string"] is not None:
        quote = text[0]
        return quote + text[1:-1].replace(quote * 2, f"\\{quote}").replace("\n", "\\n") + quote
    if found["quoted"] is not None:
        return f"field({found['quoted']!r})"
    if found["word"] is not None:
        return _WORDS.get(text.lower(), text)
    return _OPERATORS.get(text, text)


def _check(node: ast.AST, text: str) -> None:
    if not isinstance(node, _NODES):
        raise refused(text, f"can't be computed: {type(node).__name__} isn't supported")
    if isinstance(node, ast.Call) and field_name(node) is None and not _is_len(node):
        raise refused(text, 'calls something: only len(text) and field("odd name") can be called')
    if isinstance(node, ast.Constant) and not _is_plain(node.value):
        raise refused(text, f"holds {show(node.value)}, which no field can be compared with")


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value is None or isinstance(value, (str, float))


def _lists(node: ast.Compare, text: str) -> Iterator[ast.expr]:
    """What stands behind in, where it is a list; checks what stands behind is."""
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, (ast.Is, ast.IsNot)) and not (isinstance(right, ast.Constant) and right.value is None):
            raise refused(text, "has is before something else than null: write ==")
        if isinstance(operator, (ast.In, ast.NotIn)):
            if isinstance(right, (ast.Tuple, ast.List)):
                if not all(map(_is_literal, right.elts)):
                    raise refused(text, "has a list of something else than numbers and strings")
                yield right
            elif not (isinstance(left, ast.Constant) and isinstance(left.value, str)):
                raise refused(text, 'has in without a list: write lang in ("en", "fr"), or "refund" in text')
        left = right


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)


def _is_len(node: ast.Call) -> bool:
    match node:
        case ast.Call(ast.Name("len"), [ast.Name() | ast.Call()], []):
            return True
    return False


def _fields(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.expr) and (name := field_name(node)) is not None:
        yield name
        return
    inner = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    for child in inner:
        yield from _fields(child)
