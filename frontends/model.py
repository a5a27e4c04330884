"""
An imported model: a function on tensors, the values of its weights, and the names and types in the
model file.

The function is `@main`: the model's inputs, then its weights. MLIR's integers have no signedness,
and names of its values do not survive, so types and names are kept as attributes of the function's
arguments and results: `program.name` and `program.type`.
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
    """An input or output. `type` is an element type by MLIR's name (`ui8`), -1 a dynamic size."""

    name: str
    type: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        sizes = ["?" if size < 0 else str(size) for size in self.shape]
        return f"{self.name}: {'x'.join([*sizes, self.type])}"


@dataclass(frozen=True)
class Node:
    """A node of the model, by its author's name (or one that we gave it)."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class ImportedModel:
    """
    `module` holds a function of the inputs and the weights; from ONNX `@main`, inputs first.

    If there are several `functions`, the first is `function`, and inputs and outputs are its own.
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
    Writes the names and types to the function's arguments and results.

    `sizes` holds the names of the arguments' dynamic dimensions; static ones have none.
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
