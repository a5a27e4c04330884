"""
`spirv-split-entry-points`: moves each entry point to a separate `spirv.module`.

    spirv.module @kernels { @f, @g, shared variables }      spirv.module @f { @f, its variables }
    gpu.launch_func @kernels::@f                        ->  spirv.module @g { @g, its variables }
                                                            gpu.launch_func @f::@f

A driver reads the whole module for each pipeline: for a hundred kernels in one module, it reads
ten thousand kernels. Also, module properties (capabilities, workgroup size) then apply to a single
kernel. Each new module has the functions that its entry point calls, and the variables and
constants that these functions use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, SymbolRefAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import EntryPointOp, ExecutionModeOp, entry_points
from xdsl_spirv.passes.emit.spirv import free_name

NAME = "spirv-split-entry-points"


@dataclass(frozen=True)
class SplitEntryPointsPass(ModulePass):
    """
    Moves each entry point of a spirv.module to a separate module with the name of the entry point.

    Updates launches. Does not change a module without entry points, or a module without a name and
    with one entry point.
    """

    name = NAME

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        split(op, [m for m in op.walk() if isinstance(m, ModuleOp)])


def split(root: BuiltinModuleOp, modules: Sequence[ModuleOp]) -> None:
    """Splits `modules` by entry point. Raises `PassFailedException` for a nested module."""
    taken = {_symbol(op) for op in root.body.block.ops if op not in modules}
    moved: dict[tuple[str, str], str] = {}
    for module in modules:
        entries = list(entry_points(module))
        if not entries or (len(entries) == 1 and module.sym_name is None):
            taken.add(_symbol(module))
            continue
        if module.parent_op() is not root:
            raise PassFailedException(
                f"{NAME}: 'spirv.module' {_symbol(module) or 'without a name'} is nested in "
                f"another operation: move it into the program's module"
            )
        name = _symbol(module)
        names: list[str] = []
        for entry in entries:
            function = entry.fn.string_value()
            names.append(free_name(function, taken))
            taken.add(names[-1])
            if name:
                moved.setdefault((name, function), names[-1])
        Rewriter.replace_op(module, _parts(module, entries, names), [])
    for launch in root.walk():
        if isinstance(launch, gpu.LaunchFuncOp):
            key = kernel_of(launch)
            if key in moved:
                launch.kernel = SymbolRefAttr(moved[key], [key[1]])


def kernel_of(launch: gpu.LaunchFuncOp) -> tuple[str, str]:
    """Returns the names of a launched kernel's module and function."""
    return launch.kernel.root_reference.data, launch.kernel.nested_references.data[-1].data


def _symbol(op: Operation) -> str:
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else ""


def _parts(
    module: ModuleOp, entries: Sequence[EntryPointOp], names: Sequence[str]
) -> list[ModuleOp]:
    """
    Builds a module for each entry point, with the names `names`. Operations that several modules
    need are cloned.
    """
    contents = _Contents(module)
    kept = [contents.of(entry) for entry in entries]
    last = {op: number for number, ops in enumerate(kept) for op in ops}
    parts: list[ModuleOp] = []
    for number, (ops, name) in enumerate(zip(kept, names, strict=True)):
        mine: list[Operation] = []
        for op in ops:
            if last[op] == number:
                op.detach()
                mine.append(op)
            else:
                mine.append(op.clone())
        part = ModuleOp.create(
            properties=module.properties | {"sym_name": StringAttr(name)},
            attributes=module.attributes,
            regions=[Region(Block(mine))],
        )
        part.location = module.location
        parts.append(part)
    return parts


class _Contents:
    def __init__(self, module: ModuleOp):
        self.place = {op: number for number, op in enumerate(module.body.block.ops)}
        self.named = {name: op for op in self.place if (name := _symbol(op))}
        self.others = [op for op in self.place if not _symbol(op)]
        self._in_attributes: dict[int, frozenset[str]] = {}
        self.mentioned = {op: self._mentioned(op) for op in self.place}

    def of(self, entry: EntryPointOp) -> list[Operation]:
        """
        Returns the operations that an entry point needs, in the module's order.

        They include its execution modes. Operations without a symbol are included if they refer
        only to included operations.
        """
        modes = [op for op in self.others if isinstance(op, ExecutionModeOp) and op.fn == entry.fn]
        kept: set[Operation] = {entry, *modes}
        waiting = [name for op in kept for name in self.mentioned[op]]
        while waiting:
            op = self.named[waiting.pop()]
            if op not in kept:
                kept.add(op)
                waiting += self.mentioned[op]
        for op in self.others:
            if not isinstance(op, EntryPointOp | ExecutionModeOp) and all(
                self.named[name] in kept for name in self.mentioned[op]
            ):
                kept.add(op)
        return sorted(kept, key=self.place.__getitem__)

    def _mentioned(self, op: Operation) -> frozenset[str]:
        """Returns the module's symbols that an operation, its body or its types refer to."""
        symbols: set[str] = set()
        for inner in op.walk():
            for attribute in (*inner.properties.values(), *inner.attributes.values()):
                symbols |= self._in(attribute)
            for result in inner.results:
                symbols |= self._in(result.type)
            for region in inner.regions:
                for argument in (a for block in region.blocks for a in block.args):
                    symbols |= self._in(argument.type)
        return frozenset(symbols & self.named.keys())

    def _in(self, attribute: Attribute) -> frozenset[str]:
        """Returns the symbols in an attribute. The cache by id is safe while the module lives."""
        known = self._in_attributes.get(id(attribute))
        if known is not None:
            return known
        symbols: frozenset[str] = frozenset()
        parts: Iterable[Attribute] = ()
        match attribute:
            case SymbolRefAttr():
                symbols = frozenset((attribute.root_reference.data,))
            case ArrayAttr():
                parts = cast("Sequence[Attribute]", attribute.data)
            case DictionaryAttr():
                parts = attribute.data.values()
            case ParametrizedAttribute():
                parts = attribute.parameters
            case _:
                pass
        symbols = symbols.union(*map(self._in, parts))
        self._in_attributes[id(attribute)] = symbols
        return symbols
