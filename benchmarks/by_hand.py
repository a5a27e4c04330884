"""
Times GLSL kernels written by hand, and the compiler's kernels with the same schedule.

    python benchmarks/by_hand.py KERNELS --compile .glslang/bin/glslang -o SPV   # GLSL to SPIR-V
    python benchmarks/by_hand.py SPV -o by-hand.json                             # run on the GPU
    python benchmarks/by_hand.py SPV --check                                     # any missing?

KERNELS is a folder of .comp files with the names that `hands` lists. They read the operands as the
compiler packs them: A at binding 0 or through an address in the push constants, B through an
address. They write binding 2. `--compile` also makes variants of some kernels: loops that the
driver may unroll, or B at a descriptor instead of an address. For each kernel the script also
times the default schedule and the compiler's kernel with the schedule of the handwritten one. The
record contains the times of ceiling.py and the driver's statistics (registers, bytes of code). To
read the machine code, set XDSL_SPIRV_CACHE=FOLDER, decompress the zstd frames of the pipeline
cache and use `nvdisasm -b SM90`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ceiling import F16, Data, Product, compiled, matmul, measure
from device_runs import torch

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import open_isolated, programs
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.runtime.vulkan.work import Work

PUSH_BYTES = 64
"""Size of the push constants: six addresses (only A's and B's are read) and four integers."""

BEYOND = 16 << 20
"""Bytes of padding after packed operands: the kernels prefetch beyond the last K step."""

ADDRESSES = ((0, 0), (8, 1))
"""(offset of an address in the push constants, index of the addressed operand) for each address."""


@dataclass(frozen=True)
class Hand:
    """A kernel written by hand: its file, its computation and the schedule that describes it."""

    file: str
    product: Product
    tile: str
    grid: int
    """Number of workgroups along x. The grid is 1 along y and z."""
    bound: tuple[int, ...] = (0, 2)
    """Bindings that the kernel declares: 0 is A, 1 is B, 2 is the result."""

    @property
    def schedule(self) -> str:
        return f"#schedule.contraction<{self.tile}, instruction = coopmat 16x16x16>"


def _tile(tile: str, subgroups: str, paths: str) -> str:
    return f"workgroup_tile = [{tile}], subgroups = [{subgroups}], {paths}, raster = rows<8>"


def hands() -> list[Hand]:
    wide, narrow = matmul(4096, 4096, 4096), matmul(4096, 4096, 4096, F16)
    fragments = "staged<padding = 0, vector = 8, layout = fragments>"
    twice = "staged<padding = 0, vector = 8, buffers = 2, layout = fragments>"
    rows = "staged<padding = 8, vector = 8>"
    b = "b = direct<ahead = 1>, stages = 2"
    two = _tile("64, 256, 64", "1, 4", f"a = {twice}, {b}")
    one = _tile("64, 256, 64", "1, 4", f"a = {rows}, {b}, first = store")
    eight = _tile("128, 256, 64", "1, 4", f"a = {fragments}, {b}, first = store")
    both = "a = direct<ahead = 3>, b = direct<ahead = 3>"
    name = "f16_f32_a-packed-2-buffers_b-direct_64x256x64"
    other = "f16_f16_a-packed-staged_b-direct_128x256x64_8x4-fragments"
    large = [
        Hand(name, wide, two, 1024),
        Hand(f"{name}-unrolled", wide, two, 1024),
        Hand(f"{name}-descriptors", wide, two, 1024, (0, 1, 2)),
        Hand("f16_f32_a-rows-staged_b-direct_64x256x64", wide, one, 1024),
        Hand(other, narrow, eight, 512),
        Hand(f"{other}-unrolled", narrow, eight, 512),
    ]
    small = [
        ((16, 4096), "16, 16, 512", "1, 1, 8", 256),
        ((32, 4096), "32, 16, 512", "1, 1, 8", 256),
        ((128, 4096), "128, 32, 256", "2, 1, 4", 128),
        ((16, 14336), "16, 64, 256", "1, 1, 4", 224),
    ]
    for (m, n), tile, grid, workgroups in small:
        product = replace(matmul(m, n, 4096), apart=", cached weights" if n == 4096 else "")
        structure = _tile(tile, grid, both)
        large.append(Hand(f"skinny_{m}x{n}x4096", product, structure, workgroups, (2,)))
    return large


def versions(text: str) -> Mapping[str, str]:
    """Returns the variants of a kernel's source by the suffix of their file name."""
    variants = {"": text, "-unrolled": text.replace("[[dont_unroll]]", "")}
    indexed = re.sub(r"BV\(pB\)\.v\[(\d+)\]", r"Bd[iB+\1u]", text)
    indexed = re.sub(r"uint64_t pB=qb\+16ul\*uint64_t\((.*?)\);", r"uint iB=\1;", indexed)
    indexed = re.sub(r"pB\+=(\d+)ul;", lambda step: f"iB+={int(step[1]) // 16}u;", indexed)
    place = "layout(set=0,binding=0) readonly"
    declared = "layout(set=0,binding=1) readonly restrict buffer BB{uvec4 Bd[];};"
    if indexed != text and place in indexed and "pB" not in indexed:
        variants["-descriptors"] = indexed.replace(place, declared + place)
    return variants


def compile_all(folder: Path, glslang: str, out: Path) -> None:
    """Compiles all kernels and variants that `hands` lists to SPIR-V."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = {hand.file for hand in hands()}
    for source in sorted(folder.glob("*.comp")):
        for suffix, text in versions(source.read_text()).items():
            name = source.stem + suffix
            if name not in wanted:
                continue
            file = out / f"{name}.comp"
            file.write_text(text)
            command = [*glslang.split(), "--target-env", "vulkan1.3", "-V", str(file)]
            subprocess.run([*command, "-o", str(out / f"{name}.spv")], check=True)


def work_by_hand(work: Work, hand: Hand, code: bytes) -> Work:
    """Replaces the product's launch by a handwritten kernel with the binary `code`."""
    steps, kernels = list(work.steps), dict(work.kernels)
    for number, step in enumerate(steps):
        if step.entry_point.startswith("pack_"):
            continue
        names = [name for _, _, name in step.bindings]
        kernels[step.kernel] = code
        steps[number] = replace(
            step,
            entry_point="main",
            grid=(hand.grid, 1, 1),
            bindings=tuple((0, place, names[place]) for place in hand.bound),
            addresses=tuple((offset, names[operand]) for offset, operand in ADDRESSES),
            push=bytes(PUSH_BYTES),
        )
    buffers = tuple(
        replace(buffer, size=buffer.size + BEYOND) if buffer.kind == "temporary" else buffer
        for buffer in work.buffers
    )
    changed = {"buffers": buffers, "kernels": kernels, "steps": tuple(steps)}
    return replace(work, **changed, component_map=None)


def said_of(device: Any, program: Program) -> str:
    """Returns the driver's statistics: the largest value of each over a program's kernels."""
    zeros = {b.name: bytes(b.bytes) for b in program.manifest.buffers if b.kind == "weight"}
    loaded = device.load(replace(programs.work_of(program), weights=zeros), True)
    try:
        return str(heaviest(table for step in loaded.executables() for table in step))
    finally:
        device.unload(loaded)


def run(folder: Path, seconds: float) -> list[dict[str, Any]]:
    begin, plain = time.monotonic(), programs.work_of
    records: list[dict[str, Any]] = []
    device: Any = open_isolated("vulkan")
    data: Data | None = None
    last: tuple[str, int] | None = None
    for hand in hands():
        code = (folder / f"{hand.file}.spv").read_bytes()
        if last != (key := (str(hand.product), hand.product.count)):
            data, last = Data(hand.product), key
        assert data is not None
        for name, schedule in (("default", None), ("ours", hand.schedule), (hand.file, None)):
            if time.monotonic() - begin > seconds:
                return records
            by_hand = name == hand.file
            program = compiled(hand.product, "nvidia-h200", hand.schedule if by_hand else schedule)
            if isinstance(program, str):
                records.append({"case": str(hand.product), "schedule": name, "error": program})
                continue
            if by_hand:
                programs.work_of = lambda p, h=hand, c=code: work_by_hand(plain(p), h, c)
            try:
                record = measure(device, hand.product, data, program, name)
                if "error" not in record:
                    record["code"] = said_of(device, program)
            finally:
                programs.work_of = plain
            record["of"] = hand.file
            records.append(record)
            print(json.dumps(record), flush=True)
            if "error" in record:
                device.close()
                device = open_isolated("vulkan")
    device.close()
    return records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compile", default="", help="a command that is glslang")
    parser.add_argument("--check", action="store_true", help="say which kernels are not there")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.compile:
        compile_all(options.folder, options.compile, options.output or Path("by-hand"))
        return 0
    missing = [h.file for h in hands() if not (options.folder / f"{h.file}.spv").is_file()]
    if missing:
        print(f"missing kernels: {', '.join(missing)}: --compile makes them", file=sys.stderr)
        return 1
    if options.check:
        return 0
    records = run(options.folder, options.seconds)
    if options.output is not None:
        document = {"what": (__doc__ or "").strip().splitlines()[0], "date": time.strftime("%F")}
        document |= {"torch": getattr(torch, "__version__", None), "records": records}
        options.output.write_text(json.dumps(document, indent=1))
    return 0 if all(record.get("ok") for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
