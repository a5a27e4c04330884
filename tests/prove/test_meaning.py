"""Instructions as solver terms agree with the interpreter on random and edge values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import pytest

# The solvers are an optional extra.
pytest.importorskip("z3", reason="z3 is not installed: pip install '.[prove]'")

from xdsl.dialects.builtin import IntegerType

from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.prove import floats
from xdsl_spirv.prove.equivalence import Launch
from xdsl_spirv.prove.meaning import COMPUTE, SPECIAL, same_number
from xdsl_spirv.prove.values import Scalar, Terms, Value, constant_term, known_number, width, z3
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.testing.differential import Kernel, generate, interpret
from xdsl_spirv.testing.differential.families.operations import apply
from xdsl_spirv.testing.differential.float_rules import RULES
from xdsl_spirv.testing.differential.rules import Rule
from xdsl_spirv.testing.differential.running import buffers_of, module_of

INEXACT = {
    *("FRem", "FMod", "GL.Round", "GL.Fract", "GL.FSign", "GL.Step"),
}
"""Rules on floats whose instructions stay uninterpreted in the proof."""


class Numbers(Launch):
    """An executor that evaluates a kernel as solver terms, on buffers with known contents."""

    contents: Mapping[Hashable, Array]

    def initial(self, key: Hashable) -> Value:
        if not isinstance(key, tuple) or key[0] != "byte":
            return super().initial(key)
        _, root, place = key
        octet = self.contents[root].reshape(-1).view(np.uint8)[place]
        return Scalar(constant_term(int(octet), IntegerType(8)))


def compare(kernel: Kernel) -> int:
    """Compares a kernel's terms with the interpreter's results. Returns the number of results."""
    module, compared = module_of(kernel), 0
    launch = Numbers(module, Terms(exact_floats=True), kernel.machine.groups)
    launch.contents = {(0, n): array for n, array in buffers_of(kernel).items()}
    launch.run("main")
    results = {n: a.reshape(-1).view(np.uint8) for n, a in interpret(kernel, module).items()}
    for (root, offset), type in launch.written.items():
        value = launch._read(root, offset, type)  # pyright: ignore[reportPrivateUsage]
        if not z3.is_false(z3.simplify(value.undefined)):
            continue
        size = width(type) // 8
        octets = results[root[1]][offset : offset + size]  # pyright: ignore
        expected = z3.BitVecVal(int.from_bytes(octets.tobytes(), "little"), 8 * size)
        same = z3.simplify(same_number(value.term, expected, element_of(type)))
        shown = f"{kernel.outputs}: {known_number(value.term)} and {expected}"
        assert z3.is_true(same), shown
        compared += 1
    return compared


def is_known(rule: Rule) -> bool:
    """True if the prover defines the instruction of a rule by solver terms."""
    text = f"spirv.{rule.name.split(' ')[0].split('.')[0]}"
    text = f"spirv.{rule.name.split(' ')[0]}" if rule.name.startswith("GL.") else text
    names = {op.name for table in (COMPUTE, SPECIAL, floats.EXACT) for op in table}
    return text in names and rule.name not in INEXACT


KNOWN = [(rule, s) for rule in RULES if is_known(rule) for s in rule.scalars]


INTEGERS = [(rule, s) for rule, s in KNOWN if s.startswith("i")]
"""Instructions on Booleans and on integers of 8 to 64 bits."""


def kernel_of(rule: Rule, scalar: str, seed: int) -> Kernel:
    """Returns a kernel on scalars for even seeds, on the longest vectors for odd ones."""
    kernel = Kernel("operations", seed)
    apply(kernel, rule, scalar, (max if seed % 2 else min)(rule.counts))
    return kernel


def test_most_rules_are_known_to_the_prover():
    names = {
        rule.name.split(" ")[0].split(".")[-1 if "GL." in rule.name else 0] for rule, _ in KNOWN
    }
    assert len(names) > 85, sorted(names)


def test_some_instructions_agree():
    compared = sum(compare(kernel_of(rule, s, 7)) for rule, s in KNOWN[3::33])
    assert compared > 300


@pytest.mark.long
def test_every_instruction_agrees():
    compared = sum(compare(kernel_of(rule, s, seed)) for rule, s in KNOWN for seed in (0, 1))
    assert compared > 40_000


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_integers_agree_on_many_operations(part: int):
    seeds = range(3 * part, 3 * part + 3)
    compared = sum(compare(kernel_of(rule, s, seed)) for rule, s in INTEGERS for seed in seeds)
    assert compared > 25_000


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_programs_agree(seed: int):
    kernel = generate(seed, "dot")
    assert compare(kernel) > 100
