"""
Runs compute shaders before and after seven sets of spirv-opt's passes on the interpreter.

    python scripts/spirv_opt.py --generated 600             # testing/structured_flow.py, seeds 0 on
    python scripts/spirv_opt.py SPIRV-Cross/shaders glslang/Test --every 3

The script searches folders of the user's checkouts for .comp files. Each optimized binary runs
directly, and after decoding and encoding. Memory must equal the original shader's memory; floats
may differ by 1e-4. A shader whose original does not run (no compute shader, images, its own fault)
is counted by reason. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from xdsl_spirv.interpreter import Options  # noqa: E402
from xdsl_spirv.interpreter.checks import Checks  # noqa: E402
from xdsl_spirv.testing.differential import optimized  # noqa: E402
from xdsl_spirv.testing.structured_flow import OPTIMIZATIONS, generate  # noqa: E402
from xdsl_spirv.tools.kernel_test.compilers import find_glslang  # noqa: E402


def cases(given: argparse.Namespace, skipped: Counter[str]) -> Iterator[tuple[str, optimized.Case]]:
    """Yields the shaders that compile, by name."""
    command = find_glslang()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.start, given.start + given.generated):
            path = Path(folder) / "shader.comp"
            path.write_text(generate(seed))
            yield f"seed {seed}", optimized.generated_case(optimized.compile_glsl(command, path))
    paths = [path for folder in given.folders for path in sorted(folder.rglob("*.comp"))]
    for path in paths[:: given.every]:
        try:
            binary = optimized.compile_glsl(command, path)
            yield str(path), optimized.made_up_case(binary)
        except Exception as error:
            skipped[reason(error)] += 1


def reason(error: Exception) -> str:
    """Returns a short text of an error, equal for similar errors."""
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text.partition(' (')[0][:60]}"


def is_defined(case: optimized.Case) -> bool:
    """True if a shader's result is independent of undefined values and of execution order."""
    checks = Checks.of("undefined,bounds,races,overlap")
    try:
        optimized.run(case, options=Options(checks=checks, max_steps=optimized.STEPS))
    except Exception:
        return False
    return not list(checks.report)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--generated", type=int, default=0, help="so many generated shaders")
    parser.add_argument("--start", type=int, default=0, help="their first seed")
    parser.add_argument("--every", type=int, default=1, help="each n-th file only")
    given = parser.parse_args()
    skipped, ended = Counter[str](), Counter[str]()
    start = time.monotonic()
    for name, case in cases(given, skipped):
        with np.errstate(all="ignore"):
            try:
                expected = optimized.run(case)
            except Exception as error:
                skipped[reason(error)] += 1
                continue
            for passes, options in OPTIMIZATIONS.items():
                try:
                    found = optimized.differences(
                        case, optimized.optimize(case.binary, options), expected
                    )
                except optimized.CompileError as error:
                    skipped[reason(error)] += 1
                    continue
                except Exception as error:
                    found = [f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"]
                kind = "equal" if not found else "differs" if is_defined(case) else "undefined"
                ended[kind] += 1
                if kind == "differs":
                    print(f"{name}, {passes}: {'; '.join(found)}", flush=True)
    print(f"{ended.total()} runs in {time.monotonic() - start:.0f} s: {dict(ended)}")
    for why, count in skipped.most_common():
        print(f"  {count} not run: {why}")
    return int(bool(ended["differs"]))


if __name__ == "__main__":
    sys.exit(main())
