"""What vLLM makes of an environment variable that is not set: evaluates the code that reads it, without running it."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Computed(NamedTuple):
    """A default that is not a literal: the expression that computes it."""

    symbol: str


class _NotLiteralError(Exception):
    """The code that reads a variable is of none of the forms below."""


_WITH_CHOICES = ("env_with_choices", "env_list_with_choices")  # (name, default, choices)


def unset_value(reader: ast.expr) -> Any:
    """Return what the code that reads a variable makes of an unset one."""
    try:
        if isinstance(reader, ast.Lambda):
            return _value(reader.body)
        if isinstance(reader, ast.Call) and ast.unparse(reader.func) in _WITH_CHOICES:
            return _value(reader.args[1])
    except (_NotLiteralError, KeyError, ValueError, TypeError):
        pass
    return Computed(ast.unparse(reader.body if isinstance(reader, ast.Lambda) else reader))


def _value(node: ast.expr) -> Any:
    """Evaluate the few forms in which vLLM reads a variable, as if none is set."""
    if type(node) not in _FORMS:
        raise _NotLiteralError
    return _FORMS[type(node)](node)


def _chosen(node: ast.BoolOp) -> Any:
    values = [_value(each) for each in node.values]
    decisive = [each for each in values if bool(each) is isinstance(node.op, ast.Or)]
    return decisive[0] if decisive else values[-1]


def _compared(node: ast.Compare) -> bool:
    (operator,), (other,) = node.ops, node.comparators
    if isinstance(other, ast.Attribute) and ast.unparse(other) == "os.environ":
        return isinstance(operator, ast.NotIn)
    return bool(_OPERATORS[type(operator)](_value(node.left), _value(other)))


def _called(call: ast.Call) -> Any:
    name = ast.unparse(call.func)
    if name in {"os.getenv", "os.environ.get"}:
        return _value(call.args[1]) if len(call.args) > 1 else None
    if name in _CASTS and len(call.args) == 1:
        return _CASTS[name](_value(call.args[0]))
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args:
        value = _value(call.func.value)
        if isinstance(value, str):
            return getattr(value, call.func.attr)()
    raise _NotLiteralError


_CASTS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "maybe_convert_int": lambda value: value if value is None else int(value),
    "maybe_convert_bool": lambda value: value if value is None else bool(int(value)),
}
_METHODS = ("lower", "upper", "strip")
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.USub: lambda value: -value,
    ast.Not: operator.not_,
}
_FORMS: Mapping[type[ast.expr], Callable[[Any], Any]] = {
    ast.Constant: lambda node: node.value,
    ast.List: lambda node: [_value(each) for each in node.elts],
    ast.Tuple: lambda node: [_value(each) for each in node.elts],
    ast.UnaryOp: lambda node: _OPERATORS[type(node.op)](_value(node.operand)),
    ast.BinOp: lambda node: _OPERATORS[type(node.op)](_value(node.left), _value(node.right)),
    ast.IfExp: lambda node: _value(node.body if _value(node.test) else node.orelse),
    ast.BoolOp: _chosen,
    ast.Compare: _compared,
    ast.Call: _called,
}
