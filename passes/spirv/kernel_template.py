"""
Finds kernels that have the same instructions and differ only in constants.

A kernel is written without its name, with numbered values, and with holes for constants that only
take part in arithmetic. Kernels with the same text differ only in the constants of their holes. A
hole is any f32 scalar or splat. A 32- or 8-bit integer is a hole if it only enters arithmetic, and
no address or condition depends on it. Constants in indices are not holes, so that addresses stay
cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    VectorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from xdsl_spirv.dialects import spv

Number: TypeAlias = FloatAttr[AnyFloat] | IntegerAttr[IntegerType | IndexType]

NOT_ARITHMETIC = ("spirv.mlir.addressof", "spirv.AccessChain", "spirv.InBoundsAccessChain")
"""Operations that compute addresses, although they are marked as pure."""

COMPUTING = (
    "spirv.GroupNonUniformF",
    "spirv.GroupNonUniformI",
    "spirv.KHR.CooperativeMatrixMulAdd",
)
"""
Prefixes of the names of operations that only compute from their operands, although they are not
marked as pure.
"""

FIXED = ("spirv.Variable",)
"""Operations whose operands must be constants."""


@dataclass(frozen=True)
class Hole:
    """A constant operand that may differ between kernels, and the scalar of the constant."""

    op: Operation
    index: int
    number: Number


@dataclass
class KernelTemplate:
    """A kernel's text without its name. `holes` are constants that are left out of the text."""

    key: tuple[object, ...]
    holes: list[Hole] = field(default_factory=list[Hole])

    @property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(hole.number for hole in self.holes)


def template_of(module: spv.ModuleOp, name: str) -> KernelTemplate:
    """Builds the template of a module with one entry point, called `name`."""
    return _Writer(module, name).write()


def number_of(value: SSAValue) -> Number | None:
    """Returns the scalar of an f32, i32 or i8 constant or of an f32 splat, else None."""
    owner = value.owner
    if not isinstance(owner, spv.ConstantOp):
        return None
    held = owner.value
    if isinstance(held, DenseIntOrFPElementsAttr):
        if (
            not isinstance(value.type, VectorType | spv.CooperativeMatrixType)
            or not held.is_splat()
        ):
            return None
        held = next(held.iter_attrs())
        return held if held.type == f32 else None
    if isinstance(held, FloatAttr | IntegerAttr) and held.type in (f32, i32, i8):
        return held
    return None


class _Writer:
    def __init__(self, module: spv.ModuleOp, name: str):
        self.module, self.name = module, name
        self.deciding = _deciding(module)
        self.numbers: dict[SSAValue, int] = {}
        self.blocks: dict[Block, int] = {}
        self.key: list[object] = []
        self.holes: list[Hole] = []

    def write(self) -> KernelTemplate:
        block = self.module.body.block
        variables = [op for op in block.ops if isinstance(op, spv.GlobalVariableOp)]
        for op in sorted(variables, key=lambda variable: self._rest(variable.sym_name.data)):
            self._operation(op)
        for op in block.ops:
            if not isinstance(op, spv.GlobalVariableOp | spv.ConstantOp):
                self._operation(op)
        return KernelTemplate(tuple(self.key), self.holes)

    def _block(self, block: Block) -> None:
        self.key.append(("block", *(a.type for a in block.args)))
        for argument in block.args:
            self.numbers[argument] = len(self.numbers)
        for op in block.ops:
            if not isinstance(op, spv.ConstantOp):
                self._operation(op)

    def _operation(self, op: Operation) -> None:
        self.key.append(type(op))
        for name, attribute in (*op.properties.items(), *op.attributes.items()):
            held: Any = self._nameless(attribute)
            self.key.append((name, tuple(sorted(held)) if name == "interface" else held))
        for index, operand in enumerate(op.operands):
            self.key.append(self._operand(op, index, operand))
        for result in op.results:
            self.numbers[result] = len(self.numbers)
            self.key.append(result.type)
        for region in op.regions:
            for number, block in enumerate(region.blocks):
                self.blocks[block] = number
            for block in region.blocks:
                self._block(block)
        self.key += [self.blocks[block] for block in op.successors]

    def _operand(self, op: Operation, index: int, operand: SSAValue) -> object:
        if not isinstance(operand.owner, spv.ConstantOp):
            return self.numbers.setdefault(operand, len(self.numbers))
        number = number_of(operand)
        free = number is not None and op.name not in FIXED
        if free and number is not None and number.type != f32:
            receivers = _receivers(op, index)
            free = receivers is not None and not any(
                receiver in self.deciding for receiver in receivers
            )
        if not free or number is None:
            return (operand.owner.value, operand.type)
        self.holes.append(Hole(op, index, number))
        return ("hole", operand.type)

    def _nameless(self, attribute: Attribute) -> object:
        """Returns an attribute with the kernel's name removed from symbols."""
        match attribute:
            case StringAttr(data=name):
                return f"@{self._rest(name)}"
            case SymbolRefAttr():
                return f"@{self._rest(attribute.string_value())}"
            case ArrayAttr():
                return tuple(self._nameless(part) for part in attribute)
            case _:
                return attribute

    def _rest(self, name: str) -> str:
        own = name == self.name or name.startswith(f"{self.name}_")
        return name.removeprefix(self.name) if own else f"/{name}"


def _computes(op: Operation) -> bool:
    if op.name in NOT_ARITHMETIC:
        return False
    return op.has_trait(Pure) or op.name.startswith(COMPUTING)


def _receivers(op: Operation, index: int) -> list[SSAValue] | None:
    """Returns the values that an operand flows into; None if the operand has another effect."""
    if _computes(op):
        return list(op.results)
    if isinstance(op, spv.StoreOp):
        return [] if index == 1 else None
    passed = [target for target, source in _passed_on(op) if source is op.operands[index]]
    return passed or None


def _deciding(module: spv.ModuleOp) -> set[SSAValue]:
    """Returns the values from which addresses, branch conditions and trip counts are computed."""
    waiting: list[SSAValue] = []
    sources: dict[SSAValue, list[SSAValue]] = {}
    for op in module.walk():
        for target, source in _passed_on(op):
            sources.setdefault(target, []).append(source)
        waiting += _decided_by(op)
    deciding: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value in deciding:
            continue
        deciding.add(value)
        waiting += sources.get(value, ())
        if not isinstance(value, BlockArgument) and _computes(value.owner):  # pyright: ignore
            waiting += value.owner.operands  # pyright: ignore
    return deciding


def _passed_on(op: Operation) -> Iterable[tuple[SSAValue, SSAValue]]:
    """Yields (receiving value, operand) for each operand that a terminator passes on."""
    if isinstance(op, spv.Branching):
        for target, passed in op.edges:
            yield from zip(target.args, passed, strict=True)
    elif isinstance(op, spv.MergeOp) and (parent := op.parent_op()) is not None:
        yield from zip(parent.results, op.operands, strict=False)


def _decided_by(op: Operation) -> list[SSAValue]:
    """Returns the operands that control an operation's address, branch or other effect."""
    match op:
        case spv.StoreOp():
            return [op.operands[0]]
        case spv.BranchConditionalOp():
            return [op.operands[0]]
        case spv.BranchOp() | spv.MergeOp():
            return []
        case _ if _computes(op):
            return []
        case _:
            return list(op.operands)
