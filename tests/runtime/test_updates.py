"""Programs with random updates of states leave the same memory as tensor semantics."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter import reference
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.modules import parse_text

ROWS, COLUMNS = 6, 4
WHOLE = f"tensor<{ROWS}x{COLUMNS}xf32>"
ID = "affine_map<(i, j) -> (i, j)>"


def program(seed: int) -> str:
    """Returns a random function that reads and stores slices of states."""
    random = np.random.default_rng(seed)
    versions = {state: [f"%s{state}"] for state in range(2)}
    rows = {"%x": 2}
    lines: list[str] = []

    def part(n: int) -> str:
        return f"tensor<{n}x{COLUMNS}xf32>"

    for step in range(int(random.integers(3, 8))):
        state = int(random.integers(2))
        n = int(random.integers(1, 4))
        # Offsets are 0, `past` (at most 2), or constants.
        offset = "%past" if random.random() < 0.4 else str(random.integers(0, ROWS - n + 1))
        if random.random() < 0.55:
            of_these = [name for name, count in rows.items() if count == n]
            if not of_these:
                continue
            source = random.choice(of_these)
            old = versions[state][-1] if random.random() < 0.8 else random.choice(versions[state])
            lines.append(
                f"%v{step} = tensor.insert_slice {source} into {old}[{offset}, 0] "
                f"[{n}, {COLUMNS}] [1, 1] : {part(n)} into {WHOLE}"
            )
            versions[state].append(f"%v{step}")
            continue
        source = random.choice(versions[state])
        lines.append(
            f"%p{step} = tensor.extract_slice {source}[{offset}, 0] [{n}, {COLUMNS}] [1, 1] "
            f": {WHOLE} to {part(n)}\n"
            f"%e{step} = tensor.empty() : {part(n)}\n"
            f"%r{step} = linalg.generic {{indexing_maps = [{ID}, {ID}], "
            f'iterator_types = ["parallel", "parallel"]}} ins(%p{step} : {part(n)}) '
            f"outs(%e{step} : {part(n)}) {{\n^bb0(%a: f32, %o: f32):\n"
            f"%y = arith.addf %a, %one : f32\nlinalg.yield %y : f32\n}} -> {part(n)}"
        )
        rows[f"%r{step}"] = n
    every = [version for names in versions.values() for version in names]
    output = random.choice([name for name in rows if name != "%x"] or ["%x"])
    results = [
        output,
        *(versions[s][-1] if random.random() < 0.8 else random.choice(every) for s in range(2)),
    ]
    types = ", ".join((part(rows[output]), WHOLE, WHOLE))
    states = ", ".join(
        f'%s{n}: {WHOLE} {{program.name = "s{n}", program.state = {n + 1} : i64, '
        f"program.value = dense<{n}.5> : {WHOLE}}}"
        for n in range(2)
    )
    return (
        f'func.func @main(%x: {part(2)} {{program.name = "x"}}, '
        f'%past: index {{program.name = "past"}}, {states}) -> ({types}) {{\n'
        "%one = arith.constant 1.0 : f32\n" + "\n".join(lines) + "\n"
        f"return {', '.join(results)} : {types}\n}}"
    )


def assert_same(seed: int, runs: int = 3) -> None:
    text = program(seed)
    compiled = compile_module(parse_text(text), "lavapipe")
    module = parse_text(text)
    held = list(compiled.first_values().values())
    generator = np.random.default_rng(seed)
    with compiled.session() as session:
        for past in range(runs):
            x = generator.uniform(-1, 1, (2, COLUMNS)).astype("f4")
            wanted, *held = reference(module, [x, np.array(past), *held], "main")
            checks = Checks.of("all")
            (result,) = session.run(x=x, past=past, checks=checks).values()
            assert not checks.report.findings, f"{checks.report}\n{text}"
            np.testing.assert_array_equal(result, wanted, err_msg=text)
            for array, expected in zip(session.state().values(), held, strict=True):
                np.testing.assert_array_equal(array, expected, err_msg=text)


TELLING = (16, 27, 33, 43, 51)
"""Seeds that give wrong results if a state is written before its old value is last read."""


@pytest.mark.parametrize("seed", [0, *TELLING])
def test_random_updates_give_the_memory_of_tensor_semantics(seed: int) -> None:
    assert_same(seed)
