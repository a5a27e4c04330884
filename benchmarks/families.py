"""
Measures the bandwidth of kernels that are not contractions: our kernels and PyTorch's kernels.

    python benchmarks/families.py --target nvidia-h200 -o benchmarks/results/h200-families.json

Each case is a function on tensors. Inputs are random and results are compared with numpy. Times
are medians of single runs (all dispatches of the function) by GPU timestamps, after 150 ms of
warm-up. Bandwidth is the size of the arguments and results divided by the time, so a kernel that
reads an argument twice reaches at most half of the peak. Cases smaller than the device's caches
may exceed the memory's bandwidth. f16 is computed in f32.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from device_runs import CUDA, WARM_UP, Job, parser_of, run_jobs, torch, torch_median

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.modules import parse_text

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Shape: TypeAlias = tuple[int, ...]

DTYPES = {"f16": np.float16, "f32": np.float32, "i32": np.int32}
ROUNDING = {"f16": 2.0**-10, "f32": 2.0**-20}
"""Tolerance relative to the largest element, for one rounding and the error of sums."""


@dataclass(frozen=True)
class Family:
    """A kernel: `text` is @main's body, from %0, %1, ... to %r. `peer` computes it in PyTorch."""

    name: str
    arguments: tuple[tuple[Shape, str], ...]
    result: tuple[Shape, str]
    text: str
    expected: Callable[..., Array]
    peer: Callable[..., Any]
    below: int = 0
    """Exclusive upper bound of integer arguments, which are indices."""

    @property
    def bytes(self) -> int:
        """Bytes of arguments and results. Unread rows of an indexed table do not count."""
        read = self.arguments if not self.below else (self.result, self.arguments[1])
        return sum(
            math.prod(shape) * np.dtype(DTYPES[type]).itemsize
            for shape, type in (*read, self.result)
        )

    def module(self) -> str:
        given = ", ".join(f"%{i}: {tensor(*argument)}" for i, argument in enumerate(self.arguments))
        result = tensor(*self.result)
        head, end = f"func.func @main({given}) -> {result} {{", f"  func.return %r : {result}"
        return f"{head}\n{self.text}\n{end}\n}}\n"

    def inputs(self) -> list[Array]:
        generator = np.random.default_rng(1)
        return [
            generator.integers(0, self.below, shape).astype(np.int32)
            if type == "i32"
            else generator.uniform(-2, 2, shape).astype(DTYPES[type])
            for shape, type in self.arguments
        ]


def tensor(shape: Sequence[int], type: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{type}>"


@dataclass
class Body:
    """Builds the lines of a function body. Each method returns the name of its result."""

    lines: list[str]
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def empty(self, shape: Shape, type: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = tensor.empty() : {tensor(shape, type)}")
        return name

    def filled(self, shape: Shape, type: str, value: str) -> str:
        zero, name = self.fresh(), self.fresh()
        into = self.empty(shape, type)
        tensor_type = tensor(shape, type)
        self.lines.append(f"  {zero} = arith.constant {value} : {type}")
        self.lines.append(
            f"  {name} = linalg.fill ins({zero} : {type}) outs({into} : {tensor_type}) "
            f"-> {tensor_type}"
        )
        return name

    def generic(
        self,
        inputs: Sequence[tuple[str, Shape, str]],
        out: tuple[str, Shape, str],
        maps: Sequence[str],
        kinds: str,
        body: str,
        name: str = "",
    ) -> str:
        """
        Appends a linalg.generic, whose body computes %y from the inputs %a, %b, ... and the output
        %o.

        Values are (name, shape, type). `maps` are index expressions such as `d0, d1`, and `kinds`
        has a letter p or r for each loop.
        """
        value = name or self.fresh()
        loops = ", ".join(f"d{i}" for i in range(len(kinds)))
        indexing = ", ".join(f"affine_map<({loops}) -> ({part})>" for part in maps)
        iterators = ", ".join(f'"{dict(p="parallel", r="reduction")[kind]}"' for kind in kinds)
        names = ", ".join(part for part, _, _ in inputs)
        types = ", ".join(tensor(shape, type) for _, shape, type in inputs)
        arguments = ", ".join(
            f"%{letter}: {type}" for letter, (_, _, type) in zip("abcdefgh", inputs, strict=False)
        )
        given = f"ins({names} : {types}) " if inputs else ""
        result = tensor(out[1], out[2])
        self.lines.append(
            f"  {value} = linalg.generic {{indexing_maps = [{indexing}], "
            f"iterator_types = [{iterators}]}}\n      {given}outs({out[0]} : {result}) {{\n"
            f"  ^bb0({arguments}{', ' if inputs else ''}%o: {out[2]}):\n"
            f"{body}    linalg.yield %y : {out[2]}\n  }} -> {result}"
        )
        return value

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def widened(type: str, *names: str) -> str:
    """Returns operations that widen each name to f32: `%aw` is %a in f32."""
    if type == "f32":
        return ""
    return "".join(f"    %{n}w = arith.extf %{n} : {type} to f32\n" for n in names)


def wide(type: str, name: str) -> str:
    return f"%{name}" if type == "f32" else f"%{name}w"


def ends(type: str, op: str) -> str:
    """Returns the last operation of a body: it computes `%y` and rounds to the result's type."""
    if type == "f32":
        return f"    %y = {op} : f32\n"
    return f"    %t = {op} : f32\n    %y = arith.truncf %t : f32 to {type}\n"


def names_of(shape: Shape) -> str:
    return ", ".join(f"d{i}" for i in range(len(shape)))


def added(shape: Shape, type: str) -> Family:
    body = Body([])
    into = body.empty(shape, type)
    same = names_of(shape)
    body.generic(
        [("%0", shape, type), ("%1", shape, type)], (into, shape, type), [same] * 3,
        "p" * len(shape), f"    %y = arith.addf %a, %b : {type}\n", "%r",
    )  # fmt: skip
    return Family(
        f"add {sizes(shape)} {type}", ((shape, type),) * 2, (shape, type), body.text,
        lambda a, b: a + b, lambda a, b: a + b,
    )  # fmt: skip


def tanh(shape: Shape, type: str) -> Family:
    body = Body([])
    into = body.empty(shape, type)
    same = names_of(shape)
    lines = widened(type, "a") + ends(type, f"math.tanh {wide(type, 'a')}")
    body.generic(
        [("%0", shape, type)], (into, shape, type), [same] * 2, "p" * len(shape), lines, "%r"
    )
    return Family(
        f"tanh {sizes(shape)} {type}", ((shape, type),), (shape, type), body.text,
        lambda a: np.tanh(a.astype(np.float32)), lambda a: a.tanh(),
    )  # fmt: skip


def summed(shape: Shape, type: str, axis: int) -> Family:
    """Returns the kernel that sums rows or columns in f32."""
    body = Body([])
    kept = tuple(size for i, size in enumerate(shape) if i != axis)
    into = body.filled(kept, "f32", "0.0")
    left = ", ".join(f"d{i}" for i in range(len(shape)) if i != axis)
    lines = widened(type, "a") + f"    %y = arith.addf %o, {wide(type, 'a')} : f32\n"
    body.generic(
        [("%0", shape, type)], (into, kept, "f32"), [names_of(shape), left],
        "".join("r" if i == axis else "p" for i in range(len(shape))), lines, "%r",
    )  # fmt: skip
    which = "columns" if axis == 0 else "rows"
    return Family(
        f"sum of {which} {sizes(shape)} {type} -> f32", ((shape, type),), (kept, "f32"), body.text,
        lambda a: a.sum(axis, dtype=np.float64), lambda a: a.sum(axis, dtype=torch.float32),
    )  # fmt: skip


def rowwise(body: Body, source: tuple[str, Shape, str], start: str, lines: str) -> str:
    """
    Appends a reduction of the rows of `source` in f32, from the value `start`. `lines` compute %y
    from %o and %a.
    """
    rows = source[1][:1]
    into = body.filled(rows, "f32", start)
    wider = widened(source[2], "a")
    return body.generic([source], (into, rows, "f32"), ["d0, d1", "d0"], "pr", wider + lines)


def softmax(shape: Shape, type: str) -> Family:
    body = Body([])
    source = ("%0", shape, type)
    a = wide(type, "a")
    most = rowwise(body, source, "-3.0e+38", f"    %y = arith.maximumf %o, {a} : f32\n")
    into = body.empty(shape, "f32")
    maps = ["d0, d1", "d0", "d0, d1"]
    lines = widened(type, "a")
    lines += f"    %u = arith.subf {a}, %b : f32\n    %y = math.exp %u : f32\n"
    powers = body.generic(
        [source, (most, shape[:1], "f32")], (into, shape, "f32"), maps, "pp", lines
    )
    total = rowwise(body, (powers, shape, "f32"), "0.0", "    %y = arith.addf %o, %a : f32\n")
    out = body.empty(shape, type)
    body.generic(
        [(powers, shape, "f32"), (total, shape[:1], "f32")], (out, shape, type), maps, "pp",
        ends(type, "arith.divf %a, %b"), "%r",
    )  # fmt: skip

    def expected(x: Array) -> Array:
        e = np.exp(x.astype(np.float32) - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return Family(
        f"softmax {sizes(shape)} {type}", ((shape, type),), (shape, type), body.text,
        expected, lambda x: torch.softmax(x, -1),
    )  # fmt: skip


EPSILON = 1e-5


def layer_norm(shape: Shape, type: str) -> Family:
    body = Body([])
    source, row, columns = ("%0", shape, type), shape[:1], shape[1]
    a = wide(type, "a")
    count = f"    %n = arith.constant {float(columns)} : f32\n"
    total = rowwise(body, source, "0.0", f"    %y = arith.addf %o, {a} : f32\n")
    mean = body.generic(
        [(total, row, "f32")], (body.empty(row, "f32"), row, "f32"), ["d0", "d0"], "p",
        f"{count}    %y = arith.divf %a, %n : f32\n",
    )  # fmt: skip
    maps = ["d0, d1", "d0", "d0, d1"]
    lines = f"{widened(type, 'a')}    %u = arith.subf {a}, %b : f32\n"
    squares = body.generic(
        [source, (mean, row, "f32")], (body.empty(shape, "f32"), shape, "f32"), maps, "pp",
        f"{lines}    %y = arith.mulf %u, %u : f32\n",
    )  # fmt: skip
    spread = rowwise(body, (squares, shape, "f32"), "0.0", "    %y = arith.addf %o, %a : f32\n")
    scale = body.generic(
        [(spread, row, "f32")], (body.empty(row, "f32"), row, "f32"), ["d0", "d0"], "p",
        f"{count}    %e = arith.constant {EPSILON:.1e} : f32\n    %v = arith.divf %a, %n : f32\n"
        "    %w = arith.addf %v, %e : f32\n    %y = math.rsqrt %w : f32\n",
    )  # fmt: skip
    last = widened(type, "a", "d", "e") + (
        f"    %u = arith.subf {a}, %b : f32\n    %v = arith.mulf %u, %c : f32\n"
        f"    %w = arith.mulf %v, {wide(type, 'd')} : f32\n"
    )
    body.generic(
        [source, (mean, row, "f32"), (scale, row, "f32"), ("%1", (columns,), type),
         ("%2", (columns,), type)],
        (body.empty(shape, type), shape, type), ["d0, d1", "d0", "d0", "d1", "d1", "d0, d1"], "pp",
        last + ends(type, f"arith.addf %w, {wide(type, 'e')}"), "%r",
    )  # fmt: skip

    def expected(x: Array, weight: Array, bias: Array) -> Array:
        y = x.astype(np.float32)
        y = y - y.mean(-1, keepdims=True)
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + EPSILON)
        return y * weight.astype(np.float32) + bias.astype(np.float32)

    return Family(
        f"layer norm {sizes(shape)} {type}",
        ((shape, type), ((columns,), type), ((columns,), type)),
        (shape, type), body.text, expected,
        lambda x, w, b: torch.nn.functional.layer_norm(x, (columns,), w, b, EPSILON),
    )  # fmt: skip


def transposed(shape: Shape, type: str, order: Shape) -> Family:
    body = Body([])
    out = tuple(shape[i] for i in order)
    into = body.empty(out, type)
    source = ", ".join(f"d{order.index(i)}" for i in range(len(shape)))
    body.generic(
        [("%0", shape, type)], (into, out, type), [source, names_of(shape)], "p" * len(shape),
        "", "%r",
    )  # fmt: skip
    text = body.text.replace("linalg.yield %y", "linalg.yield %a")
    return Family(
        f"transpose {sizes(shape)} {type} to {''.join(map(str, order))}", ((shape, type),),
        (out, type), text, lambda x: x.transpose(order), lambda x: x.permute(order).contiguous(),
    )  # fmt: skip


def gathered(table: Shape, count: int, type: str) -> Family:
    body = Body([])
    out = (count, table[1])
    into = body.empty(out, type)
    lines = (
        "    %i = arith.index_cast %a : i32 to index\n    %j = linalg.index 1 : index\n"
        f"    %y = tensor.extract %0[%i, %j] : {tensor(table, type)}\n"
    )
    body.generic([("%1", (count,), "i32")], (into, out, type), ["d0", "d0, d1"], "pp", lines, "%r")
    return Family(
        f"gather {count} rows of {sizes(table)} {type}", ((table, type), ((count,), "i32")),
        (out, type), body.text, lambda x, i: x[i], lambda x, i: x.index_select(0, i), table[0],
    )  # fmt: skip


def pooled(shape: Shape, type: str, window: int, stride: int) -> Family:
    """Returns the kernel of a max pool on an image in channels-last layout."""
    body = Body([])
    n, h, w, c = shape
    out = n, (h - window) // stride + 1, (w - window) // stride + 1, c
    low = "-6.0e+4" if type == "f16" else "-3.0e+38"
    into = body.filled(out, type, low)
    shown = body.empty((window, window), type)
    maps = [f"d0, d1 * {stride} + d4, d2 * {stride} + d5, d3", "d4, d5", "d0, d1, d2, d3"]
    body.generic(
        [("%0", shape, type), (shown, (window, window), type)], (into, out, type), maps, "pppprr",
        f"    %y = arith.maximumf %o, %a : {type}\n", "%r",
    )  # fmt: skip

    def expected(x: Array) -> Array:
        views = np.lib.stride_tricks.sliding_window_view(x, (window, window), (1, 2))
        return views[:, ::stride, ::stride].max((-2, -1))

    def peer(x: Any) -> Any:
        last = x.permute(0, 3, 1, 2)
        return torch.nn.functional.max_pool2d(last, window, stride)

    return Family(
        f"max pool {window}x{window} by {stride} {sizes(shape)} {type}", ((shape, type),),
        (out, type), body.text, expected, peer,
    )  # fmt: skip


def sizes(shape: Shape) -> str:
    return "x".join(map(str, shape))


def cases() -> list[Family]:
    listed: list[Family] = []
    for type in ("f16", "f32"):
        listed += [added((8192, 4096), type), tanh((8192, 4096), type)]
        listed += [summed((8192, 4096), type, 1), summed((8192, 4096), type, 0)]
        listed += [softmax((32768, 1024), type), softmax((8192, 4096), type)]
        listed += [softmax((2048, 16384), type), softmax((32768, 1000), type)]
        listed += [layer_norm((32768, 1024), type), layer_norm((8192, 4096), type)]
        listed += [transposed((8192, 4096), type, (1, 0)), transposed((4095, 4097), type, (1, 0))]
        listed += [transposed((32, 256, 56, 56), type, (0, 2, 3, 1))]
        listed += [gathered((50000, 1024), 32768, type)]
        listed += [pooled((32, 113, 113, 64), type, 3, 2)]
    return listed


def small() -> list[Family]:
    listed: list[Family] = []
    for type in ("f16", "f32"):
        listed += [added((33, 64), type), tanh((33, 64), type)]
        listed += [summed((33, 65), type, 1), summed((33, 65), type, 0)]
        listed += [softmax((17, 65), type), layer_norm((17, 64), type)]
        listed += [transposed((33, 65), type, (1, 0)), transposed((2, 8, 5, 5), type, (0, 2, 3, 1))]
        listed += [gathered((50, 24), 31, type), pooled((2, 11, 11, 8), type, 3, 2)]
    return listed


def within(case: Family, result: Array, inputs: Sequence[Array]) -> bool:
    right = case.expected(*inputs)
    if result.shape != right.shape:
        return False
    allowed = ROUNDING[case.result[1]] * float(np.abs(right).max())
    return bool(np.all(np.abs(result.astype(np.float64) - right) <= allowed))


def torch_ms(case: Family, inputs: Sequence[Array]) -> float | None:
    if not CUDA:
        return None
    given = [torch.from_numpy(array).cuda() for array in inputs]
    case.peer(*given)
    return torch_median(torch, lambda: case.peer(*given))


def measure(device: Any, case: Family, target: str, inputs: Sequence[Array]) -> dict[str, Any]:
    record: dict[str, Any] = {"case": case.name}
    try:
        begin = time.perf_counter()
        program = compile_module(parse_text(case.module(), case.name), target)
        record["compile_s"] = round(time.perf_counter() - begin, 3)
        names = [buffer.name for buffer in program.manifest.inputs]
        named: Mapping[str, Array] = dict(zip(names, inputs, strict=True))
        (result,) = device.execute(program, named).values()
        record["ok"] = within(case, result, inputs)
        times = device.times(program, 15, WARM_UP)
        device.drop(program)
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"[:300]
        return record
    total = sum(timing.median for timing in times)
    record["dispatches"] = len(times)
    record["ms"] = round(total / 1e6, 5)
    record["gb_per_s"] = round(case.bytes / total, 1)
    return record


def main(arguments: list[str] | None = None) -> int:
    options = parser_of(__doc__).parse_args(arguments)
    chosen = [case for case in (small if options.small else cases)() if options.only in case.name]

    def measured(device: Any, case: Family, inputs: Sequence[Array]) -> dict[str, Any]:
        record = measure(device, case, options.target, inputs)
        peer = torch_ms(case, inputs)
        if peer is not None:
            record["torch_ms"] = round(peer, 5)
            record["torch_gb_per_s"] = round(case.bytes / peer / 1e6, 1)
        return record

    def jobs() -> Iterator[Job]:
        for case in chosen:
            inputs = case.inputs()
            yield Job(
                lambda device, _, case=case, inputs=inputs: measured(device, case, inputs),
                lambda: None,
                0,
                [None],
            )

    return run_jobs(options, jobs(), (__doc__ or "").strip().splitlines()[0], torch)


if __name__ == "__main__":
    sys.exit(main())
