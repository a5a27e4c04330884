"""
Fixtures for tests of passes, and their types: import these below `TYPE_CHECKING`.

`validate` checks that every pass of a pipeline keeps what a module computes. `write_code` runs the
code that a helper writes in a kernel's dialects, `compute` what one writes in `spirv`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import InsertPoint
from xdsl.universe import Universe

from xdsl_spirv.compare.translation import Report, check_passes
from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter import dispatch, interpret
from xdsl_spirv.passes.emit.emitter import Emitter
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.serialization.encode.target import find_module


class ReportOf(Protocol):
    """`report_of(text, passes, **options)` is the report of `check_passes`."""

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
    def check(text: str, passes: str | Sequence[ModulePass], **options: Any) -> None:
        report = report_of(text, passes, **options)
        assert report.finding is None, str(report)
        assert report.inputs > 0, str(report)

    return check


@dataclass(frozen=True)
class Code:
    """A function whose body an emitter wrote."""

    module: ModuleOp

    def run(self, *arguments: Any) -> list[Any]:
        """Interprets the code on numpy arrays and numbers; memory is changed in place."""
        return interpret(self.module, list(arguments))

    def count(self, *kinds: type[Operation]) -> int:
        """Counts the operations of these kinds, all but the return if none is named."""
        operations = self.module.body.block.walk()
        others = (op for op in operations if not isinstance(op, FuncOp | ReturnOp))
        return sum(isinstance(op, kinds or Operation) for op in others)


class WriteCode(Protocol):
    """`write_code(types, write)`: the code that `write(emitter, *arguments)` emits and returns."""

    def __call__(
        self,
        types: Sequence[Attribute],
        write: Callable[..., Sequence[SSAValue]],
        emitter: Callable[[InsertPoint], Emitter] = KernelEmitter,
        /,
    ) -> Code: ...


@pytest.fixture(scope="session")
def write_code() -> WriteCode:
    def build(
        types: Sequence[Attribute],
        write: Callable[..., Sequence[SSAValue]],
        emitter: Callable[[InsertPoint], Emitter] = KernelEmitter,
    ) -> Code:
        block = Block(arg_types=types)
        b = emitter(InsertPoint.at_end(block))
        results = write(b, *block.args)
        block.add_op(ReturnOp(*results))
        function = FuncOp("main", (types, [value.type for value in results]), Region(block))
        module = ModuleOp([function])
        module.verify()
        return Code(module)

    return build


class Compute(Protocol):
    """
    `compute(write, x, y)`: for each pair of 32-bit integers the one that `write(emitter, a, b)`
    emits in a kernel, and the kernel's module.
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
    text = Path(__file__).with_name("elements.mlir").read_text()

    def before(store: spv.StoreOp, module: spv.ModuleOp) -> SpirvEmitter:
        return SpirvEmitter(InsertPoint.before(store), module, after=store.prev_op)

    def run(
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

    return run
