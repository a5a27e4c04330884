"""
Sliding windows by rotations give numpy's results on the interpreter and on lavapipe.

Random convolutions of rows are depthwise or dense, strided in other dimensions, dilated, padded,
with an initial value and with a fused bias and clamp, in several types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest
from xdsl.dialects.builtin import f16
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.schedule import SCHEDULE, WindowAttr
from xdsl_spirv.dialects.spirv.memory import LoadOp
from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.testing.dispatches import Dispatch

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries, DispatchOf, RunOnLavapipe

QUICK, MANY, ON_LAVAPIPE = 8, 120, 4
T = TypeVar("T")

TYPES = (("f32", "f32"), ("f16", "f32"), ("i8", "i32"), ("i32", "i32"))


@dataclass(frozen=True)
class Window:
    """result[f, i, j] += x[c, i * stride + r, j + k * dilation] * w[f, c, r, k]."""

    channels: int
    filters: int | None
    """Number of filters. None means a depthwise convolution."""
    height: int
    width: int
    window: tuple[int, int]
    stride: int
    dilation: int
    padding: int
    types: tuple[str, str]
    outputs: int
    subgroups: int
    init: bool
    fused: bool

    @staticmethod
    def random(seed: int) -> Window:
        rng = np.random.default_rng(seed)

        def pick(*choices: T) -> T:
            return choices[int(rng.integers(len(choices)))]

        filters = pick(None, None, 2, 4)
        types = TYPES[int(rng.integers(len(TYPES)))]
        return Window(
            int(rng.integers(1, 5)),
            filters,
            int(rng.integers(1, 6)),
            int(rng.integers(1, 45)),
            (int(rng.integers(1, 4)), int(rng.integers(2, 5))),
            pick(1, 1, 2),
            pick(1, 1, 2),
            pick(0, 0, 1, 2),
            types,
            1 if filters is None else pick(1, 2),
            pick(1, 2, 4),
            pick(True, False),
            types[1] == "f32" and pick(True, False),
        )

    def text(self, *, scheduled: bool = True) -> str:
        """Returns the module. `height` and `width` are sizes of the result."""
        element, total = self.types
        rows, columns = self.window
        height = (self.height - 1) * self.stride + rows
        width = self.width + (columns - 1) * self.dilation
        around = 2 * self.padding
        inner = (max(height - around, 1), max(width - around, 1))
        low = (self.padding if height > around else 0, self.padding if width > around else 0)
        high = (height - inner[0] - low[0], width - inner[1] - low[1])
        x = f"tensor<{self.channels}x{inner[0]}x{inner[1]}x{element}>"
        padded = f"tensor<{self.channels}x{height}x{width}x{element}>"
        zero, total_zero = ("0.0" if t[0] == "f" else "0" for t in self.types)
        moved = f"i * {self.stride} + r, j + k * {self.dilation}"
        if self.filters is None:
            loops, first = "f, i, j, r, k", self.channels
            maps = (f"(f, {moved})", "(f, r, k)")
            w = f"tensor<{first}x{rows}x{columns}x{element}>"
        else:
            loops, first = "f, i, j, c, r, k", self.filters
            maps = (f"(c, {moved})", "(f, c, r, k)")
            w = f"tensor<{first}x{self.channels}x{rows}x{columns}x{element}>"
        out = f"tensor<{first}x{self.height}x{self.width}x{total}>"
        kinds = ", ".join(['"parallel"'] * 3 + ['"reduction"'] * (loops.count(",") - 2))
        fill = f"""%z = arith.constant {total_zero} : {total}
          %c = linalg.fill ins(%z : {total}) outs(%e : {out}) -> {out}"""
        pad = f"""%xp = tensor.pad %x low[0, {low[0]}, {low[1]}] high[0, {high[0]}, {high[1]}] {{
            ^bb0(%i: index, %j: index, %l: index):
              %pz = arith.constant {zero} : {element}
              tensor.yield %pz : {element}
          }} : {x} to {padded}"""
        schedule = f"#schedule.window<outputs = {self.outputs}, subgroups = {self.subgroups}>"
        return f"""
        func.func @main(%x: {x}, %w: {w}{f", %c: {out}" if self.init else ""}
                        {f", %b: tensor<{first}xf32>" if self.fused else ""}) -> {out} {{
          %e = tensor.empty() : {out}
          {"" if self.init else fill}
          {pad if x != padded else ""}
          %r = linalg.generic {{
            indexing_maps = [affine_map<({loops}) -> {maps[0]}>, affine_map<({loops}) -> {maps[1]}>,
                             affine_map<({loops}) -> (f, i, j)>],
            iterator_types = [{kinds}]
          }} ins({"%xp" if x != padded else "%x"}, %w : {padded}, {w}) outs(%c : {out})
          attrs = {{{f"schedule = {schedule}" if scheduled else ""}}} {{
          ^bb0(%p: {element}, %q: {element}, %a: {total}):
            {self._body()}
            linalg.yield %s : {total}
          }} -> {out}
          {self._fused(out, first) if self.fused else ""}
          return {"%d" if self.fused else "%r"} : {out}
        }}"""

    def _body(self) -> str:
        element, total = self.types
        kind = "f" if total[0] == "f" else "i"
        extend = "arith.extf" if kind == "f" else "arith.extsi"
        lines = [f"%{n}w = {extend} %{n} : {element} to {total}" for n in "pq" if element != total]
        p, q = ("%p", "%q") if element == total else ("%pw", "%qw")
        lines.append(f"%m = arith.mul{kind} {p}, {q} : {total}")
        lines.append(f"%s = arith.add{kind} %a, %m : {total}")
        return "\n".join(lines)

    def _fused(self, out: str, first: int) -> str:
        return f"""%d = linalg.generic {{
            indexing_maps = [affine_map<(f, i, j) -> (f, i, j)>, affine_map<(f, i, j) -> (f)>,
                             affine_map<(f, i, j) -> (f, i, j)>],
            iterator_types = ["parallel", "parallel", "parallel"]
          }} ins(%r, %b : {out}, tensor<{first}xf32>) outs(%e : {out}) {{
          ^bb0(%p: f32, %q: f32, %o: f32):
            %s = arith.addf %p, %q : f32
            %zero = arith.constant 0.0 : f32
            %t = arith.maximumf %s, %zero : f32
            linalg.yield %t : f32
          }} -> {out}"""


def inputs_of(program: Program, seed: int) -> dict[str, Array]:
    """Returns small integers, whose sums are exact in every type."""
    rng = np.random.default_rng(seed)
    return {
        each.name: rng.integers(-4, 5, each.sizes).astype(dtype_of(each.type))
        for each in program.manifest.inputs
    }


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.long] * (n >= QUICK)) for n in range(MANY)]
)
def test_random_convolutions_are_right_on_the_interpreter(
    seed: int, target: str, check_binaries: CheckBinaries
):
    made = Window.random(seed)
    program = compile_module(parse_text(made.text()), target)
    check_binaries(program)
    assert len(program.manifest.dispatches) == 1
    inputs = inputs_of(program, seed)
    comparisons = check(program, inputs, run(program, inputs))
    assert all(c.passed for c in comparisons), f"{made}: {comparisons[0]}"


@pytest.mark.vulkan
def test_random_convolutions_are_right_on_lavapipe(
    run_on_lavapipe: RunOnLavapipe, dispatch_of: DispatchOf
):
    jobs: list[Dispatch] = []
    runs: list[tuple[Window, Program, dict[str, Any], Any]] = []
    for seed in range(ON_LAVAPIPE):
        made = Window.random(seed)
        program = compile_module(parse_text(made.text()), "lavapipe")
        (output,) = program.manifest.outputs
        inputs = inputs_of(program, seed)
        result = np.zeros(output.sizes, dtype_of(output.type))
        jobs.append(dispatch_of(program, {**inputs, output.name: result}))
        runs.append((made, program, inputs, result))
    run_on_lavapipe(jobs)
    for made, program, inputs, result in runs:
        (output,) = program.manifest.outputs
        (comparison,) = check(program, inputs, {output.name: result})
        assert comparison.passed, f"{made}: {comparison}"


@pytest.mark.parametrize(
    ("width", "padding", "rows"), [(3, 0, 1), (28, 1, 1), (29, 1, 1), (29, 0, 2), (45, 1, 2)]
)
def test_elements_that_no_result_needs_are_not_loaded(width: int, padding: int, rows: int):
    window = Window(1, None, 4, width, (3, 3), 1, 2, padding, ("f16", "f16"), 1, 1, False, False)
    program = compile_module(parse_text(window.text()), "nvidia-h200")
    (code,) = program.code.values()
    filters = window.window[1]
    loads = [op for op in decode(code.binary).walk() if isinstance(op, LoadOp)]
    assert sum(op.result.type == f16 for op in loads) == filters + rows


@pytest.mark.parametrize(
    ("columns", "width", "types", "refused"),
    [
        (2, 45, ("f16", "f16"), True),
        (2, 31, ("f16", "f16"), False),
        (3, 45, ("f16", "f16"), False),
        (2, 45, ("f16", "f32"), False),
    ],
)
def test_f16_windows_that_a_driver_computes_wrongly_are_refused(
    columns: int, width: int, types: tuple[str, str], refused: bool
):
    """An H200's driver computes some windows with two columns of f16 wrongly."""
    window = Window(1, None, 4, width, (3, columns), 1, 1, 0, types, 1, 1, False, False)
    if refused:
        with pytest.raises(
            DiagnosticException, match="compiler confuses f16 elements in windows of two"
        ):
            compile_module(parse_text(window.text()), "nvidia-h200")
        compile_module(parse_text(window.text(scheduled=False)), "nvidia-h200")
    else:
        compile_module(parse_text(window.text()), "nvidia-h200")


def test_depthwise_convolutions_get_this_schedule():
    for filters, wanted in ((None, True), (4, False)):
        made = Window(4, filters, 8, 40, (3, 3), 1, 1, 1, ("f32", "f32"), 1, 1, False, False)
        ctx = context()
        module = parse_text(made.text(scheduled=False), ctx=ctx)
        AssignSchedulePass("lavapipe").apply(ctx, module)
        schedules = [op.attributes[SCHEDULE] for op in module.walk() if SCHEDULE in op.attributes]
        assert [isinstance(s, WindowAttr) for s in schedules] == [wanted]
