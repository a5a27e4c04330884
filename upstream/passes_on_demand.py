"""
Imports a pass only if a module contains something that the pass changes.

An xDSL pipeline contains pass classes, so a lowering of thirty passes imports all of them, although
a module may need half. A pull request to xDSL would let a `Universe` list the contents that a pass
needs, and a `PassPipeline` take names of passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr
from xdsl.passes import ModulePass

from xdsl_spirv.progress import stage


@dataclass(frozen=True)
class PassOnDemand:
    """A pass in a pipeline. Its class is imported only when a module needs the pass."""

    name: str

    factory: Callable[[], type[ModulePass]]
    """Imports and returns the class of the pass."""

    needs: Collection[str] | None = None
    """
    Names of contents (see `contents`). The pass changes nothing in a module that has none of them.
    None if the pass must always run.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def load(self) -> ModulePass:
        """Imports the pass and creates it with its arguments."""
        return self.factory()(**self.arguments)


def run(
    passes: Iterable[PassOnDemand | ModulePass],
    ctx: Context,
    module: ModuleOp,
    observe: Callable[[str, ModuleOp], None] | None = None,
) -> None:
    """Applies the passes that a module needs, in order. Calls `observe` after every pass."""
    known: set[str] | None = None
    names = Names()
    with stage("compiling") as progress:
        for member in passes:
            progress.step(member.name)
            needs = member.needs if isinstance(member, PassOnDemand) else None
            if needs is not None and known is None:
                known = contents(module, names)
            if needs is None or known is None or not known.isdisjoint(needs):
                loaded = member.load() if isinstance(member, PassOnDemand) else member
                loaded.apply(ctx, module)
                known = None
            if observe is not None:
                observe(member.name, module)


class Names(dict[int, tuple[Attribute, set[str]]]):
    """
    Caches the names in attributes. Maps the identity of an attribute to the attribute and the names
    in it.
    """

    def of(self, attribute: Attribute) -> set[str]:
        """Returns the names of all types and attributes in an attribute."""
        known = self.get(id(attribute))
        if known is None:
            # Keeps the attribute alive, so that its identity is not reused.
            known = self[id(attribute)] = (attribute, set(_names_of(attribute)))
        return known[1]


def contents(module: Operation, names: Names | None = None) -> set[str]:
    """
    Returns the names of a module's contents, which `PassOnDemand.needs` refers to.

    They are names of operations (`scf.for`, `several scf.for`), attributes and types (`bf16`,
    `i64`, `schedule.loops`, `tensor=index`), parameters (`schedule.instruction=dot`) and
    dictionary keys (`program.name`), also `affine_map=windows` for maps that index a dimension by
    several loops, and `arith on tensors`.
    """
    names = Names() if names is None else names
    operations: Counter[str] = Counter()
    attributes: dict[int, Attribute] = {}
    waiting = [module]
    while waiting:
        op = waiting.pop()
        operations[op.name] += 1
        if op.name.startswith(("arith.", "math.")) and op.operands:
            if isinstance(op.results[0].type, TensorType):
                operations["arith on tensors"] += 1
        for result in op.results:
            attributes[id(result.type)] = result.type
        for attribute in op.attributes.values():
            attributes[id(attribute)] = attribute
        for attribute in op.properties.values():
            attributes[id(attribute)] = attribute
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    attributes[id(argument.type)] = argument.type
                waiting += block.ops
    several = {f"several {name}" for name, count in operations.items() if count > 1}
    return {*operations, *several}.union(*map(names.of, attributes.values()))


def _names_of(whole: Attribute) -> Iterator[str]:
    waiting = [whole]
    seen: set[int] = set()
    while waiting:
        attribute = waiting.pop()
        if id(attribute) in seen:
            continue
        seen.add(id(attribute))
        yield attribute.name
        kind = type(attribute)
        if isinstance(attribute, AffineMapAttr):
            plain = (AffineDimExpr, AffineConstantExpr)
            if not all(isinstance(result, plain) for result in attribute.data.results):
                yield f"{attribute.name}=windows"
        if _is_leaf(kind):
            continue
        if kind is IntegerType:
            yield str(attribute)
        elif isinstance(attribute, ArrayAttr):
            waiting += attribute.data
        elif isinstance(attribute, DictionaryAttr):
            yield from attribute.data
            waiting += attribute.data.values()
        elif isinstance(attribute, ParametrizedAttribute):
            for parameter in attribute.parameters:
                if type(parameter) is StringAttr:
                    yield f"{attribute.name}={parameter.data}"
                elif type(parameter) is IndexType:
                    yield f"{attribute.name}=index"
                waiting.append(parameter)


@cache
def _is_leaf(kind: type[Attribute]) -> bool:
    """True if attributes of a class contain no types that a pass may need to know."""
    # No operation computes with the element type of a dense array.
    inner = ArrayAttr | DictionaryAttr | ParametrizedAttribute
    return not issubclass(kind, inner) or issubclass(kind, DenseArrayBase)
