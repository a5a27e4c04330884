#!/usr/bin/env python3
"""
Runs `xdsl-spirv prove` on ggml's Vulkan shaders and counts the verdicts.

    python benchmarks/ggml_proofs.py CHECKOUT [--scratch FOLDER] [--only REGEX] [--part I/N]

CHECKOUT is the same as for ggml_shaders.py. For each shader with a launch, the first module is
proved, with the specialization constants of its first launch. Two proofs are made: one of races in
Workgroup memory and barriers only, and one of all questions. The contract is the launch: grid,
push constants, buffer lengths. The script prints the part of the contract that each proof needs.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from ggml.interface import specialization_ids
from ggml.launch import Address, Array, Case, Modules
from ggml.modules import Checkout
from ggml_shaders import chosen

from xdsl_spirv.prove.together import Question
from xdsl_spirv.tools.kernel_proving import limit_work, prove_kernel, spell_numbers
from xdsl_spirv.tools.kernel_test.description import Contents, KernelTest

NEVER = "never reached under the premises"


def describe_case(case: Case, binary: bytes, path: Path) -> KernelTest:
    """Returns a module and its launch as a kernel test."""
    known = specialization_ids(binary)
    constants = {str(number): v for number, v in case.constants.items() if number in known}
    push = {name: v for name, v in case.push.items() if not isinstance(v, Address)}
    buffers = {f"0.{number}": _describe(array) for number, array in case.buffers.items()}
    test = KernelTest(path, path, "main", case.grid, (case.subgroup,), buffers=buffers)
    return replace(test, specialization=constants, push_constants=push)


def _describe(array: Array) -> Contents:
    kind = f"{array.dtype.kind}{8 * array.dtype.itemsize}"
    if array.dtype.kind not in "iuf":
        return Contents("u8", (array.nbytes,), "zeros")
    content = array.reshape(-1).tolist() if array.dtype.kind != "f" else "zeros"
    return Contents(kind, (array.size,), content)


def is_near(question: Question) -> bool:
    """True if a question is about barriers or races in Workgroup memory."""
    return question.name == "barriers" or question.storage == "Workgroup"


def main() -> None:
    """Prints a line for each shader, then the number of shaders by verdict and by cause."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/ggml-shaders"))
    parser.add_argument("--only", default="", help="a regular expression of shaders' names")
    parser.add_argument("--ask", choices=("near", "all"), help="one of the two ways")
    parser.add_argument("--part", default="0/1", help="I/N: every Nth shader, from number I")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one question")
    parser.add_argument("--most", type=float, default=60.0, help="processor seconds of one shader")
    given = parser.parse_args()
    modules = Modules(Checkout(given.checkout.resolve(), given.scratch))
    shaders: dict[str, Case] = {}
    for name, cases in chosen(modules, "", every=False).items():
        shaders.setdefault(modules[name].source, cases[0])
    first, step = map(int, given.part.split("/"))
    counts = Counter[str]()
    for source, case in sorted(shaders.items())[first::step]:
        if not re.search(given.only, source):
            continue
        binary = modules.checkout.compile(modules[case.module], ["-g"])
        path = given.scratch / f"{case.module}.spv"
        path.write_bytes(binary)
        test = describe_case(case, binary, path)
        numbers = dict(spell_numbers("", test.push_constants))
        numbers |= {f"grid.{axis}": n for axis, n in zip("xyz", case.grid, strict=True)}
        contract = tuple(f"{name} == {number}" for name, number in numbers.items() if number >= 0)
        for way, asked in (("near", is_near), ("all", lambda _: True)):
            if given.ask not in (None, way):
                continue
            start = time.process_time()
            limits = limit_work(given.seconds, given.most)
            result = prove_kernel(test, contract if way == "all" else (), limits, asked)
            verdict = result.verdict if result.asked or result.verdict != "proved" else "none asked"
            if verdict == "unknown" and all(NEVER in line for line in result.lines):
                verdict = "proved but for accesses that the launch never makes"
            counts[f"{way}: {verdict}"] += 1
            shown = "; ".join(result.lines[:2] or result.offered)
            seconds = time.process_time() - start
            print(f"{seconds:6.1f} {source} {way}: {verdict}: {shown}"[:400], flush=True)
    for name, number in sorted(counts.items()):
        print(f"{name}: {number}")


if __name__ == "__main__":
    main()
