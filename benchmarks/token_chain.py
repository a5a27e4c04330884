"""
Times the chain of kernels that decodes a token on a Vulkan device, by kind of kernel.

    python benchmarks/token_chain.py --shapes llama-3-8b -o chain.json
    .lavapipe/run python benchmarks/token_chain.py --target lavapipe --small

Two blocks of a llama are compiled. The launches of the second one are repeated for all further
blocks, with different weights. A chain is one submission between two timestamps in which each
launch waits for its predecessor. Chains run in turns:

- the default chain, and the default without the launches of one kind (with meaningless results);
- `apart`: compiled without `fold-readers`;
- chains that prefetch: during attention and merge, which leave memory idle, other workgroups read
  a part of the weights of later products. Only the next launch waits for them.
- with `--schedules FILE`, `{"NxK": ["#schedule.rows<...>", ...]}`: one chain for each schedule.

Results are not compared here: `language_model.py` and `few_rows.py` do so.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import parser_of
from language_model import FORMATS, write_model
from llama_peer import SHAPES, Shapes
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from xdsl_spirv import kernels as k
from xdsl_spirv.compiler.model import compile_model, load_gguf
from xdsl_spirv.dialects.schedule import RowsAttr
from xdsl_spirv.frontends.gguf.importer import DECODE
from xdsl_spirv.passes.schedule import rows_candidates
from xdsl_spirv.passes.schedule.fold_rows import FoldReadersPass
from xdsl_spirv.passes.schedule.rows import RowsPlan
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.runtime.vulkan.device import open_device
from xdsl_spirv.runtime.vulkan.programs import work_of
from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer

COUNT, TURNS, WARM_UP = 8, 3, 0.15
READERS = 256
"""Number of prefetching workgroups, and of invocations in each. A load reads 16 bytes."""

Chain = list[tuple[str, int, bool]]
"""Launches: kind, index of the step, and True if the launch waits for earlier ones."""


@k.kernel(workgroup=256)
def read_ahead(
    weights: Any = k.buffer(k.vector(k.u32, 4), read_only=True),
    sink: Any = k.buffer(k.u32),
    pitch: Any = k.push(k.u32),
    trips: Any = k.push(k.u32),
) -> None:
    """Reads `trips` times 4 kB of weights, from vector number `pitch` * (workgroup index) on."""
    total = k.variable(0, k.u32)
    start = k.workgroup_id() * pitch + k.local_id()
    for trip in k.range(0, trips, 1):
        value = weights[start + trip * 256]
        total.value |= value[0] ^ value[1] ^ value[2] ^ value[3]
    with k.when(total.value == 0x9E3779B9):
        sink[0] = total.value


@contextmanager
def chosen(product: str, schedule: RowsAttr) -> Generator[None]:
    """Context in which products of one row with sizes NxK have the given schedule."""
    candidates = rows_candidates.candidates

    def first(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
        if few == 1 and product == f"{plan.columns}x{plan.contraction.k}":
            yield schedule
        yield from candidates(plan, few)

    rows_candidates.candidates = first
    try:
        yield
    finally:
        rows_candidates.candidates = candidates


@contextmanager
def apart() -> Generator[None]:
    """Context in which the pass `fold-readers` is disabled."""
    apply = FoldReadersPass.apply
    FoldReadersPass.apply = lambda *_: None  # pyright: ignore
    try:
        yield
    finally:
        FoldReadersPass.apply = apply


def kind(entry_point: str) -> str:
    """Returns a launch's kind: NxK for products of one row, otherwise the kernel's function."""
    for name in ("attention", "elementwise", "reduction"):
        if entry_point.startswith(name):
            return name
    return entry_point.removeprefix("matmul_1x")


@dataclass
class Model:
    """The launches of all blocks, over buffers by name."""

    chain: list[tuple[str, Step]]
    buffers: dict[str, WorkBuffer]
    kernels: dict[str, bytes]

    @staticmethod
    def of(name: str, two: Work, blocks: int) -> Model:
        """Extends the work of two blocks to `blocks` blocks by repeating the second one."""
        digests = {n: hashlib.sha1(code).hexdigest()[:16] for n, code in two.kernels.items()}
        sizes = {buffer.name: buffer for buffer in two.buffers}
        each = (len(two.steps) - 2) // 2
        head, first, second, last = (
            two.steps[:1],
            two.steps[1 : 1 + each],
            two.steps[1 + each : -1],
            two.steps[-1:],
        )
        shared = {bound for step in head for _, _, bound in step.bindings}
        given, made = first[-1].bindings[-1][2], second[-1].bindings[-1][2]
        model = Model([], {}, {digests[n]: code for n, code in two.kernels.items()})

        def add(steps: Sequence[Step], block: int) -> None:
            for step in steps:
                bindings = tuple((s, b, renamed(n, block)) for s, b, n in step.bindings)
                for (_, _, old), (_, _, new) in zip(step.bindings, bindings, strict=True):
                    model.buffers[new] = replace(sizes[old], name=new)
                copy = replace(step, kernel=digests[step.kernel], bindings=bindings)
                model.chain.append((kind(step.entry_point), copy))

        def renamed(buffer: str, block: int) -> str:
            if buffer in (given, made):
                return f"{name}: {block + 1 if buffer == made else max(block, 1)}"
            if sizes[buffer].kind == "temporary":
                return f"{name}: {buffer}" if buffer in shared else f"{name}: {block} {buffer}"
            for old, new in (("blk.1.", f"blk.{block}."), ("k.1", f"k.{block}")):
                if buffer.startswith(old):
                    return buffer.replace(old, new)
            return f"v.{block}" if buffer == "v.1" else buffer

        add(head, 0)
        add(first, 0)
        for block in range(1, blocks):
            add(second, block)
        add(last, blocks - 1)
        return model


def compiled(path: Path, options: Any, past: int) -> Work:
    model = load_gguf(path, options.target, past + 1)
    for function in list(model.module.body.block.ops):
        if isinstance(function, FuncOp) and function.sym_name.data != DECODE:
            function.detach()
    decode = replace(model, function=DECODE, functions=(DECODE,))
    program = compile_model(decode, options.target, jobs=options.jobs)
    inputs = {"token": np.zeros(1, np.int32), "past": np.array(past)}
    work = work_of(program.function(DECODE).at(inputs))
    used = {step.kernel for step in work.steps}
    return replace(work, weights={}, kernels={n: c for n, c in work.kernels.items() if n in used})


class Chains:
    """Chains of steps of several models that share one set of weights."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.buffers: dict[str, WorkBuffer] = {"sink": WorkBuffer("sink", 256, "weight")}
        self.kernels: dict[str, bytes] = {"read_ahead": read_ahead.binary}
        self.chains: dict[str, Chain] = {}
        self._known: dict[Step, int] = {}

    def number(self, step: Step) -> int:
        if step not in self._known:
            self._known[step] = len(self.steps)
            self.steps.append(step)
        return self._known[step]

    def add(self, name: str, model: Model) -> None:
        self.buffers |= model.buffers
        self.kernels |= model.kernels
        self.chains[name] = [(kind, self.number(step), True) for kind, step in model.chain]

    def add_without(self, name: str) -> None:
        """Adds, for each kind of launch, a chain that leaves these launches out."""
        chain = self.chains[name]
        kinds = dict.fromkeys(kind for kind, _, _ in chain)
        for left_out in list(kinds)[1:-1]:
            kept = [launch for launch in chain if launch[0] != left_out]
            self.chains[f"{name}: no {left_out}"] = kept

    def add_reading(self, name: str, plan: Mapping[str, tuple[str, float]]) -> None:
        """
        Adds a chain that prefetches parts of a block's weights during some launches.

        `plan` maps the kind of launch to the name of the weights and the share that is read.
        """
        chain: Chain = []
        for launch in self.chains[name]:
            chain.append(launch)
            weights, part = plan.get(launch[0], ("", 0.0))
            step = self.steps[launch[1]]
            block = next((n.split(" ")[1] for _, _, n in step.bindings if n.count(" ") == 2), "0")
            buffer = f"blk.{block}.{weights}.weight.q"
            words = self.buffers[buffer].size // 16 // READERS if part else 0
            if not (trips := int(words * part) // 256):
                continue
            push = np.array([words, trips], np.uint32).tobytes()
            bindings = ((0, 0, buffer), (0, 1, "sink"))
            reading = Step("read_ahead", "read_ahead", (READERS, 1, 1), bindings, (), push)
            chain.append(("read ahead", self.number(reading), False))
        beside = ", ".join(
            f"{part:g} of {weights} by {kind}" for kind, (weights, part) in plan.items()
        )
        self.chains[f"{name}: read ahead {beside}"] = chain

    def work(self, subgroup_size: int | None, target: str) -> Work:
        used = {name for step in self.steps for _, _, name in step.bindings}
        buffers = tuple(b for name, b in self.buffers.items() if name in used)
        weights = Random({buffer.name: buffer.size for buffer in buffers})
        return Work(
            buffers, self.kernels, tuple(self.steps), subgroup_size, target, weights=weights
        )


class Random(dict[str, Any]):
    """Random bytes of weights by name, made on access to save memory."""

    def __init__(self, sizes: Mapping[str, int]):
        super().__init__()
        self.sizes = sizes
        self.drawn = np.random.default_rng(1).integers(0, 256, 1 << 22, np.uint8).tobytes()

    def __missing__(self, name: str) -> bytes:
        size = self.sizes[name]
        if name.endswith((".d", ".m")):
            return np.full(size // 2, 0.002 if name.endswith(".d") else -0.015, "<f2").tobytes()
        if name.endswith(".q"):
            return (self.drawn * (size // len(self.drawn) + 1))[:size]
        return np.ones(size // 4, np.float32).tobytes()


READ_AHEAD: tuple[dict[str, tuple[str, float]], ...] = (
    {"attention": ("attn_output", 1.0)},
    {"attention": ("ffn_gate_up", 0.2)},
    {"attention": ("attn_output", 1.0), "reduction": ("ffn_gate_up", 0.1)},
    {"attention": ("ffn_gate_up", 0.3), "reduction": ("attn_output", 1.0)},
)
"""Prefetch plans: kind of launch -> (weights to read, share of these weights)."""


def chains_of(options: Any, shapes: Shapes, past: int) -> tuple[Chains, Work]:
    chains = Chains()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        path = Path(folder, "model.gguf")
        write_model(path, replace(shapes, blocks=2), FORMATS[options.format], past + 1)

        def add(name: str) -> Work:
            work = compiled(path, options, past)
            chains.add(name, Model.of(name, work, shapes.blocks))
            return work

        default = add("default")
        with apart():
            add("apart")
        listed: dict[str, list[str]] = (
            json.loads(options.schedules.read_text()) if options.schedules else {}
        )
        for product, schedules in listed.items():
            for text in schedules:
                schedule = Parser(context(), text).parse_attribute()
                assert isinstance(schedule, RowsAttr)
                with chosen(product, schedule):
                    add(f"{product} {text}")
    chains.add_without("default")
    kinds = {kind for kind, _, _ in chains.chains["default"]}
    for plan in READ_AHEAD:
        if kinds.issuperset(plan):
            chains.add_reading("default", plan)
    return chains, default


def measured(time_chain: Callable[[str], list[float]], names: Sequence[str]) -> dict[str, Any]:
    """Returns the median microseconds of the chains `names`, which run in turns."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(TURNS):
        for name in names:
            times[name] += time_chain(name)
    return {
        name: {
            "us": round(statistics.median(of_chain) / 1e3, 2),
            "least": round(min(of_chain) / 1e3, 2),
        }
        for name, of_chain in times.items()
    }


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--shapes", choices=SHAPES, default="llama-3-8b")
    parser.add_argument("--format", choices=FORMATS, default="Q4_1")
    parser.add_argument("--past", type=int, default=1024)
    parser.add_argument("--schedules", type=Path, help='JSON: {"NxK": ["#schedule.rows<...>"]}')
    parser.add_argument("--jobs", type=int, default=1, help="processes that lower kernels")
    parser.add_argument("--scratch", help="where two blocks are written")
    options = parser.parse_args(arguments)
    shapes = SHAPES["tiny" if options.small else options.shapes]
    past = 100 if options.small else options.past
    chains, default = chains_of(options, shapes, past)
    begin = time.perf_counter()
    with open_device(options.device) as device:
        loaded = device.load(chains.work(default.subgroup_size, default.target))
        record: dict[str, Any] = {
            "what": "a token's chain of kernels",
            "shapes": "tiny" if options.small else options.shapes,
            "device": device.info.name,
            "load_s": round(time.perf_counter() - begin, 1),
            "launches": {name: len(chain) for name, chain in chains.chains.items()},
        }

        def time_chain(name: str) -> list[float]:
            chain = [(number, waits) for _, number, waits in chains.chains[name]]
            return loaded.time_chain(name, chain, COUNT, device.timeout)

        end = time.monotonic() + WARM_UP
        while time.monotonic() < end:
            time_chain("default")
        record["chains"] = measured(time_chain, list(chains.chains))
    print(json.dumps(record, indent=1))
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
