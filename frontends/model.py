"""
Represents an imported model: a function on tensors, and the values of its weights.

The function is `@main`; its arguments are the model's inputs, then its weights. The attributes
`program.name` and `program.type` of arguments and results hold names and signedness, which MLIR's
types do not express.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_spirv.dialects.program import NAME, SIZES, TYPE

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

FUNCTION = "main"


@dataclass(frozen=True)
class Value:
    """An input or output. `type` is MLIR's element type (`ui8`); a dynamic size is -1."""

    name: str
    type: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        sizes = ["?" if size < 0 else str(size) for size in self.shape]
        return f"{self.name}: {'x'.join([*sizes, self.type])}"


@dataclass(frozen=True)
class Node:
    """A node of the model. The importer names nodes that have no name in the model."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class ImportedModel:
    """
    An imported model. `module` holds the function; `inputs` and `outputs` describe its interface.

    If there are several `functions`, `function` is the first, and inputs and outputs belong to it.
    """

    module: ModuleOp
    weights: Mapping[str, Array]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    nodes: Sequence[Node] = ()
    function: str = FUNCTION
    functions: Sequence[str] = ()


def annotate(
    function: FuncOp,
    arguments: Sequence[Value],
    results: Sequence[Value],
    sizes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """
    Writes names and types to the attributes of a function's arguments and results.

    `sizes` holds the names of the arguments' dynamic dimensions in order.
    """
    function.properties["arg_attrs"] = _attributes(arguments, sizes or {})
    function.properties["res_attrs"] = _attributes(results)


def _attributes(
    values: Sequence[Value], sizes: Mapping[str, Sequence[str]] | None = None
) -> ArrayAttr[Attribute]:
    entries: list[Attribute] = []
    for value in values:
        attributes: dict[str, Attribute] = {
            NAME: StringAttr(value.name),
            TYPE: StringAttr(value.type),
        }
        names = (sizes or {}).get(value.name, ())
        if any(names):
            attributes[SIZES] = ArrayAttr(map(StringAttr, names))
        entries.append(DictionaryAttr(attributes))
    return ArrayAttr(entries)
