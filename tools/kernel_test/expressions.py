"""
Evaluates expected results, given as numpy expressions, without `eval`.

An expression may contain numbers, names of buffers and constants, arithmetic, comparisons,
subscripts, `a if b else c`, and calls of the functions in this file (also as `np.NAME`).
Attributes, assignments and loops are forbidden, so that an expression cannot access files, modules
or Python objects. The cost of each step is checked before the step runs.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xdsl_spirv.tools.kernel_test import costs
from xdsl_spirv.tools.kernel_test.constants import dtype
from xdsl_spirv.tools.kernel_test.description import ELEMENT_TYPES, Misuse, suggest

MAX_TEXT = 10_000
"""Maximum length of an expression, in characters."""

MAX_WORK = 1 << 28
"""Maximum cost of an expression: the sum of the costs of its steps (see `costs`)."""

MAX_BITS = 4096
"""Maximum width of a Python integer, in bits."""

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
"""Functions of numpy that have no side effects."""

TEXTS = ("einsum", "pad", "searchsorted", "convolve", "take")
"""Functions with a string argument, such as the subscripts of einsum."""

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
    """Reinterprets numbers as unsigned integers."""
    array = np.ascontiguousarray(value)
    return array.view(f"u{array.itemsize}").reshape(np.shape(value))


def _cast(name: str) -> Callable[[Any], Any]:
    kind = dtype(name)
    return lambda value: np.asarray(value).astype(kind)[()]


def _functions() -> dict[str, Callable[..., Any]]:
    functions: dict[str, Callable[..., Any]] = {n: getattr(np, n) for n in NUMPY if hasattr(np, n)}
    functions |= {name: _cast(name) for name in ELEMENT_TYPES}
    return functions | {"bits": _bits, "len": len, "float": float, "int": int}


CONSTANTS: Mapping[str, Any] = {"pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan}


class Evaluator:
    """Evaluates one expression; `names` maps names to values, and ambiguous names to None."""

    def __init__(self, names: Mapping[str, Any], where: str):
        self.names = {name: _shield_contents(value) for name, value in names.items()}
        self.where = where
        self.work = 0.0
        self.functions = _functions()

    def error(
        self, cause: str, remedy: str = "docs/kernel-tests.md lists what an expression may contain"
    ):
        """Returns the error for a refused expression."""
        return Misuse(f"{self.where}: {cause}", "", remedy)

    def evaluate(self, text: str) -> Any:
        """Returns the value of the expression. Raises `Misuse` for a forbidden or failing step."""
        if len(text) > MAX_TEXT:
            raise self.error(
                f"the expression has more than {MAX_TEXT} characters", "use a .npy file"
            )
        try:
            tree = ast.parse(text.strip(), mode="eval")
            with np.errstate(all="ignore"):
                return self.value(tree.body)
        except Misuse:
            raise
        except SyntaxError as error:
            raise self.error(f"{text!r} is not an expression: {error.msg}") from error
        except (RecursionError, MemoryError) as error:
            raise self.error("the expression is too large", "use a .npy file") from error
        except (ArithmeticError, TypeError, ValueError, IndexError, KeyError) as error:
            raise self.error(
                f"{text!r} has no value: {error}", "use operands for which the operation is defined"
            ) from error

    def array(self, text: str) -> np.ndarray[Any, np.dtype[Any]]:
        """Returns the value of the expression as an array. Raises `Misuse` for other values."""
        value = self.evaluate(text)
        try:
            return np.asarray(value)
        except ValueError as error:
            raise self.error(f"{text!r} is not an array", "choose a part: f(x)[0]") from error

    def value(self, node: ast.expr) -> Any:
        """Evaluates one node."""
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return self._bounded(node.value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand):
                value = self.value(operand)
                self._pay(costs.broadcast((value,)))
                return self._numeric(UNARY[type(op)](value))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                pair = self.value(left), self.value(right)
                self._pay(costs.broadcast(pair))
                return COMPARISONS[type(op)](*pair)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test) else orelse)
            case ast.Subscript(value=value, slice=index):
                return self._subscript(self.value(value), self._index(index))
            case ast.Tuple(elts=elements):
                return tuple(self._narrow(self.value(e)) for e in elements)
            case ast.List(elts=elements):
                return [self._narrow(self.value(e)) for e in elements]
            case ast.Call():
                return self._call(node)
            case _:
                raise self.error(f"{ast.unparse(node)!r} is not allowed in an expression")

    def _bounded(self, value: Any) -> Any:
        if type(value) is int and value.bit_length() > MAX_BITS:
            raise self.error("an integer has too many digits")
        return value

    def _narrow(self, value: Any) -> Any:
        """Converts a Python number to a numpy type, because numpy would compute with objects."""
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise self.error(f"{float(value):.3g} has more than 64 bits")
        return value

    def _numeric(self, value: Any) -> Any:
        """Returns the result of a step. Raises `Misuse` if the result is not real."""
        kinds = {v.dtype.kind for v in (value if isinstance(value, tuple) else (value,))
                 if isinstance(v, np.ndarray | np.generic)}  # fmt: skip
        if isinstance(value, complex) or kinds & set("cOSU"):
            raise self.error(
                "a step's result is not a real number", "take its real part or magnitude"
            )
        return value

    def _pay(self, work: float) -> None:
        """Adds a step's cost to the total. Raises `Misuse` if the total exceeds its limit."""
        self.work += work
        if not self.work <= MAX_WORK:
            raise self.error(
                f"the expression makes more than {MAX_WORK} elements", "use a .npy file"
            )

    def _subscript(self, value: Any, index: Any) -> Any:
        self._pay(costs.subscript(value, index))
        return value[index]

    def _name(self, name: str) -> Any:
        if name in self.names:
            if self.names[name] is None:
                raise self.error(f"{name!r} is the name of several values", "use another name")
            return self.names[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        raise self.error(
            f"{name!r} is not the name of a buffer or constant", suggest(name, self.names)
        )

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(op, ast.Pow | ast.LShift | ast.Mult) and (
            isinstance(left, int) and isinstance(right, int)
        ):
            grown = left.bit_length() * max(right, 1) if isinstance(op, ast.Pow) else (
                left.bit_length() + (right if isinstance(op, ast.LShift) else right.bit_length())
            )  # fmt: skip
            if grown > MAX_BITS:
                raise self.error("an integer becomes too large")
        if isinstance(op, ast.Mult) and (
            isinstance(left, list | tuple) or isinstance(right, list | tuple)
        ):
            raise self.error("a list cannot be multiplied", "use tile or repeat")
        matrices = isinstance(op, ast.MatMult)
        self._pay(costs.contraction(left, right) if matrices else costs.broadcast((left, right)))
        return self._numeric(BINARY[type(op)](left, right))

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
        name = _called_name(node.func)
        if name is None or name not in self.functions:
            raise self.error(
                f"expressions have no function {ast.unparse(node.func)!r}",
                suggest(name or "", sorted(self.functions))
                if name
                else "call a function by its name",
            )
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg not in KEYWORDS:
                raise self.error(f"{name} does not take the argument {keyword.arg!r} here")
            keywords[keyword.arg] = self._argument(name, keyword.value)
        arguments = [self._argument(name, a) for a in node.args]
        if not arguments:
            raise self.error(f"{name} is called without an argument", f"write {name}(x)")
        self._pay(costs.call(name, arguments, keywords))
        return self._numeric(self.functions[name](*arguments, **keywords))

    def _argument(self, function: str, node: ast.expr) -> Any:
        """Evaluates an argument, which may be None. Functions in `TEXTS` also accept a string."""
        if isinstance(node, ast.Constant) and (
            node.value is None or (isinstance(node.value, str) and function in TEXTS)
        ):
            return node.value
        return self._narrow(self.value(node))


def _shield_contents(value: Any) -> Any:
    """Returns a read-only view of a buffer, because `abs(x, x)` would overwrite it."""
    if isinstance(value, Mapping):
        return {name: _shield_contents(inner) for name, inner in value.items()}  # pyright: ignore
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value  # pyright: ignore


def _called_name(function: ast.expr) -> str | None:
    """Returns the name of a called function such as `where` or `np.where`, or None."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
            return name
        case _:
            return None
