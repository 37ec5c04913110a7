"""Computes a condition's syntax tree, on arrays or to an expression of Arrow. Knows types; parses nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from cbatch.inputs.where_syntax import field_name, fields_of

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: pc.add,
    ast.Sub: pc.subtract,
    ast.Mult: pc.multiply,
    ast.Div: pc.divide,
}


class Mismatch(Exception):
    """The condition does something that a field's type doesn't allow."""

    def __init__(self, problem: str, fields: tuple[str, ...]) -> None:
        super().__init__(problem)
        self.problem = problem
        """Without the fields and what they are."""
        self.fields = fields


class Column(NamedTuple):
    """What a field's name stands for."""

    value: Any
    """An `Array`, or an `Expression`."""
    type: pa.DataType


class _Operand(NamedTuple):
    value: Any
    """An `Array`, `Scalar` or `Expression`; None for a literal, which takes the type of what it is compared with."""
    type: pa.DataType
    fields: tuple[str, ...] = ()
    literal: Any = None

    @property
    def kind(self) -> str:
        return _kind(self.type)


class Evaluator:
    """`wrap` makes of a scalar what stands for it beside the columns."""

    def __init__(self, columns: Mapping[str, Column], wrap: Callable[[Any], Any]) -> None:
        self._columns = columns
        self._wrap = wrap
        self._null = wrap(pa.scalar(None, pa.bool_()))

    def condition(self, node: ast.expr) -> Any:
        """Its truth: bool, null included. Raises `Mismatch`."""
        found = self._operand(node)
        if found.kind == "null":
            return self._null
        if found.kind != "bool":
            raise Mismatch(f"{found.kind} is no condition by itself", found.fields)
        return self._value(found)

    def _operand(self, node: ast.expr) -> _Operand:
        if (name := field_name(node)) is not None:
            return self._field(name)
        match node:
            case ast.Constant(value):
                literal: Any = value
                return _Operand(None, pa.scalar(literal).type, (), literal)
            case ast.UnaryOp(ast.USub(), inner):
                return self._negated(self._operand(inner))
            case ast.BinOp(left, op, right):
                return self._computed(_ARITHMETIC[type(op)], self._operand(left), self._operand(right))
            case ast.Call(_, [inner]):
                return self._length(self._operand(inner))
        return self._combined(node)

    def _combined(self, node: ast.expr) -> _Operand:
        match node:
            case ast.BoolOp(op, parts):
                join = pc.and_kleene if isinstance(op, ast.And) else pc.or_kleene
                return self._truth(reduce(join, map(self.condition, parts)), node)
            case ast.UnaryOp(ast.Not(), inner):
                return self._truth(pc.invert(self.condition(inner)), node)
            case ast.Compare(left, ops, rights):
                pairs = zip(ops, (left, *rights[:-1]), rights, strict=True)
                return self._truth(reduce(pc.and_kleene, (self._compare(*pair) for pair in pairs)), node)
        raise AssertionError(node)

    def _truth(self, value: Any, node: ast.expr) -> _Operand:
        return _Operand(value, pa.bool_(), fields_of(node))

    def _field(self, name: str) -> _Operand:
        value, kind = self._columns[name]
        if types.is_string_view(kind):  # which not every function takes
            value, kind = value.cast(pa.string()), pa.string()
        return _Operand(value, kind, (name,))

    def _negated(self, number: _Operand) -> _Operand:
        if number.literal is not None and number.kind == "a number":
            return number._replace(literal=-number.literal)
        return self._computed(pc.subtract, _Operand(None, pa.int64(), (), 0), number)

    def _computed(self, operation: Callable[[Any, Any], Any], left: _Operand, right: _Operand) -> _Operand:
        for side in (left, right):
            if side.kind not in ("a number", "null"):
                raise Mismatch(f"no arithmetic is done with {side.kind}", left.fields + right.fields)
        fields = left.fields + right.fields
        if "null" in (left.kind, right.kind):
            return _Operand(self._null, pa.null(), fields)
        return _Operand(operation(self._double(left), self._double(right)), pa.float64(), fields)

    def _length(self, text: _Operand) -> _Operand:
        if text.kind == "null":
            return text
        if text.kind != "text":
            raise Mismatch(f"{text.kind} has no length", text.fields)
        return _Operand(pc.utf8_length(self._value(text)), pa.int32(), text.fields)

    def _compare(self, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Any:
        if isinstance(op, (ast.NotIn, ast.IsNot)):
            return pc.invert(self._compare(ast.In() if isinstance(op, ast.NotIn) else ast.Is(), left, right))
        found = self._operand(left)
        if isinstance(op, ast.Is):
            return self._is_null(found)
        if isinstance(op, ast.In):
            return self._is_in(found, right)
        return self._compared(_COMPARE[type(op)], found, self._operand(right))

    def _is_in(self, found: _Operand, right: ast.expr) -> Any:
        if not isinstance(right, (ast.Tuple, ast.List)):
            return self._contains(self._operand(right), found)
        options = [self._operand(option) for option in right.elts]
        checks = [
            self._is_null(found) if option.kind == "null" else self._compared(pc.equal, found, option)
            for option in options
        ]
        return reduce(pc.or_kleene, checks, self._wrap(pa.scalar(False)))

    def _contains(self, text: _Operand, part: _Operand) -> Any:
        if text.kind == "null":
            return self._null
        if text.kind != "text":
            raise Mismatch(f"{text.kind} holds no text", text.fields)
        return pc.match_substring(self._value(text), pattern=part.literal)

    def _is_null(self, found: _Operand) -> Any:
        return self._wrap(pa.scalar(found.kind == "null")) if found.value is None else pc.is_null(found.value)

    def _compared(self, compare: Callable[[Any, Any], Any], left: _Operand, right: _Operand) -> Any:
        if "null" in (left.kind, right.kind):
            return self._null
        return compare(*self._alike(left, right))

    def _alike(self, left: _Operand, right: _Operand) -> tuple[Any, Any]:
        """Both as values that can be compared."""
        if left.kind == right.kind == "a number":
            return self._numbers(left, right)
        if left.kind == "a time" and right.literal is not None:
            return left.value, self._time(left, right)
        if right.kind == "a time" and left.literal is not None:
            return self._time(right, left), right.value
        if left.kind != right.kind or left.kind not in ("text", "bool", "a time"):
            raise Mismatch(f"{left.kind} can't be compared with {right.kind}", left.fields + right.fields)
        return self._value(left), self._value(right)

    def _numbers(self, left: _Operand, right: _Operand) -> tuple[Any, Any]:
        """A literal takes the other's type where that holds it; else both are doubles."""
        if right.literal is not None and _holds(left.type, right.literal):
            return left.value if left.literal is None else self._value(left), self._scalar(right.literal, left.type)
        if left.literal is not None and _holds(right.type, left.literal):
            return self._scalar(left.literal, right.type), right.value
        if left.type == right.type and left.literal is None and right.literal is None:
            return left.value, right.value
        return self._double(left), self._double(right)

    def _time(self, column: _Operand, literal: _Operand) -> Any:
        try:
            return self._wrap(_as_time(pa.scalar(literal.literal), column.type))
        except pa.ArrowException:
            given = repr(literal.literal)
            raise Mismatch(f"{given} isn't a value of type {column.type}", column.fields) from None

    def _double(self, number: _Operand) -> Any:
        if number.literal is not None:
            return self._scalar(float(number.literal), pa.float64())
        return number.value if number.type == pa.float64() else number.value.cast(pa.float64(), safe=False)

    def _value(self, operand: _Operand) -> Any:
        return operand.value if operand.literal is None else self._scalar(operand.literal, operand.type)

    def _scalar(self, value: Any, kind: pa.DataType) -> Any:
        return self._wrap(pa.scalar(float(value) if types.is_floating(kind) else value, kind))


def _kind(kind: pa.DataType) -> str:
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "a number"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return "a time"
    return "null" if types.is_null(kind) else "bool" if types.is_boolean(kind) else f"a {kind}"


def _holds(kind: pa.DataType, literal: float) -> bool:
    """Whether a column of the type is compared with the number as it is."""
    if types.is_float32(kind) or types.is_float64(kind):
        return True
    if not types.is_integer(kind) or isinstance(literal, float):
        return False
    low = 0 if types.is_unsigned_integer(kind) else -(1 << (kind.bit_width - 1))
    return low <= literal < low + (1 << kind.bit_width)


def _as_time(scalar: Any, kind: Any) -> Any:
    """A time without a zone is in UTC where the column has one."""
    try:
        return scalar.cast(kind)
    except pa.ArrowInvalid:
        if not types.is_timestamp(kind) or kind.tz is None:
            raise
        return scalar.cast(pa.timestamp(kind.unit)).cast(kind)
