"""
Fixtures for tests of passes, and their types: import these below `TYPE_CHECKING`.

`validate` checks that every pass of a pipeline keeps what a module computes. `write_code` runs the
code that a helper of a kernel writes, alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import InsertPoint
from xdsl.universe import Universe

from xdsl_spirv.compare.translation import Report, check_passes
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.runtime.modules import context, parse_text


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
        emitter: type[KernelEmitter] = KernelEmitter,
        /,
    ) -> Code: ...


@pytest.fixture(scope="session")
def write_code() -> WriteCode:
    def build(
        types: Sequence[Attribute],
        write: Callable[..., Sequence[SSAValue]],
        emitter: type[KernelEmitter] = KernelEmitter,
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
