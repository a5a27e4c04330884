"""Launches a `spirv.module`: specialization constants, variables, entry points, built-ins."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, SymbolRefAttr, i32
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import FuncOp, ModuleOp
from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.interpreter.batch import Batch, Geometry
from xdsl_spirv.interpreter.built_ins import built_in
from xdsl_spirv.interpreter.checks.places import forget_numbers
from xdsl_spirv.interpreter.constants import constant_value
from xdsl_spirv.interpreter.context import Context, symbol_name
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import zeros
from xdsl_spirv.interpreter.launch import geometry_of, run
from xdsl_spirv.interpreter.layout import Layout
from xdsl_spirv.interpreter.memories import Descriptors, Place, copy_buffers
from xdsl_spirv.interpreter.memory import Memory, Pointer, load, start_of
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.options import MemoryBudget, Options
from xdsl_spirv.interpreter.source.names import Names
from xdsl_spirv.interpreter.spirv.image import image_memory
from xdsl_spirv.interpreter.spirv.memory import RESOURCES, descriptor_of, is_block
from xdsl_spirv.interpreter.spirv.specialization import SpecValues, specialize
from xdsl_spirv.interpreter.spirv.tensor_arm import Tensor
from xdsl_spirv.interpreter.structs import (
    PushConstants,
    member_names,
    pack_struct,
    push_constant_block,
)
from xdsl_spirv.interpreter.variables import Variable, VariablePointer

Buffers = MutableMapping[Any, Array]
"""
Maps (descriptor set, binding) to an array. In an array of buffers, the key is (set, binding,
index).
"""
VariableOp: TypeAlias = spv.GlobalVariableOp | spv.UntypedGlobalVariableOp


def word_bindings(module: Operation) -> frozenset[tuple[int, int]]:
    """Returns the (set, binding) of buffers that contain only an array of 32-bit words."""
    return frozenset(
        (op.descriptor_set.value.data, op.binding.value.data)
        for op in module.walk()
        if isinstance(op, spv.GlobalVariableOp)
        and op.descriptor_set is not None
        and op.binding is not None
        and isinstance(op.type.pointee, spv.StructType)
        and op.type.pointee.member_types == (WORDS,)
    )


WORDS = spv.RuntimeArrayType(i32, 4)


def find_entry(module: ModuleOp, entry: str) -> FuncOp:
    """Returns the function of an entry point. Raises `InterpreterError` if there is none."""
    entries = [op for op in module.body.block.ops if isinstance(op, spv.EntryPointOp)]
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    marked = [f for f in functions if "spirv.entry_point_abi" in f.attributes]
    names = [symbol_name(e.fn) for e in entries] or [f.sym_name.data for f in marked]
    for function in functions:
        if function.sym_name.data == entry and entry in names:
            return function
    raise InterpreterError(
        f"the module has no entry point {entry!r}",
        module,
        f"its entry points are: {', '.join(names) or 'none'}",
    )


def workgroup_size(context: Context, function: FuncOp) -> tuple[int, int, int]:
    """
    Returns the workgroup size of an entry point. It is given by one of these, in order of
    precedence: the constant decorated WorkgroupSize, LocalSize or LocalSizeId, the entry point's
    ABI attribute.
    """
    ops = list(context.module.regions[0].block.ops)
    for op in ops:
        size = _workgroup_size_constant(op, context)
        if size is not None:
            return _three(size.reshape(-1))
    for op in ops:
        if isinstance(op, spv.ExecutionModeOp) and symbol_name(op.fn) == function.sym_name.data:
            if op.execution_mode.data in (
                spv.ExecutionMode.LocalSize,
                spv.ExecutionMode.LocalSizeId,
            ):
                return _three([_number(value, context) for value in op.values])
    abi = function.attributes.get("spirv.entry_point_abi")
    if isinstance(abi, spv.EntryPointABIAttr) and isinstance(abi.workgroup_size, DenseArrayBase):
        return _three(list(cast(DenseArrayBase[IntegerType], abi.workgroup_size).get_values()))
    raise InterpreterError(
        f"the entry point @{function.sym_name.data} has no workgroup size",
        function,
        "give it a spirv.ExecutionMode LocalSize or the attribute spirv.entry_point_abi",
    )


def _number(value: Attribute, context: Context) -> int:
    """
    Returns the value of an operand of an execution mode. It is an integer or the name of a
    constant.
    """
    if isinstance(value, SymbolRefAttr | IntegerAttr):
        return context.number(value)
    raise InterpreterError(
        f"a number of invocations must be an integer or a constant's @name, not {value}"
    )


def _workgroup_size_constant(op: Operation, context: Context) -> Array | None:
    """
    Returns the operation's value if it is the constant decorated WorkgroupSize, otherwise None.
    """
    if isinstance(op, spv.ConstantSymbol):
        built_in = getattr(op.attributes.get("built_in"), "data", None)
        if built_in == spv.BuiltIn.WorkgroupSize.name:
            return context.specialize(symbol_name(op.properties["sym_name"]))
    plain = op.workgroup_size if isinstance(op, spv.RawGlobalOp) else None
    return None if plain is None else constant_value(plain.value, plain.type, context)


def _three(numbers: Any) -> tuple[int, int, int]:
    x, y, z = (int(number) for number in numbers)
    return x, y, z


WITH_BYTES = (
    spv.StorageClass.Workgroup,
    spv.StorageClass.PushConstant,
    spv.StorageClass.StorageBuffer,
    spv.StorageClass.Uniform,
)
"""Storage classes in which untyped variables are supported."""


def creator(
    op: VariableOp,
    context: Context,
    buffers: Buffers,
    push_constants: PushConstants,
) -> Callable[[Batch], Any] | None:
    """
    Returns a function that creates a variable for a batch. Returns None if the variable's buffer is
    missing.
    """
    pointee, storage = op.object_type, op.type.storage_class.data
    name = op.sym_name.data
    if pointee is None or (
        isinstance(op, spv.UntypedGlobalVariableOp) and storage not in WITH_BYTES
    ):
        raise InterpreterError(
            f"the untyped variable @{name} in {storage.name} memory is not supported", op
        )
    if op.built_in is not None:
        fill = built_in(op.built_in.data)
        if fill is None:
            raise InterpreterError(f"the built-in {op.built_in.data} is not supported", op)
        form, kind = context.form(pointee), context.plain(pointee).dtype
        return lambda batch: VariablePointer(Variable(form, fill(batch).astype(kind, copy=False)))
    match storage:
        case spv.StorageClass.Workgroup:
            return _workgroup(op, pointee, context)
        case spv.StorageClass.Private:
            form = context.form(pointee)
            initial = None if op.initializer is None else context.specialize(op.initializer)
            return lambda batch: VariablePointer(
                Variable(form, zeros(form) if initial is None else initial)
            )
        case spv.StorageClass.PushConstant:
            return _push_constants(op, pointee, context, push_constants)
        case spv.StorageClass.StorageBuffer | spv.StorageClass.Uniform:
            return _buffer(op, context, buffers)
        case spv.StorageClass.UniformConstant if isinstance(
            descriptor_of(pointee) or pointee, RESOURCES
        ):
            return _images(op, descriptor_of(pointee) or pointee, context, buffers)
        case spv.StorageClass.UniformConstant if isinstance(pointee, spv.TensorArmType):
            return _tensor(op, pointee, context, buffers)
        case _:
            raise InterpreterError(
                f"variables of storage class {storage.name} are not supported", op
            )


def _workgroup(op: VariableOp, pointee: Attribute, context: Context) -> Callable[[Batch], Any]:
    """
    Returns a function that creates a Workgroup variable, unwritten or zeroed as its initializer
    requires.

    All Blocks with an explicit layout (WorkgroupMemoryExplicitLayoutKHR) alias: they start at the
    beginning of one memory.
    """
    context.form(pointee)  # Raises InterpreterError for invalid lengths.
    size, label = Layout(context).size(pointee), f"@{op.sym_name.data}"
    if not is_block(pointee):
        context.workgroup_bytes += size
        return lambda batch: start_of(_fresh(size, batch, label, zero=op.initializer is not None))
    first, before = context.block_bytes == 0, context.block_bytes
    context.block_bytes = max(before, size)
    context.workgroup_bytes += context.block_bytes - before

    def create(batch: Batch) -> Pointer:
        # All variables of a batch are created at once, in the order of `context.creators`.
        if first:
            context.block = _fresh(context.block_bytes, batch, label, zero=False)
        if op.initializer is not None:
            _clear(context.block, size)
        context.block.names.add(op.sym_name.data)
        return start_of(context.block)

    return create


def _fresh(size: int, batch: Batch, label: str, *, zero: bool) -> Memory:
    """Creates one instance of a variable for each workgroup. With `zero`, its bytes are 0."""
    memory = Memory.unwritten(size, "workgroup", batch, label)
    if zero:
        _clear(memory, size)
    return memory


def _clear(memory: Memory, size: int) -> None:
    """
    Zeroes the first `size` bytes of each row. Other bytes of an aliased block remain unwritten.
    """
    memory.data[:, :size] = 0
    memory.defined = max(memory.defined, size)


def _push_constants(
    op: VariableOp, pointee: Attribute, context: Context, given: PushConstants
) -> Callable[[Batch], Any]:
    """Returns the launch's push constants. Raises `InterpreterError` if bytes are missing."""
    layout = Layout(context)
    name, needed = op.sym_name.data, layout.extent(pointee)
    if not isinstance(given, bytes) and isinstance(pointee, spv.StructType) and given:
        given = pack_struct(context.module, pointee, given, layout)
    if not isinstance(given, bytes) or len(given) < needed:
        members = (
            ", ".join(member_names(context.module, pointee)) or "the block has no member names"
        )
        raise InterpreterError(
            f"the entry point uses the push constants @{name} of {needed} bytes, but "
            f"{len(given) or 'no'} bytes were given",
            "push_constants",
            f"give all members: {members}",
        )
    data = np.frombuffer(bytearray(given), np.uint8)
    memory = Memory.of_array(data, f"the push constants @{name}")
    return lambda batch: start_of(memory)


def _buffer(op: VariableOp, context: Context, buffers: Buffers) -> Callable[[Batch], Any] | None:
    where = _place(op)
    name, at = f"@{op.sym_name.data}", f"(set {where[0]}, binding {where[1]})"
    if op.object_type is not None and descriptor_of(op.object_type) is not None:
        places = [p for p in buffers if len(p) == 3 and p[:2] == where]
        label = f"the buffer {name} {at[:-1]}, number "
        memories = {p[2]: _bind_memory(context, p, buffers, f"{label}{p[2]})") for p in places}
        descriptors = Descriptors(memories, name)
        return (lambda batch: descriptors) if memories else None
    if where not in buffers:
        return None
    memory = _bind_memory(context, where, buffers, f"the buffer {name} {at}")
    return lambda batch: start_of(memory)


def _bind_memory(context: Context, where: Place, buffers: Buffers, label: str) -> Memory:
    if not buffers[where].flags.c_contiguous:
        raise InterpreterError(
            f"{label} is not C-contiguous", "buffers", "pass numpy.ascontiguousarray(...) of it"
        )
    memory = context.memories.buffer(where, label)
    memory.robust = context.options.robust
    return memory


def _tensor(
    op: VariableOp, type: spv.TensorArmType, context: Context, buffers: Buffers
) -> Callable[[Batch], Any] | None:
    """
    Returns a function that creates a tensor over the caller's array. Returns None if there is no
    array.

    Raises `InterpreterError` if the array's shape contradicts the type.
    """
    pointer = _buffer(op, context, buffers)
    if pointer is None:
        return None
    shape = buffers[_place(op)].shape
    wanted = [extent.data for extent in type.shape]
    if wanted and (
        len(wanted) != len(shape)
        or any(w not in (spv.DYNAMIC, s) for w, s in zip(wanted, shape, strict=True))
    ):
        raise InterpreterError(
            f"@{op.sym_name.data} is {type}, but an array of shape {shape} is given",
            "buffers",
            "give an array of the variable's shape",
        )
    tensor = Tensor(context.memories.buffer(_place(op), f"the tensor @{op.sym_name.data}"), shape)
    form = context.form(type)
    return lambda batch: VariablePointer(Variable(form, tensor))


def _images(
    op: VariableOp, type: Attribute, context: Context, buffers: Buffers
) -> Callable[[Batch], Any] | None:
    """
    Returns a function that creates an image, a sampler, or an array of them. Returns None if the
    launch gives no matching description.
    """
    where, name = _place(op), f"@{op.sym_name.data}"
    found: dict[Place, Memory] = {}
    for place in context.images:
        if place[:2] == where:
            number = ", number ".join(map(str, place[1:]))
            label = f"the image {name} (set {place[0]}, binding {number})"
            found[place] = image_memory(context, place, type, buffers, label)
    if not found or (where in found) == (op.object_type is not type):
        return None
    if where in found:
        return lambda batch: start_of(found[where])
    descriptors = Descriptors({place[2]: one for place, one in found.items()}, name)
    return lambda batch: descriptors


def _place(op: VariableOp) -> tuple[int, int]:
    if op.descriptor_set is None or op.binding is None:
        raise InterpreterError(
            "a buffer variable needs a descriptor set and a binding", op, "add bind(SET, BINDING)"
        )
    return op.descriptor_set.value.data, op.binding.value.data


class Compiled:
    """
    A cache of compiled code, for repeated launches of modules that do not change.

    Each entry is a context. It is removed while it runs, so that launches on several threads use
    different contexts.
    """

    def __init__(self) -> None:
        self._contexts: dict[Hashable, Context] = {}

    def take(self, key: Hashable) -> Context | None:
        """
        Removes the context stored under the key and returns it. Returns None if there is none.
        """
        return self._contexts.pop(key, None)

    def keep(self, key: Hashable, context: Context) -> None:
        """Stores a context for the next launch. First removes its buffers and variables."""
        context.creators, context.global_slots = [], {}
        context.workgroup_bytes = context.block_bytes = 0
        context.products = 0
        context.memories.bind({}, {})
        self._contexts[key] = context


@dataclass(frozen=True)
class Launch:
    """One entry point with its grid, arguments and options."""

    module: ModuleOp
    entry: str
    grid: tuple[int, int, int]
    buffers: Buffers
    spec_values: SpecValues
    push_constants: PushConstants
    options: Options
    originals: Buffers | None = None
    """
    The caller's buffers if `buffers` are copies. Programs see the addresses of the caller's
    buffers.
    """
    compiled: Compiled | None = None
    images: Mapping[Place, Image | Sampler] = field(default_factory=dict[Place, "Image | Sampler"])
    """Descriptions of samplers, and of the buffers that are images."""

    def run(self) -> None:
        """Runs the launch, with the checks of the options."""
        checks = self.options.checks
        if checks is None or not (checks.choices or checks.permute):
            run_workgroups(self)
            return
        from xdsl_spirv.interpreter.checks.choices import SAMPLE, Choices
        from xdsl_spirv.interpreter.checks.permute import Permuted

        x, y, z = self.grid
        choices = Choices(self.module, self.options) if checks.choices else None
        again = choices is not None and choices.any
        permuted = Permuted(self.module, self.options) if checks.permute else None
        before = copy_buffers(self.buffers) if again or permuted is not None else {}
        context = run_workgroups(replace(self, compiled=None))
        # If workgroups wait for each other, the first ones may wait for others that do not run.
        few = x * y * z if context.may_wait else SAMPLE

        def sample(options: Options, copies: Buffers, count: int = few) -> Context:
            launch = replace(self, options=options, buffers=copies, compiled=None)
            return run_workgroups(replace(launch, originals=self.buffers), count)

        if permuted is not None:
            permuted.explore(before, self.buffers if x * y * z <= few else None, sample, few)
        if choices is not None and again:
            choices.explore(before, self.buffers, x * y * z, sample)

    @cached_property
    def key(self) -> Hashable | None:
        """
        Returns the cache key, which contains all inputs of compilation. Returns None if no cache
        was given.
        """
        options = self.options
        watched = (options.checks, options.debug, options.schedule, options.max_steps)
        if self.compiled is None or any(one is not None for one in watched):
            return None
        # As text, because -0.0 equals 0.0.
        constants = tuple((id, repr(self.spec_values[id])) for id in sorted(self.spec_values))
        return self.module, self.entry, constants, replace(options, memory=MemoryBudget())


def run_workgroups(launch: Launch, workgroups: int | None = None) -> Context:
    """Runs an entry point over the first `workgroups` workgroups of the grid, or over all."""
    module, options, buffers = launch.module, launch.options, launch.buffers
    function = find_entry(module, launch.entry)
    compiled, key = launch.compiled, launch.key
    context = None if compiled is None or key is None else compiled.take(key)
    if context is None:
        placeholder = Geometry((0, 0, 0), (1, 1, 1), options.subgroup_size)
        context = Context(module, options, placeholder)
        forget_numbers()
        if options.checks is not None:
            from xdsl_spirv.interpreter.checks.compiler import observe

            observe(context, options.checks)
        specialize(context, launch.spec_values)
    context.options, context.clock, context.images = options, 0, launch.images
    context.memories.bind(buffers, buffers if launch.originals is None else launch.originals)
    context.geometry = geometry_of(launch.grid, workgroup_size(context, function), options)
    _add_variables(context, function, launch)
    run(context, function, kernel_arguments(context, function, buffers), workgroups)
    if options.debug is not None:
        options.debug.check_reached()
    if compiled is not None and key is not None:
        compiled.keep(key, context)
    return context


def _add_variables(context: Context, function: FuncOp, launch: Launch) -> None:
    """
    Registers a function for each variable of the entry point. The function creates the variable for
    a batch.
    """
    used = _used_variables(context, function) | _clearing_variables(context, function)
    for op in launch.module.body.block.ops:
        if not isinstance(op, VariableOp) or op.sym_name.data not in used:
            continue
        make = creator(op, context, launch.buffers, launch.push_constants)
        if make is None:
            element = None if op.object_type is None else descriptor_of(op.object_type)
            image = isinstance(element or op.object_type, RESOURCES)
            uses = f"the entry point @{launch.entry} uses @{op.sym_name.data}"
            raise InterpreterError(
                f"{Names(launch.module).renamed(uses)}, but got no "
                f"{'image or sampler' if image else 'buffer'} for it",
                "images" if image else "buffers",
                f"pass one under {_place(op) if element is None else (*_place(op), 0)}",
            )
        context.add_global(op.sym_name.data, make)
    if not isinstance(launch.push_constants, bytes) and launch.push_constants:
        _require_push_constants(context, function, used, launch.push_constants)


def _require_push_constants(
    context: Context, function: FuncOp, used: set[str], given: Mapping[str, Any]
) -> None:
    """Raises `InterpreterError` if named push constants are given but not used."""
    for name in used:
        op = context.symbols.get(name)
        if (
            isinstance(op, VariableOp)
            and op.type.storage_class.data is spv.StorageClass.PushConstant
        ):
            return
    raise InterpreterError(
        f"the entry point @{function.sym_name.data} uses no push constants, but "
        f"{list(given)} were given",
        "push_constants",
        "leave them out",
    )


def kernel_arguments(context: Context, function: FuncOp, buffers: Buffers) -> list[Any]:
    """
    Returns the arguments of an OpenCL kernel. Argument n is the buffer at set 0, binding n, or a
    scalar or vector in this buffer. Workgroup arguments are refused, because their size is not
    known.
    """
    arguments: list[Any] = []
    for number, type in enumerate(function.function_type.inputs.data):
        array = buffers.get((0, number))
        if array is None:
            raise InterpreterError(
                f"the kernel takes argument {number}, a {type}, but got no buffer for it",
                "buffers",
                f"pass one under (0, {number})",
            )
        memory = context.memories.buffer((0, number), f"argument {number}")
        if not isinstance(type, spv.PointerType | spv.UntypedPointerType):
            arguments.append(load(start_of(memory), context.plain(type), None))
        elif type.storage_class.data in (
            spv.StorageClass.CrossWorkgroup,
            spv.StorageClass.UniformConstant,
        ):
            arguments.append(start_of(memory))
        else:
            raise InterpreterError(f"a kernel's argument of type {type} is not supported", function)
    return arguments


def _used_variables(context: Context, function: Operation) -> set[str]:
    """Returns the variables that a function and the functions it calls use."""
    used: set[str] = set()
    pending, seen = [function], {function}
    while pending:
        for op in pending.pop().walk():
            if op.name == "spirv.mlir.addressof":
                used.add(symbol_name(op.properties["variable"]))
                continue
            for named in op.properties.values():
                name = symbol_name(named) if isinstance(named, SymbolRefAttr) else ""
                callee = context.symbols.get(name)
                if isinstance(callee, FuncOp) and callee not in seen:
                    seen.add(callee)
                    pending.append(callee)
    return used


def _clearing_variables(context: Context, function: FuncOp) -> set[str]:
    """
    Returns the Workgroup variables of an entry point that have initializers.

    They are created even if they are unused. Other variables may alias the memory that their
    initializers clear.
    """
    name = function.sym_name.data
    listed = {
        symbol_name(variable)
        for op in context.module.regions[0].block.ops
        if isinstance(op, spv.EntryPointOp) and symbol_name(op.fn) == name
        for variable in op.interface
    }
    return {
        name
        for name in listed
        if isinstance(op := context.symbols.get(name), VariableOp)
        and op.storage_class is spv.StorageClass.Workgroup
        and op.initializer is not None
    }


def push_constant_bytes(
    module: ModuleOp, values: Mapping[str, Any], spec_values: SpecValues | None = None
) -> bytes:
    """
    Packs push constants into bytes. `values` maps the names of members to their values.

    Raises `InterpreterError` for a member that is missing, unknown or of another shape.
    """
    struct = push_constant_block(module)
    if struct is None:
        if values:
            raise InterpreterError(
                f"the module has no push constants, but {', '.join(map(str, values))} were given",
                "push_constants",
                "leave them out",
            )
        return b""
    context = Context(module, Options(), Geometry((0, 0, 0), (1, 1, 1), 1))
    specialize(context, spec_values or {})
    return pack_struct(module, struct, values, Layout(context))
