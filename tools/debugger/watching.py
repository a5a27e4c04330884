"""
Evaluates expressions over the variables of the source, such as `i < n && tile[l + s] > 2.0`.

An expression is evaluated for all invocations of the batch at once. The syntax is the subset of
C's expressions that Python shares, with `&&`, `||`, `!` and some functions of GLSL.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from keyword import kwlist
from typing import Any

import numpy as np

from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.inspection import Scene, View
from xdsl_spirv.tools.kernel_test.description import Misuse
from xdsl_spirv.tools.kernel_test.expressions import BINARY, COMPARISONS, UNARY

MAX_TEXT = 1000
"""Maximum length of an expression, in characters."""

TRANSLATED = (
    (r"&&", " and "),
    (r"\|\|", " or "),
    (r"!(?!=)", " not "),
    (r"\b(0[xX][0-9a-fA-F]+|\d+)[uU]\b", r"\1"),
    (r"(\d\.\d*|\.\d+)(?:[fF]|lf|LF)\b", r"\1"),
    # A variable of the source may have the name of a Python keyword.
    (rf"\b({'|'.join(sorted({*kwlist} - {'and', 'or', 'not'}))})\b", r"\1_"),
    (r"\btrue\b", "True"),
    (r"\bfalse\b", "False"),
)

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "floor": np.floor,
    "ceil": np.ceil,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "float": lambda x: np.asarray(x).astype(np.float32),
    "int": lambda x: np.asarray(x).astype(np.int32),
    "uint": lambda x: np.asarray(x).astype(np.uint32),
}


class Watch:
    """Evaluates expressions at one stop, for the invocations of a mask."""

    def __init__(self, scene: Scene, mask: Any):
        self.scene, self.mask = scene, mask

    def evaluate(self, text: str) -> Any:
        """
        Evaluates an expression to a variable, or to an array over (workgroups, subgroups, lanes).
        Raises `Misuse` for an invalid expression.
        """
        if text.strip()[:1] in "%#":
            view = self.scene.find(text.strip())
            if view is not None:
                return view
        translated = text.strip()
        for pattern, replacement in TRANSLATED:
            translated = re.sub(pattern, replacement, translated)
        try:
            if len(text) > MAX_TEXT:
                raise Misuse(
                    f"the expression has {len(text)} characters", "", f"write at most {MAX_TEXT}"
                )
            with np.errstate(all="ignore"):
                return self._node(ast.parse(translated.strip(), mode="eval").body)
        except SyntaxError as error:
            raise Misuse(f"{text!r} is not an expression: {error.msg}", "", "") from error
        except InterpreterError as error:
            raise Misuse(f"{text!r} has no value: {error.cause}", "", "") from error
        except (ArithmeticError, TypeError, ValueError, LookupError, RecursionError) as error:
            raise Misuse(f"{text!r} has no value: {error}", "", "") from error

    def _value(self, node: ast.expr) -> Any:
        value = self._node(node)
        if not isinstance(value, View):
            return value
        if not value.is_number:
            raise Misuse(f"{ast.unparse(node)} is not a number", "", "choose an element or member")
        return value.read(self.mask)

    def _node(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return node.value
            case ast.Name(id=name):
                return self._find_variable(name)
            case ast.Attribute(value=value, attr=attribute):
                return self._member(self._node(value), attribute, ast.unparse(node))
            case ast.Subscript(value=value, slice=index):
                return self._element(self._node(value), self._value(index), ast.unparse(value))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._value(left), self._value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return np.logical_not(self._value(operand))
            case ast.UnaryOp(op=op, operand=operand):
                return UNARY[type(op)](self._value(operand))
            case ast.BoolOp(op=op, values=values):
                join = np.logical_and if isinstance(op, ast.And) else np.logical_or
                result = self._value(values[0])
                for value in values[1:]:
                    result = join(result, self._value(value))
                return result
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                return COMPARISONS[type(op)](self._value(left), self._value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(self._value, arguments))
            case _:
                raise Misuse(
                    f"{ast.unparse(node)} is not allowed in an expression",
                    "",
                    "use variables, numbers and operators",
                )

    def _find_variable(self, name: str) -> View:
        name = name[:-1] if name[:-1] in kwlist else name
        view = self.scene.find(name)
        if view is None:
            raise Misuse(f"there is no variable {name!r} here", "", "")
        return view

    @staticmethod
    def _binary(op: ast.operator, left: Any, right: Any) -> Any:
        """Applies a binary operator. Integer division rounds toward zero, as in GLSL."""
        kinds = {np.asarray(side).dtype.kind for side in (left, right)}
        if isinstance(op, ast.Div) and kinds <= set("iu"):
            exact = np.trunc(np.true_divide(left, right))
            return exact.astype(np.result_type(left, right))
        return BINARY[type(op)](left, right)

    @staticmethod
    def _member(value: Any, name: str, text: str) -> Any:
        part = value.member(name) if isinstance(value, View) else None
        if part is None:
            raise Misuse(f"the value has no {text}", "", "")
        return part

    @staticmethod
    def _element(value: Any, index: Any, text: str) -> Any:
        if not isinstance(value, View) or not value.count():
            raise Misuse(f"{text} has no elements", "", "")
        if np.asarray(index).dtype.kind not in "iu":
            raise Misuse(f"the index of {text} is not an integer", "", "")
        if np.asarray(index).size == 1:
            number = int(np.asarray(index).item())
            if not 0 <= number < value.count():
                raise Misuse(
                    f"{text}[{number}] is out of range: the array has {value.count()} elements",
                    "",
                    "",
                )
            return value.part(number)
        return value.part(np.asarray(index).astype(np.int64))
