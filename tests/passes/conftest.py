"""
Fixtures for tests of passes, and their types (imported under `TYPE_CHECKING`).

`validate` checks that every pass of a pipeline keeps results. `write_code` and `compute` run code
that a helper emits, in a kernel's dialects or in `spirv`. `read_function` and `generic_of` read a
function, and its only operation, from an MLIR file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects import arith, gpu, memref, vector
from xdsl.dialects.builtin import (
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.parser import Parser
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import InsertPoint
from xdsl.universe import Universe

from xdsl_spirv.compare.check import check
from xdsl_spirv.compare.translation import Report, check_passes
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import SCHEDULE, AttentionOp
from xdsl_spirv.interpreter import Options, dispatch, interpret
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.options import mapping_of
from xdsl_spirv.passes.analysis.contraction import contraction_of
from xdsl_spirv.passes.emit.emitter import Emitter
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.targets import Target, load

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries


class ReportOf(Protocol):
    """`report_of(text, passes, **options)` returns the report of `check_passes`."""

    def __call__(
        self, text: str, passes: str | Sequence[ModulePass], /, **options: Any
    ) -> Report: ...


class Validate(Protocol):
    """`validate(text, passes, **options)` fails with the first pass that changes results."""

    def __call__(
        self, text: str, passes: str | Sequence[ModulePass], /, **options: Any
    ) -> None: ...


@pytest.fixture
def report_of() -> ReportOf:
    def report(text: str, passes: str | Sequence[ModulePass], **options: Any) -> Report:
        ctx = context()
        if isinstance(passes, str):
            known = Universe.get_multiverse().all_passes
            passes = PassPipeline.parse_spec(known, passes).passes
        return check_passes(parse_text(text, ctx=ctx), passes, ctx, **options)

    return report


@pytest.fixture
def validate(report_of: ReportOf) -> Validate:
    def run_checked(text: str, passes: str | Sequence[ModulePass], **options: Any) -> None:
        report = report_of(text, passes, **options)
        assert report.finding is None, str(report)
        assert report.inputs > 0, str(report)

    return run_checked


HERE = Path(__file__).parent
INDEX = IndexType()
STORAGE = spv.StorageClassAttr(spv.StorageClass.StorageBuffer)


class FormAttention(Protocol):
    """
    `form_attention(text, target, schedule)` returns the module after `form-attention`, and its
    attentions.
    """

    def __call__(
        self, text: str, target: str, schedule: str | None = None, /
    ) -> tuple[ModuleOp, list[AttentionOp]]: ...


@pytest.fixture(scope="session")
def form_attention() -> FormAttention:
    def form(
        text: str, target: str, schedule: str | None = None
    ) -> tuple[ModuleOp, list[AttentionOp]]:
        ctx = context()
        module = parse_text(text, ctx=ctx)
        spec = f'scalars-into-loops,linalg-to-contraction,form-attention{{target="{target}"}}'
        PassPipeline.parse_spec(Universe.get_multiverse().all_passes, spec).apply(ctx, module)
        ops = [op for op in module.walk() if isinstance(op, AttentionOp)]
        for op in ops if schedule else ():
            attribute = Parser(ctx, f"#schedule.attention<{schedule}>").parse_attribute()
            op.attributes[SCHEDULE] = attribute
        return module, ops

    return form


class CompileAttention(Protocol):
    """`compile_attention(text, target, schedule)` compiles the result of `form_attention`."""

    def __call__(self, text: str, target: str, schedule: str | None = None, /) -> Program: ...


@pytest.fixture(scope="session")
def compile_attention(form_attention: FormAttention) -> CompileAttention:
    def compile(text: str, target: str, schedule: str | None = None) -> Program:
        return compile_module(form_attention(text, target, schedule)[0], target)

    return compile


class Judge(Protocol):
    """`judge(program, inputs)` checks kernels, findings of checks, and bounds of results."""

    def __call__(self, program: Program, inputs: Mapping[str, Any], /) -> None: ...


@pytest.fixture(scope="session")
def judge(check_binaries: CheckBinaries) -> Judge:
    def run_and_check(program: Program, inputs: Mapping[str, Any]) -> None:
        check_binaries(program)
        checks = replace(Checks.all(), launches_stand_alone=False, choices=False)
        results = run(program, inputs, checks=checks)
        assert not checks.report, str(checks.report)
        comparisons = check(program, inputs, results)
        assert all(comparison.passed for comparison in comparisons), comparisons

    return run_and_check


@dataclass(frozen=True)
class Code:
    """A kernel whose body an emitter wrote."""

    module: ModuleOp
    memory: Sequence[MemRefType]
    """Buffers of the arguments, then of the results."""
    arguments: int
    operations: Sequence[Operation]
    """Operations of the emitter, without the surrounding loads and stores."""

    def run(
        self, *arguments: Any, subgroup_size: int | None = None, target: str = "lavapipe"
    ) -> list[Any]:
        """
        Interprets the kernel. Memory arguments are changed in place.

        A number is uniform, an array has one element for each invocation. Each result has one
        element for each invocation. The target determines the subgroup size and the components of
        matrices.
        """
        buffers = [np.zeros(m.get_shape(), dtype_of(str(m.element_type))) for m in self.memory]
        for number, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray) and argument.shape == buffers[number].shape:
                buffers[number] = argument
            else:
                buffers[number][...] = argument
        size = subgroup_size or load(target).subgroup_size
        options = Options(subgroup_size=size, component_mapping=mapping_of(target))
        interpret(self.module, buffers, options=options)
        results = buffers[self.arguments :]
        return [result[0] if len(result) == 1 else result for result in results]

    def count(self, *kinds: type[Operation]) -> int:
        """Returns the number of operations of these kinds, or of all kinds."""
        return sum(isinstance(op, kinds or Operation) for op in self.operations)


class WriteCode(Protocol):
    """`write_code(types, write)` returns the kernel that computes `write(emitter, *arguments)`."""

    def __call__(
        self,
        types: Sequence[Attribute],
        write: Callable[..., Sequence[SSAValue]],
        emitter: Callable[[InsertPoint], Emitter] = KernelEmitter,
        /,
        *,
        invocations: int = 1,
    ) -> Code: ...


def _memory_of(type: Attribute, invocations: int) -> MemRefType:
    """Returns the memory type for one value per invocation, or a memory type unchanged."""
    if isinstance(type, MemRefType):
        return type
    shape = type.get_shape() if isinstance(type, VectorType) else ()
    element = type.element_type if isinstance(type, VectorType) else type
    return MemRefType(i32 if element == INDEX else element, [invocations, *shape])


def _load(b: Builder, memory: SSAValue, at: SSAValue, type: Attribute) -> SSAValue:
    if isinstance(type, MemRefType):
        return memory
    loaded = b.insert(memref.LoadOp.get(memory, [at])).results[0]
    return b.insert(arith.IndexCastOp(loaded, INDEX)).result if type == INDEX else loaded


def _store(b: Builder, value: SSAValue, memory: SSAValue, at: SSAValue) -> None:
    if value.type == INDEX:
        value = b.insert(arith.IndexCastOp(value, i32)).result
    if not isinstance(value.type, VectorType):
        b.insert(memref.StoreOp.get(value, memory, [at]))
        return
    for number in range(value.type.get_shape()[0]):
        place = b.insert(arith.ConstantOp.from_int_and_width(number, INDEX)).result
        part = b.insert(vector.ExtractOp(value, [number], value.type.element_type)).result
        b.insert(memref.StoreOp.get(part, memory, [at, place]))


def _launch(kernel: gpu.FuncOp, memory: Sequence[MemRefType], invocations: int) -> ModuleOp:
    host = Block(arg_types=memory)
    one, many = (arith.ConstantOp.from_int_and_width(n, INDEX) for n in (1, invocations))
    name = SymbolRefAttr("kernels", ["kernel"])
    launch = gpu.LaunchFuncOp(name, [one] * 3, [many, one, one], kernelOperands=host.args)
    host.add_ops([one, many, launch, ReturnOp()])
    function = FuncOp("main", (memory, []), Region(host))
    kernels = gpu.ModuleOp(SymbolRefAttr("kernels"), Region(Block([kernel])))
    kernels.properties["sym_name"] = StringAttr("kernels")
    module = ModuleOp([function, kernels])
    module.attributes["gpu.container_module"] = UnitAttr()
    module.verify()
    return module


@pytest.fixture(scope="session")
def write_code() -> WriteCode:
    def build(
        types: Sequence[Attribute],
        write: Callable[..., Sequence[SSAValue]],
        emitter: Callable[[InsertPoint], Emitter] = KernelEmitter,
        *,
        invocations: int = 1,
    ) -> Code:
        block = Block()
        b = Builder(InsertPoint.at_end(block))
        at = b.insert(gpu.ThreadIdOp(gpu.DimensionAttr(gpu.DimensionEnum.X))).result
        memory = [_memory_of(type, invocations) for type in types]
        for number, type in enumerate(memory):
            in_kernel = MemRefType(type.element_type, type.shape, memory_space=STORAGE)
            block.insert_arg(in_kernel, number)
        pairs = list(zip(block.args, types, strict=True))
        given = [_load(b, argument, at, type) for argument, type in pairs]
        before = set(block.ops)
        results = write(emitter(InsertPoint.at_end(block)), *given)
        own = [op for op in block.walk() if op not in before]
        for value in results:
            memory.append(_memory_of(value.type, invocations))
            type = MemRefType(memory[-1].element_type, memory[-1].shape, memory_space=STORAGE)
            _store(b, value, block.insert_arg(type, len(block.args)), at)
        b.insert(gpu.ReturnOp([]))
        kernel = gpu.FuncOp(
            "kernel",
            ([argument.type for argument in block.args], []),
            Region(block),
            kernel=True,
            known_block_size=[invocations, 1, 1],
        )
        return Code(_launch(kernel, memory, invocations), memory, len(types), own)

    return build


class Compute(Protocol):
    """
    `compute(write, x, y)` returns what `write(emitter, a, b)` computes for each pair of 32-bit
    integers, and the kernel's module.
    """

    def __call__(
        self,
        write: Callable[[SpirvEmitter, SSAValue, SSAValue], SSAValue],
        x: Array,
        y: Array,
        emitter: Callable[[spv.StoreOp, spv.ModuleOp], SpirvEmitter] = ...,
        /,
    ) -> tuple[Array, spv.ModuleOp]: ...


@pytest.fixture(scope="session")
def compute() -> Compute:
    text = (HERE / "elements.mlir").read_text()

    def before(store: spv.StoreOp, module: spv.ModuleOp) -> SpirvEmitter:
        return SpirvEmitter(InsertPoint.before(store), module, after=store.prev_op)

    def run_kernel(
        write: Callable[[SpirvEmitter, SSAValue, SSAValue], SSAValue],
        x: Array,
        y: Array,
        emitter: Callable[[spv.StoreOp, spv.ModuleOp], SpirvEmitter] = before,
    ) -> tuple[Array, spv.ModuleOp]:
        module = find_module(parse_text(text))
        (store,) = (op for op in module.walk() if isinstance(op, spv.StoreOp))
        loads = [op for op in module.walk() if isinstance(op, spv.LoadOp)]
        store.operands[1] = write(emitter(store, module), *(op.result for op in loads[-2:]))
        module.verify()
        count = -(-len(x) // 64) * 64
        buffers = [np.resize(np.asarray(v).astype(np.int32), count) for v in (x, y, x)]
        dispatch(module, "main", (count // 64, 1, 1), {(0, n): b for n, b in enumerate(buffers)})
        return buffers[2][: len(x)], module

    return run_kernel


class ReadFunction(Protocol):
    """
    `read_function(file, name, **aliases)` returns a module's text with one function of an MLIR
    file.

    The function is renamed to main. `aliases` are types and attributes that the file does not
    define.
    """

    def __call__(self, path: str, name: str, /, **aliases: Attribute) -> str: ...


def _find_function(module: ModuleOp, name: str) -> FuncOp:
    functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    (function,) = (f for f in functions if f.sym_name.data == name)
    return function


@pytest.fixture(scope="session")
def read_function() -> ReadFunction:
    def read(path: str, name: str, /, **aliases: Attribute) -> str:
        given = [
            f"{'!' if isinstance(value, TypeAttribute) else '#'}{alias} = {value}\n"
            for alias, value in aliases.items()
        ]
        function = _find_function(parse_text("".join(given) + (HERE / path).read_text()), name)
        function.properties["sym_name"] = StringAttr("main")
        function.detach()
        return text_of(ModuleOp([function]))

    return read


class GenericOf(Protocol):
    """`generic_of(path, name)` returns the only `linalg.generic` of a function of an MLIR file."""

    def __call__(self, path: str, name: str, /) -> GenericOp: ...


@pytest.fixture(scope="session")
def generic_of() -> GenericOf:
    parse = cache(lambda path: parse_text((HERE / path).read_text()))

    def find(path: str, name: str) -> GenericOp:
        ops = _find_function(parse(path), name).body.block.ops
        (op,) = (op for op in ops if isinstance(op, GenericOp))
        return op

    return find


class PlanProduct(Protocol):
    """
    `plan_product(operation, tile, subgroups, rest, instruction, target)` plans a contraction, by
    default for 8x8x8 matrices of lavapipe. An operation is given itself or as the name of its
    function in `analysis/contraction.mlir`.
    """

    def __call__(
        self,
        operation: str | LinalgStructuredOperation,
        tile: str,
        subgroups: str,
        rest: str,
        instruction: str = "coopmat 8x8x8",
        target: Target = ...,
        /,
    ) -> Plan: ...


@pytest.fixture(scope="session")
def plan_product() -> PlanProduct:
    module = parse_text((HERE / "analysis" / "contraction.mlir").read_text())

    def build(
        operation: str | LinalgStructuredOperation,
        tile: str,
        subgroups: str,
        rest: str,
        instruction: str = "coopmat 8x8x8",
        target: Target = load("lavapipe"),
    ) -> Plan:
        if isinstance(operation, str):
            ops = _find_function(module, operation).walk()
            (operation,) = (op for op in ops if isinstance(op, LinalgStructuredOperation))
        schedule = parse_schedule(
            f"#schedule.contraction<workgroup_tile = [{tile}], subgroups = [{subgroups}], "
            f"instruction = {instruction}, {rest}>"
        )
        return Plan(contraction_of(operation), schedule, target)

    return build
