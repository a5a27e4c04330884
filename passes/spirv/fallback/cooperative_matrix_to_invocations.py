"""
`spirv-cooperative-matrix-to-invocations`: distributes every matrix over the invocations.

    !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, 32 invocations  ->  !spirv.array<8 x f16>

matrices.py assigns components to invocations. Loads and stores access components one by one
(matrix_memory.py). Arithmetic and conversions apply to each component. A MulAdd reads the
components of other invocations through Workgroup memory (exchange.py, multiply.py).

By default subgroups are *virtual*: a fixed number of consecutive invocations of the workgroup. The
built-ins then describe virtual subgroups instead of the device's subgroups. Barriers then cover
the workgroup, so all of its invocations must execute a MulAdd together (uniformity.py).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import copy_with
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.exchange import Exchange
from xdsl_spirv.passes.spirv.fallback.function_emitter import ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.matrices import NAME, Form, Sharing, refuse
from xdsl_spirv.passes.spirv.fallback.matrix_memory import MatrixMemory, check_whole_numbers
from xdsl_spirv.passes.spirv.fallback.multiply import Product
from xdsl_spirv.passes.spirv.fallback.retype import MOVES, Retyping
from xdsl_spirv.passes.spirv.fallback.uniformity import Uniformity
from xdsl_spirv.passes.spirv.fallback.virtual_subgroups import (
    check_virtual_subgroups,
    use_virtual_subgroups,
)
from xdsl_spirv.passes.spirv.fallback.whole_numbers import store_whole_numbers
from xdsl_spirv.passes.spirv.fallback.workgroups import workgroup_sizes
from xdsl_spirv.passes.spirv.requirements import operations
from xdsl_spirv.passes.spirv.split_entry_points import split
from xdsl_spirv.targets import TargetError, load

SUBGROUPS = ("virtual", "device")
DEFAULT_MEMORY = 32768
"""Default bytes of Workgroup memory, which nearly every device has. Vulkan guarantees half."""

COMPONENT_WISE = (
    spv.FAddOp,
    spv.FDivOp,
    spv.FMulOp,
    spv.FNegateOp,
    spv.FSubOp,
    spv.IAddOp,
    spv.IMulOp,
    spv.ISubOp,
    spv.SDivOp,
    spv.SNegateOp,
    spv.UDivOp,
    spv.BitcastOp,
    spv.ConvertFToSOp,
    spv.ConvertFToUOp,
    spv.ConvertSToFOp,
    spv.ConvertUToFOp,
    spv.FConvertOp,
    spv.SConvertOp,
    spv.UConvertOp,
)

UNCHANGED = MOVES | operations(
    "mlir.referenceof Select Switch EXT.ConstantCompositeReplicate "
    "EXT.SpecConstantCompositeReplicate EXT.CompositeConstructReplicate"
)
"""Operations that are not changed when arrays of components replace matrices."""


@dataclass(frozen=True)
class MatrixPass(ModulePass, ABC):
    """A pass that distributes cooperative matrices over invocations."""

    subgroup_size: int = 0
    """
    Number of invocations that share a matrix of scope Subgroup. 0 selects the module's execution
    mode SubgroupSize, or else the target's subgroup size.
    """
    subgroups: str = "virtual"
    """`virtual`, or `device` for device subgroups, which must have `subgroup-size` invocations."""
    workgroup_memory: int = 0
    """Available bytes of Workgroup memory. 0 selects the target's size, or else 32768."""
    assume_uniform: bool = False
    """Assumes without proof that all invocations of a workgroup execute each MulAdd together."""


@dataclass(frozen=True)
class CooperativeMatrixToInvocationsPass(MatrixPass):
    """
    Rewrites cooperative matrices as an array of components in each invocation.

    Entry points whose workgroups differ in size are first split into separate modules.
    """

    name = NAME

    target: str = ""
    """A device name or a target file. If empty, the pass uses the module's target, if any."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        if self.subgroups not in SUBGROUPS:
            raise PassFailedException(
                f"{NAME}: subgroups must be {' or '.join(SUBGROUPS)}, not {self.subgroups!r}"
            )
        if self.subgroup_size < 0 or self.subgroup_size & (self.subgroup_size - 1):
            raise PassFailedException(
                f"{NAME}: subgroup-size is {self.subgroup_size}: use a power of two"
            )
        size, memory = self.subgroup_size, self.workgroup_memory
        name = self.target or _module_target(op)
        if name:
            try:
                target = load(name)
            except TargetError as error:
                raise PassFailedException(f"{NAME}: {error}") from error
            size, memory = size or target.subgroup_size, memory or target.workgroup_memory_bytes
        split(
            op, [m for m in op.body.block.ops if isinstance(m, spv.ModuleOp) and _sizes_differ(m)]
        )
        for module in list(op.walk()):
            if isinstance(module, spv.ModuleOp):
                options = Options(
                    self.subgroup_size or _required_size(module) or size,
                    self.subgroups == "virtual",
                    memory or DEFAULT_MEMORY,
                    self.assume_uniform,
                )
                lower_cooperative_matrices(module, options)


@dataclass(frozen=True)
class Options:
    """Options of the pass. `subgroup_size` is 0 if the size is not known."""

    subgroup_size: int
    virtual: bool = True
    workgroup_memory: int = DEFAULT_MEMORY
    assume_uniform: bool = False


def _sizes_differ(module: spv.ModuleOp) -> bool:
    """True if a module has matrices, and entry points with workgroups of different sizes."""
    return len(set(workgroup_sizes(module))) > 1 and any(
        isinstance(value.type, spv.CooperativeMatrixType)
        for op in module.walk()
        for value in (*op.operands, *op.results)
    )


def _module_target(op: BuiltinModuleOp) -> str:
    named = op.attributes.get("schedule.target")
    return named.data if isinstance(named, StringAttr) else ""


def _required_size(module: spv.ModuleOp) -> int:
    for op in module.body.block.ops:
        if (
            isinstance(op, spv.ExecutionModeOp)
            and op.execution_mode.data is spv.ExecutionMode.SubgroupSize
        ):
            (size,) = op.values
            return size.value.data if isinstance(size, IntegerAttr) else 0
    return 0


def lower_cooperative_matrices(module: spv.ModuleOp, options: Options) -> None:
    """Rewrites a module. Raises `PassFailedException`, without a change, if that is impossible."""
    lowering = Lowering(module, options)
    if lowering.prepare():
        lowering.rewrite()


class Lowering:
    """Lowers one module. Checks and plans all changes before the first change."""

    def __init__(self, module: spv.ModuleOp, options: Options):
        self.module = module
        self.options = options
        self.sharing = Sharing(module, options.subgroup_size, options.virtual)
        self.retype = Retyping(self._array)
        self.exchange = Exchange(module, options.workgroup_memory)
        self.codes = ModuleEmitter(module)
        self.products: dict[Operation, Product] = {}
        self.memories: dict[Operation, MatrixMemory] = {}
        self.forms: dict[Operation, Form] = {}
        """Maps each operation to the distribution of its first matrix over invocations."""
        self._place: Operation = module
        self._has_matrices = False

    def _array(self, attribute: Attribute) -> Attribute | None:
        if not isinstance(attribute, spv.CooperativeMatrixType):
            return None
        self._has_matrices = True
        return self.sharing.form(attribute, self._place).array

    # Preparation

    def prepare(self) -> bool:
        """
        Checks all operations and groups the MulAdds. Returns False for a module without matrices.
        """
        for op in self.module.walk():
            self._place = op
            if op is not self.module and self.retype.touches(op):
                self._check(op)
        if not self._has_matrices:
            return False
        through = {
            op: memory
            for op, memory in self.memories.items()
            if isinstance(op, spv.CooperativeMatrixStoreOp) and memory.shared_words
        }
        for block in {op.parent: None for op in self.products}:
            assert block is not None
            self.exchange.batch_products(block, self.products, through)
        for op, memory in through.items():
            check_whole_numbers(op, memory)
            self.exchange.batch_store(op, memory.form)
        self._check_flow()
        if self.options.virtual and self.options.subgroup_size:
            check_virtual_subgroups(self.module, self.options.subgroup_size)
        return True

    def _check(self, op: Operation) -> None:
        types = (*op.result_types, *op.operand_types, *op.properties.values())
        matrices = [t for t in types if isinstance(t, spv.CooperativeMatrixType)]
        if matrices:
            self.forms[op] = self.sharing.form(matrices[0], op)
        if isinstance(op, spv.CooperativeMatrixMulAddOp):
            operands = (op.a.type, op.b.type, op.c.type, op.result.type)
            forms = [
                self.sharing.form(t, op)
                for t in operands
                if isinstance(t, spv.CooperativeMatrixType)
            ]
            self.products[op] = Product.of(op, forms)
        elif isinstance(op, spv.CooperativeMatrixLoadOp | spv.CooperativeMatrixStoreOp):
            self.memories[op] = MatrixMemory(op, self.forms[op])
        elif type(op) not in REWRITES and op.name not in UNCHANGED:
            refuse(op, "the pass cannot rewrite this operation on cooperative matrices")

    def _check_flow(self) -> None:
        """Checks that every workgroup barrier is in uniform control flow."""
        uniformity = None if self.options.assume_uniform else Uniformity(self.module)
        for op, batch in self.exchange.batches.items():
            if batch.group.whole or not batch.group.virtual or uniformity is None:
                continue
            if not uniformity.executed_together(op):
                refuse(
                    op,
                    "virtual subgroups need all invocations of the workgroup to execute "
                    "the operation together, which is not proven: set assume-uniform if they do, "
                    "or subgroups=device on a device with subgroups of "
                    f"{batch.group.lanes} invocations",
                )

    # Rewriting.

    def rewrite(self) -> None:
        if self.options.virtual and self.options.subgroup_size:
            use_virtual_subgroups(self.module, self.codes, self.options.subgroup_size)
        self.exchange.declare()
        before = [op for op in self.module.walk() if op in self.forms or _has_value(op)]
        types = {op: tuple(op.result_types) for op in before}
        self.retype.apply(self.module)
        for op in before:
            handler = REWRITES.get(type(op))
            if handler is None or (op not in self.forms and type(op) not in CONSTANTS):
                continue
            handler(self, op, types[op])

    def replace(
        self, op: Operation, components: list[SSAValue], code: SpirvEmitter, form: Form
    ) -> None:
        array = spv.CompositeConstructOp(components, form.array)
        code.insert(array)
        Rewriter.replace_op(op, [], [array.result])


def _has_value(op: Operation) -> bool:
    return isinstance(op, spv.ConstantOp | spv.SpecConstantCompositeOp)


Types = tuple[Attribute, ...]


def components_of(code: SpirvEmitter, matrix: SSAValue, count: int) -> list[SSAValue]:
    """Extracts the invocation's `count` components of a matrix from their array."""
    owner = matrix.owner
    if isinstance(owner, spv.CompositeConstructOp) and len(owner.constituents) == count:
        return list(owner.constituents)
    return [code.component(matrix, i) for i in range(count)]


def _load(low: Lowering, op: Operation, types: Types) -> None:
    code, memory, form = low.codes.before(op), low.memories[op], low.forms[op]
    values = [memory.load(code, form.place(code, i)) for i in range(form.count)]
    low.replace(op, values, code, form)


def _store(low: Lowering, op: spv.CooperativeMatrixStoreOp, types: Types) -> None:
    code, memory, form = low.codes.before(op), low.memories[op], low.forms[op]
    values = components_of(code, op.object, form.count)
    if memory.shared_words:
        store_whole_numbers(code, low.exchange, op, memory, values)
        Rewriter.erase_op(op)
        return
    for number, value in enumerate(values):
        place = form.place(code, number)
        code.when(place.exists, partial(memory.store, code, place, value))
    Rewriter.erase_op(op)


def _multiply_add(low: Lowering, op: spv.CooperativeMatrixMulAddOp, types: Types) -> None:
    code, product, exchange = low.codes.before(op), low.products[op], low.exchange
    batch = exchange.batches[op]
    if op is batch.first:
        written: set[int] = set()
        for member in batch.members:
            assert isinstance(member, spv.CooperativeMatrixMulAddOp)
            member_product = low.products[member]
            factors = (
                (member.a, member_product.a, member_product.signs[0]),
                (member.b, member_product.b, member_product.signs[1]),
            )
            for (value, form, sign), start in zip(factors, batch.starts[member], strict=True):
                if start not in written:
                    written.add(start)
                    base = exchange.base(code, batch, start)
                    _write(low, code, value, form, base, member_product, sign)
        exchange.barrier(code, batch.group)
    bases = [exchange.base(code, batch, start) for start in batch.starts[op]]
    addends = components_of(code, op.c, product.c.count)
    values = product.components(
        code,
        addends,
        (bases[0], bases[1]),
        lambda code, index: exchange.read(code, product.wide, index),
    )
    if op is batch.last:
        exchange.barrier(code, batch.group)
    low.replace(op, values, code, product.result)


def _write(
    low: Lowering,
    code: SpirvEmitter,
    value: SSAValue,
    form: Form,
    base: Index,
    product: Product,
    sign: bool,
) -> None:
    """
    Writes the invocation's components of a product's factor to Workgroup memory at `base`, in
    row-major order. Integers are sign-extended if `sign`.
    """
    for number, component in enumerate(components_of(code, value, form.count)):
        place, position = form.place(code, number), form.position(code, number)
        index = code.plus(base, position)

        def put(component: SSAValue = component, index: Index = index) -> None:
            low.exchange.write(code, index, product.widened(code, component, sign=sign))

        code.when(place.exists, put)


def _length(low: Lowering, op: Operation, types: Types) -> None:
    code = low.codes.before(op)
    Rewriter.replace_op(op, [], [code.number(low.forms[op].count, op.results[0].type)])


def _component_wise(low: Lowering, op: Operation, types: Types) -> None:
    code, form = low.codes.before(op), low.forms[op]
    matrices = [components_of(code, v, form.count) for v in op.operands]
    values: list[SSAValue] = []
    for parts in zip(*matrices, strict=True):
        if parts[0].type == form.element and isinstance(op, spv.BitcastOp):
            values.append(parts[0])
            continue
        values.append(code.add(copy_with(op, parts, [form.element])))
    low.replace(op, values, code, form)


def _times_scalar(low: Lowering, op: spv.MatrixTimesScalarOp, types: Types) -> None:
    code, form = low.codes.before(op), low.forms[op]
    multiply = spv.FMulOp if spv.is_float(form.element) else spv.IMulOp
    values = [code.add(multiply(v, op.scalar)) for v in components_of(code, op.matrix, form.count)]
    low.replace(op, values, code, form)


def _construct(low: Lowering, op: spv.CompositeConstructOp, types: Types) -> None:
    """Fills a matrix with one value. Leaves any other composite unchanged."""
    if isinstance(types[0], spv.CooperativeMatrixType):
        code, form = low.codes.before(op), low.forms[op]
        low.replace(op, [op.constituents[0]] * form.count, code, form)


def _constant(low: Lowering, op: spv.ConstantOp, types: Types) -> None:
    """Rewrites a constant that contains matrices; a matrix constant repeats one component."""
    if low.retype.changes(types[0]):
        op.value = _spread(low, op.value, types[0])


def _spread(low: Lowering, value: Attribute, type_: Attribute) -> Attribute:
    match type_:
        case spv.CooperativeMatrixType():
            form = low.sharing.known_form(type_)
            assert form is not None
            one = value.data[0] if isinstance(value, ArrayAttr) else value
            return ArrayAttr([one] * form.count)
        case spv.ArrayType() if isinstance(value, ArrayAttr):
            return ArrayAttr([_spread(low, v, type_.element_type) for v in value])
        case spv.StructType() if isinstance(value, ArrayAttr):
            members = zip(value, type_.member_types, strict=True)
            return ArrayAttr([_spread(low, v, t) for v, t in members])
        case _:
            return value


def _spec_composite(low: Lowering, op: spv.SpecConstantCompositeOp, types: Types) -> None:
    form = low.forms.get(op)
    if form is not None and len(op.constituents) == 1 and op.type == form.array:
        op.constituents = ArrayAttr(list(op.constituents) * form.count)


Rewrite = Callable[[Lowering, Any, Types], None]
CONSTANTS = (spv.ConstantOp,)

REWRITES: Mapping[type[Operation], Rewrite] = {
    **dict.fromkeys(COMPONENT_WISE, _component_wise),
    spv.MatrixTimesScalarOp: _times_scalar,
    spv.CompositeConstructOp: _construct,
    spv.ConstantOp: _constant,
    spv.CooperativeMatrixLengthOp: _length,
    spv.CooperativeMatrixLoadOp: _load,
    spv.CooperativeMatrixMulAddOp: _multiply_add,
    spv.CooperativeMatrixStoreOp: _store,
    spv.SpecConstantCompositeOp: _spec_composite,
}
