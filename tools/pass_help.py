"""
Makes the help of `xdsl-spirv opt` about this package's passes and their options.

The texts are read from the passes' source, where the docstring of a field explains the option.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from textwrap import dedent, fill

from xdsl.passes import ModulePass

from xdsl_spirv.universe import UNIVERSE

WIDTH = 100


def passes_help() -> str:
    """Returns the names of all passes, each with its purpose and its options."""
    return "\n\n".join(
        ["the passes of xdsl-spirv, and their options (-p 'NAME{option=value option=value}'):"]
        + [pass_help(name, factory()) for name, factory in UNIVERSE.all_passes.items()]
    )


def pass_help(name: str, cls: type[ModulePass]) -> str:
    """Returns the help text of one pass."""
    lines = [f"  {name}"]
    lines += [_fill_text(paragraph, "    ") for paragraph in (cls.__doc__ or "").split("\n\n")]
    for option in options_of(cls):
        lines.append(
            _fill_text(f"{option.name}={option.default} {option.meaning}", "    ", "        ")
        )
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class PassOption:
    """An option of a pass, as written in a pipeline."""

    name: str
    default: str
    meaning: str


def options_of(cls: type[ModulePass]) -> list[PassOption]:
    """Returns the options of a pass, in the order of its fields."""
    meanings = _field_docs(cls)
    return [
        PassOption(
            field.name.replace("_", "-"),
            _default(field),
            " ".join(meanings.get(field.name, "is not explained").split()),
        )
        for field in dataclasses.fields(cls)
    ]


def _fill_text(text: str, first: str, following: str | None = None) -> str:
    words = " ".join(text.split())
    return fill(words, WIDTH, initial_indent=first, subsequent_indent=following or first)


def _default(field: dataclasses.Field[object]) -> str:
    match field.default:
        case bool():
            return str(field.default).lower()
        case "" | ():
            return '""'
        case _:
            return str(field.default)


def _field_docs(cls: type[ModulePass]) -> dict[str, str]:
    """Returns the docstrings of a class's fields, including inherited fields."""
    docs = _field_docs(base) if issubclass(base := cls.__base__ or object, ModulePass) else {}
    (tree,) = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = text
            case _:
                pass
    return docs
