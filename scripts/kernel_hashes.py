"""
Hashes the SPIR-V of many kernels, to detect changes in the compiler's output.

`kernel_hashes.py OUT.json` compiles matrix multiplications and the `linalg` inputs of the
FileCheck tests for several targets, and runs the passes of every `RUN:` line that makes kernels.
`--models` also compiles the models of installed packages (see benchmarks/model_zoo.py). The files
of two revisions are equal if all kernels are equal byte for byte. Refusals are compared by
message. `--against REFERENCE.json` compares with an earlier file and fails if a kernel differs.

The tests compile further kernels. `FOLDER --record tests/passes` runs each test until its first
kernel would run, and stores every module that reaches `assign-schedule`. `--corpus FOLDER` then
also hashes the kernels of these modules.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import xdsl_spirv
from xdsl_spirv import targets

ROOT = Path(__file__).resolve().parents[1]
SHAPES = ((64, 64, 64), (1000, 77, 300), (3, 5, 7))
TYPES = (
    ("f16", "f32", "0.0"),
    ("f16", "f16", "0.0"),
    ("f32", "f32", "0.0"),
    ("i8", "i32", "0"),
    ("bf16", "f32", "0.0"),
)
MATMUL = """
func.func @main(%A: tensor<{m}x{k}x{a}>, %B: tensor<{k}x{n}x{a}>) -> tensor<{m}x{n}x{c}> {{
  %zero = arith.constant {zero} : {c}
  %e = tensor.empty() : tensor<{m}x{n}x{c}>
  %i = linalg.fill ins(%zero : {c}) outs(%e : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}x{a}>, tensor<{k}x{n}x{a}>)
                     outs(%i : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  return %r : tensor<{m}x{n}x{c}>
}}"""
MAKES_KERNELS = ("assign-schedule", "contraction-to-", "attention-to-", "loops-to-invocations")
LARGEST = 1 << 20
"""Maximum bytes of a module that `--record` stores. Larger modules differ only in weights."""

Case = tuple[str, Callable[[], Any]]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def kernels(program: xdsl_spirv.Program) -> dict[str, str]:
    return {name: digest(code.binary) for name, code in sorted(program.code.items())}


def hash_program(source: Any, target: str, **options: Any) -> Callable[[], Any]:
    return lambda: kernels(
        xdsl_spirv.compile(source() if callable(source) else source, target, **options)
    )


def parse(source: str) -> Any:
    from xdsl.parser import Parser

    return Parser(context(), source).parse_module()


def text(source: str) -> Callable[[], Any]:
    return functools.partial(parse, source)


@functools.cache
def universe() -> Any:
    from xdsl.universe import Universe

    return Universe.get_multiverse()


def context() -> Any:
    from xdsl.context import Context

    dialects = Context()
    for name, factory in universe().all_dialects.items():
        dialects.register_dialect(name, factory)
    return dialects


def run_passes(source: str, passes: str) -> Any:
    """Returns the module after a pipeline of passes."""
    from xdsl.passes import PassPipeline

    module = parse(source)
    PassPipeline.parse_spec(universe().all_passes, passes).apply(context(), module)
    return module


def hash_module(module: Any) -> dict[str, str]:
    """Returns the digest of a module, independent of names of values."""
    for op in module.walk():
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            value.name_hint = None
    return {"module": digest(str(module).encode())}


def hash_recorded(path: Path) -> dict[str, str]:
    """Returns the digest of a recorded module after all passes."""
    from xdsl_spirv.compiler.pipeline import lowering, split_after
    from xdsl_spirv.passes.analysis.target import TARGET
    from xdsl_spirv.upstream.passes_on_demand import run

    source = path.read_text()
    module = run_passes(source, source.splitlines()[0].removeprefix("// "))
    _, behind = split_after(lowering(module.attributes[TARGET].data), "assign-schedule")
    run(behind, context(), module)
    return hash_module(module)


def matmuls() -> Iterator[Case]:
    for target, (m, n, k), (a, c, zero) in itertools.product(targets.names(), SHAPES, TYPES):
        source = text(MATMUL.format(m=m, n=n, k=k, a=a, c=c, zero=zero))
        yield f"mm {m}x{n}x{k} {a} {c} {target}", hash_program(source, target)


def parts() -> Iterator[tuple[str, str, int, str]]:
    """Yields the chunks of FileCheck files: file name, whole text, index of the chunk, chunk."""
    for path in sorted((ROOT / "tests/filecheck/passes").rglob("*.mlir")):
        whole = path.read_text()
        for number, part in enumerate(whole.split("// -----")):
            yield path.stem, whole, number, part


def filechecks() -> Iterator[Case]:
    for name, _, number, part in parts():
        if "linalg" in part and "@main" in part and "tensor<" in part:
            for target in ("lavapipe", "nvidia-h200"):
                yield f"filecheck {name} {number} {target}", hash_program(text(part), target)


def run_lines() -> Iterator[Case]:
    for name, whole, number, part in parts():
        for line, passes in enumerate(re.findall(r"RUN: xdsl-opt %s.* -p '?([^'|]*[^'| ])", whole)):
            if any(each in passes for each in MAKES_KERNELS):
                run = functools.partial(run_passes, part, passes)
                yield f"run {name} {number} {line}", lambda run=run: hash_module(run())


def recorded_modules(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.mlir")):
        yield f"recorded {path.stem}", functools.partial(hash_recorded, path)


def onnx_models() -> Iterator[Case]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from model_variants import missing, variant_of  # pyright: ignore
    from model_zoo import MODELS  # pyright: ignore

    for model, target in itertools.product(MODELS, ("lavapipe", "nvidia-h200")):
        for variant in model.variants:
            if model.missing() is None and missing(variant) is None:
                source = functools.partial(variant_of, model, variant)
                yield f"model {model.name} {variant} {target}", hash_program(source, target)


def record(folder: Path, tests: list[str]) -> None:
    """Runs tests up to their first kernel, and stores the modules that reach `assign-schedule`."""
    import pytest

    from xdsl_spirv.compare import translation
    from xdsl_spirv.compiler.pipeline import expand_pipelines
    from xdsl_spirv.interpreter.turns import Turns
    from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass
    from xdsl_spirv.runtime.modules import text_of

    folder.mkdir(parents=True, exist_ok=True)
    apply = AssignSchedulePass.apply

    def keep(self: AssignSchedulePass, ctx: Any, op: Any) -> None:
        source = f"// {self.pipeline_pass_spec()}\n{text_of(op)}\n"
        if len(source) <= LARGEST:
            (folder / f"{digest(source.encode())}.mlir").write_text(source)
        apply(self, ctx, op)

    def only_pass(module: Any, passes: Any, ctx: Any, **_: Any) -> None:
        for each in expand_pipelines(passes):
            each.apply(ctx, module)
        pytest.skip("stopped before its passes are checked")

    AssignSchedulePass.apply = keep
    translation.check_passes = only_pass  # pyright: ignore
    Turns.run = lambda *_: pytest.skip("stopped before its kernel runs")  # pyright: ignore
    pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *tests])


def result_of(run: Callable[[], Any]) -> Any:
    from xdsl.utils.exceptions import ParseError

    try:
        return run()
    except (Exception, ParseError) as error:  # Refusals are compared, too.
        return f"refused: {error}"[:200]


def compare(results: dict[str, Any], reference: Path) -> int:
    """Prints each case that differs from the reference, and returns their number."""
    known = json.loads(reference.read_text())
    common = sorted(results.keys() & known)
    differing = [name for name in common if results[name] != known[name]]
    for name in differing:
        print(f"differs: {name}: {known[name]} -> {results[name]}"[:300])
    print(f"{len(common)} compared, {len(differing)} differ")
    return len(differing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", default="", help="an expression that the cases' names begin with")
    parser.add_argument("--models", action="store_true", help="models of installed packages, too")
    parser.add_argument("--corpus", type=Path, help="modules that --record kept, too")
    parser.add_argument("--against", type=Path, help="fails where a case of this file differs")
    parser.add_argument("--record", nargs="+", help="keeps the modules of these tests in OUTPUT")
    options = parser.parse_args()
    if options.record:
        record(options.output, options.record)
        return
    cases = itertools.chain(
        matmuls(),
        run_lines(),
        filechecks(),
        recorded_modules(options.corpus) if options.corpus else (),
        onnx_models() if options.models else (),
    )
    start, seconds, results = time.process_time(), Counter[str](), dict[str, Any]()
    for name, run in cases:
        if re.match(options.only, name):
            results[name] = result_of(run)
            now = time.process_time()
            seconds[name.split()[0]] += now - start  # pyright: ignore[reportArgumentType]
            start = now
    options.output.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    count = sum(isinstance(result, dict) for result in results.values())
    times = ", ".join(f"{group} {spent:.0f} s" for group, spent in seconds.items())
    print(f"{len(results)} cases, {count} compiled; processor time: {times}")
    if options.against and compare(results, options.against):
        sys.exit(1)


if __name__ == "__main__":
    main()
