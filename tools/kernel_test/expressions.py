"""
Expected results as numpy expressions, computed here node by node: nothing is handed to `eval`.

What may stand in one: numbers, names of buffers and constants, arithmetic, comparisons, subscripts,
`a if b else c`, and calls of the functions of this file by their bare names or as `np.NAME`. There
are no attributes, no assignments, no loops; so no expression reaches a file, a module or an object
of Python's. Powers and shifts of plain integers, and arrays that a number makes, are bounded.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xdsl_spirv.tools.kernel_test.description import ELEMENT_TYPES, Misuse, suggest
from xdsl_spirv.tools.kernel_test.interface import dtype

MAX_TEXT = 10_000
"""Characters of an expression."""

MAX_ELEMENTS = 1 << 28
"""Elements that a function may make out of a number."""

MAX_BITS = 4096
"""Of a plain integer."""

NUMPY = """
abs absolute all any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
argsort array_equal atleast_1d atleast_2d bincount bitwise_and bitwise_not bitwise_or bitwise_xor
broadcast_to cbrt ceil clip concatenate convolve copysign cos cosh count_nonzero cross cumprod
cumsum diff divide dot einsum equal exp exp2 expm1 eye fix flatnonzero flip float_power floor
floor_divide fmax fmin fmod full full_like greater greater_equal heaviside histogram hypot invert
isclose isfinite isinf isnan ldexp left_shift less less_equal linspace log log10 log1p log2
logaddexp logical_and logical_not logical_or logical_xor matmul max maximum mean median min minimum
mod moveaxis multiply nan_to_num nanmax nanmin nansum negative nonzero not_equal ones ones_like
outer pad partition positive power prod ptp ravel reciprocal remainder repeat reshape
right_shift rint roll rot90 round searchsorted sign signbit sin sinc sinh size sort sqrt square
squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace transpose
tril triu true_divide trunc unique var where zeros zeros_like
""".split()
"""Functions of numpy's that only compute."""

MAKERS = ("arange", "eye", "full", "linspace", "ones", "zeros", "repeat", "tile", "pad",
          "broadcast_to", "bincount")  # fmt: skip
"""Those whose result's size is a number among their arguments."""

KEYWORDS = ("axis", "axes", "keepdims", "minlength", "mode", "initial", "shift", "repeats", "k",
            "side", "ddof", "decimals", "bins", "range", "descending", "stable")  # fmt: skip

BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _bits(value: Any) -> Any:
    """The bits of numbers as unsigned integers."""
    array = np.ascontiguousarray(value)
    return array.view(f"u{array.itemsize}").reshape(np.shape(value))


def _cast(name: str) -> Callable[[Any], Any]:
    kind = dtype(name)
    return lambda value: np.asarray(value).astype(kind)[()]


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {n: getattr(np, n) for n in NUMPY if hasattr(np, n)}
    found |= {name: _cast(name) for name in ELEMENT_TYPES}
    return found | {"bits": _bits, "len": len, "float": float, "int": int}


CONSTANTS: Mapping[str, Any] = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan}


class Evaluator:
    """One expression over names; an ambiguous name has the value None."""

    def __init__(self, names: Mapping[str, Any], where: str):
        self.names = names
        self.where = where
        self.functions = _functions()

    def error(self, cause: str, remedy: str = "docs/kernel-tests.md lists what may stand there"):
        """A refusal of the expression."""
        return Misuse(f"{self.where}: {cause}", "", remedy)

    def evaluate(self, text: str) -> Any:
        """The value; raises `Misuse` for what may not stand there, or has no value."""
        if len(text) > MAX_TEXT:
            raise self.error(f"the expression has more than {MAX_TEXT} characters", "use a .npy")
        try:
            tree = ast.parse(text.strip(), mode="eval")
            with np.errstate(all="ignore"):
                return self.value(tree.body)
        except Misuse:
            raise
        except SyntaxError as error:
            raise self.error(f"{text!r} is no expression: {error.msg}") from error
        except (RecursionError, MemoryError) as error:
            raise self.error("the expression is too large", "use a .npy file") from error
        except (ArithmeticError, TypeError, ValueError, IndexError, KeyError) as error:
            raise self.error(f"{text!r} has no value: {error}", "correct it") from error

    def value(self, node: ast.expr) -> Any:
        """The value of one node."""
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return self._bounded(node.value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return UNARY[type(op)](self.value(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                return COMPARISONS[type(op)](self.value(left), self.value(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test) else orelse)
            case ast.Subscript(value=value, slice=index):
                return self.value(value)[self._index(index)]
            case ast.Tuple(elts=elements):
                return tuple(self.value(e) for e in elements)
            case ast.List(elts=elements):
                return [self.value(e) for e in elements]
            case ast.Call():
                return self._call(node)
            case _:
                raise self.error(f"{ast.unparse(node)!r} may not stand in an expression")

    def _bounded(self, value: Any) -> Any:
        if type(value) is int and value.bit_length() > MAX_BITS:
            raise self.error("an integer has too many digits")
        return value

    def _name(self, name: str) -> Any:
        if name in self.names:
            if self.names[name] is None:
                raise self.error(f"{name!r} means several things", "use another of their names")
            return self.names[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        raise self.error(f"{name!r} is no name of the test", suggest(name, self.names))

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(op, ast.Pow | ast.LShift | ast.Mult) and type(left) is type(right) is int:
            grown = left.bit_length() * max(right, 1) if isinstance(op, ast.Pow) else (
                left.bit_length() + (right if isinstance(op, ast.LShift) else right.bit_length())
            )  # fmt: skip
            if grown > MAX_BITS:
                raise self.error("an integer becomes too large")
        if isinstance(op, ast.Mult) and (
            isinstance(left, list | tuple) or isinstance(right, list | tuple)
        ):
            raise self.error("a list is not multiplied", "use tile or repeat")
        return BINARY[type(op)](left, right)

    def _index(self, node: ast.expr) -> Any:
        match node:
            case ast.Slice(lower=lower, upper=upper, step=step):
                ends = [None if e is None else self.value(e) for e in (lower, upper, step)]
                return slice(*ends)
            case ast.Tuple(elts=elements):
                return tuple(self._index(e) for e in elements)
            case ast.Constant(value=name) if isinstance(name, str) or name in (None, Ellipsis):
                return name
            case _:
                return self.value(node)

    def _call(self, node: ast.Call) -> Any:
        name = _called(node.func)
        if name is None or name not in self.functions:
            raise self.error(
                f"{ast.unparse(node.func)!r} is no function of expressions",
                suggest(name or "", sorted(self.functions)) if name else "call one by its name",
            )
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg not in KEYWORDS:
                raise self.error(f"{name} takes no argument {keyword.arg!r} here")
            keywords[keyword.arg] = self._argument(keyword.value)
        arguments = [self._argument(a) for a in node.args]
        if name in MAKERS:
            self._refuse_large(name, arguments, keywords)
        return self.functions[name](*arguments, **keywords)

    def _argument(self, node: ast.expr) -> Any:
        """An argument may also be a text: the subscripts of einsum, a mode."""
        if isinstance(node, ast.Constant) and (isinstance(node.value, str) or node.value is None):
            return node.value
        return self.value(node)

    def _refuse_large(self, name: str, arguments: list[Any], keywords: Mapping[str, Any]) -> None:
        """The product of what the arguments say is a bound of the result's size."""
        size = 1.0
        for value in (*arguments, *keywords.values()):
            array = np.asarray(value if not isinstance(value, str | None) else 1)
            numbers = array.astype(np.float64).ravel() if array.dtype.kind in "biuf" else [1.0]
            if name in ("repeat", "tile", "pad") and value is arguments[0]:
                size *= max(array.size, 1)
            elif np.size(numbers) <= 32:
                size *= float(np.prod(np.maximum(np.abs(numbers), 1)))
            elif name == "repeat" or name == "bincount":
                size *= float(np.sum(np.abs(numbers))) or 1
        if name == "eye" and len(arguments) + len(keywords) == 1:
            size *= size  # As many columns as rows, unless they are given.
        if not size <= MAX_ELEMENTS:
            raise self.error(f"{name} makes more than {MAX_ELEMENTS} elements", "use less")


def _called(function: ast.expr) -> str | None:
    """The name of a function: `where`, or `np.where`."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
            return name
        case _:
            return None
