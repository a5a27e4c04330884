"""The debugger supports breakpoints, values of all lanes and traces."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.checks import Checks, places
from xdsl_spirv.interpreter.debug import Break, Debug, Stop

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel, Parse


@pytest.mark.parametrize("checked", [False, True])
def test_a_breakpoint_sees_all_lanes(kernel: Kernel, checked: bool) -> None:
    out = kernel.buffer("i32", np.zeros(128, np.int32))
    kernel("%sum = spirv.IAdd %id, %one : i32")
    kernel.store(out, "%sum")
    stops: list[Stop] = []
    debug = Debug([Break("%sum", stops.append)])
    checks = Checks.all() if checked else None
    kernel.run((2, 1, 1), (64, 1, 1), 32, debug=debug, checks=checks)
    (stop,) = stops
    assert stop.value().tolist() == [[n + 1 for n in range(m, m + 64)] for m in (0, 64)]
    assert stop.value("%id").tolist() == [[*range(m, m + 64)] for m in (0, 64)]
    assert stop.at(1, 5) == 70
    assert stop.active().all()
    assert "%sum = spirv.IAdd %id, %one" in str(stop)


def test_conditions_and_divergence(kernel: Kernel) -> None:
    stops: list[Stop] = []
    kernel("""
      spirv.mlir.loop {
        spirv.Branch ^header(%zero : i32)
      ^header(%i: i32):
        %more = spirv.SLessThan %i, %lane : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next : i32)
      ^merge:
        spirv.mlir.merge
      }""")
    at_five = Break("%next", stops.append, lambda stop: int(stop.at(0, 31)) == 5)
    kernel.run(debug=Debug([at_five]), checks=Checks.all())
    (stop,) = stops
    assert stop.active().tolist() == [[n >= 5 for n in range(32)]]


def test_a_matrix_whole(kernel: Kernel) -> None:
    values = np.arange(64, dtype=np.float16)
    source = kernel.buffer("f16", values)
    pointer, eight = kernel.pointer(source, "%zero"), kernel.constant(8)
    kernel(
        f"%m = spirv.KHR.CooperativeMatrixLoad {pointer}, {eight}, <RowMajor> "
        ": !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixA>"
    )
    found: list[Any] = []
    debug = Debug([Break("%m", lambda stop: found.append(stop.value()))])
    kernel.run(local=(16, 1, 1), subgroup_size=8, debug=debug)
    assert found[0].shape == (1, 2, 8, 8)
    assert (found[0] == values.reshape(8, 8)).all()


def test_a_trace_is_structured(kernel: Kernel) -> None:
    kernel("%sum = spirv.IAdd %id, %one : i32")
    kernel("%quotient = spirv.ConvertSToF %sum : i32 to f32")
    trace = io.StringIO()
    kernel.run(debug=Debug(trace=trace))
    records = [json.loads(line) for line in trace.getvalue().splitlines()]
    assert [record["step"] for record in records] == list(range(1, len(records) + 1))
    last = records[-1]
    assert last["op"] == "spirv.ConvertSToF"
    assert last["active"] == 32
    assert last["result"]["first"] == [1.0, 2.0, 3.0, 4.0]


def test_a_breakpoint_nowhere_is_refused(kernel: Kernel) -> None:
    kernel("%sum = spirv.IAdd %id, %one : i32")
    with pytest.raises(InterpreterError, match="no instruction matches the breakpoint %summ"):
        kernel.run(debug=Debug([Break("%summ", print)]))


def test_steps(kernel: Kernel, parse: Parse) -> None:
    """The debugger stops at each instruction after a breakpoint, in order."""
    value = kernel.op("spirv.IAdd %id, %one : i32")
    twice = kernel.op(f"spirv.IMul {value}, {value} : i32")
    kernel.op(f"spirv.ISub {twice}, %one : i32")
    kernel.op(f"spirv.IAdd {twice}, %one : i32")
    seen: list[str] = []

    def look(stop: Stop) -> None:
        if stop.op.name == "spirv.IMul":
            stop.step(2)
        seen.append(stop.op.name)

    multiply = Break("#" + str(number_of(kernel, "spirv.IMul", parse)), look)
    kernel.run(debug=Debug([multiply], stepping=True))
    assert seen == ["spirv.IMul", "spirv.ISub", "spirv.IAdd"]


def number_of(kernel: Kernel, name: str, parse: Parse) -> int:
    """Returns the index of the only instruction of a kernel with this name."""
    module = parse(kernel.text((32, 1, 1)))
    (op,) = [op for op in module.walk() if op.name == name]
    return places.number_of(op)


def test_stepping_must_be_asked_for(kernel: Kernel) -> None:
    value = kernel.op("spirv.IAdd %id, %one : i32")
    stop = Break(value, lambda stop: stop.step())
    with pytest.raises(InterpreterError, match="cannot step"):
        kernel.run(debug=Debug([stop]))
