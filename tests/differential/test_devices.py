"""Allowed differences are not reported, and known bugs are recognized by their results."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from xdsl_spirv.dialects.spirv import arithmetic
from xdsl_spirv.interpreter.spirv.arithmetic import COMPONENTWISE
from xdsl_spirv.testing.differential import Kernel, disagreements, generate, interpret
from xdsl_spirv.testing.differential.families.operations import apply
from xdsl_spirv.testing.differential.float_rules import RULES
from xdsl_spirv.testing.differential.known import dot_of_64_bits, explanation
from xdsl_spirv.testing.differential.machine import machine
from xdsl_spirv.testing.differential.running import Buffers, choices

H200 = machine("nvidia-h200")
NVIDIA = "NVIDIA H200, NVIDIA 580.159.04"
LAVAPIPE = "llvmpipe (LLVM 19.1.7, 256 bits)"


def one(name: str, scalar: str, *operands: object) -> Kernel:
    """Returns a kernel of one operation, whose first invocation has the given operands."""
    kernel = Kernel("operations", 0, H200)
    apply(kernel, next(rule for rule in RULES if rule.name == name), scalar, 1)
    for number, value in zip(kernel.outputs[0].operands, operands, strict=True):
        kernel.buffers[number].array.reshape(-1)[0] = value
    return kernel


def with_first(kernel: Kernel, value: object) -> list[str]:
    """Returns the reported differences of a device that computes `value` in invocation 0."""
    truth = interpret(kernel)
    buffer = kernel.outputs[0].buffer
    found = truth | {buffer: truth[buffer].copy()}
    found[buffer].reshape(-1)[0] = value
    return [str(d) for d in disagreements(kernel, truth, found)]


def test_either_result_is_accepted_for_a_number_that_is_rounded_twice():
    """lavapipe rounds -6.564453173897318 to binary32, and the result to binary16."""
    x, low, high = -6.564453173897318, np.float16(-6.56640625), np.float16(-6.5625)
    assert np.nextafter(low, np.float16(0)) == high
    middle = (Fraction(float(low)) + Fraction(float(high))) / 2
    assert Fraction(float(low)) < Fraction(x) < middle == Fraction(float(np.float32(x)))
    kernel = one("FConvert to f16", "f64", x)
    assert interpret(kernel)[kernel.outputs[0].buffer].reshape(-1)[0] == low
    assert with_first(kernel, high) == []
    for wrong in (np.float16(-6.55859375), np.float16(-6.5703125)):
        assert len(with_first(kernel, wrong)) == 1
    # A number that is not halfway between two binary32 numbers has one result.
    assert len(with_first(one("FConvert to f16", "f64", -6.5645), high)) == 1


def test_quotients_with_divisors_beyond_the_table_are_not_compared():
    """Vulkan's table bounds quotients of binary32 for divisors up to 2^126."""
    assert with_first(one("FDiv", "f32", 1515.0, 2.0**127), 0.0) == []
    assert len(with_first(one("FDiv", "f32", 1515.0, 2.0**126), 0.0)) == 1
    assert len(with_first(one("FDiv", "f32", 6.0, 2.0), 3.00001)) == 1


def test_a_comparison_and_a_choice_may_become_a_minimum():
    assert with_first(one("Select", "f32", 7.0, np.nan), 7.0) == []
    assert len(with_first(one("Select", "f32", 7.0, 8.0), 8.0)) == 1
    assert len(with_first(one("Select", "i32", 7, 8), 8)) == 1


@pytest.mark.parametrize("seed", [57, 90, 106, 160, 313, 337, 349, 398, 404, 510, 517, 594])
def test_generated_kernels_have_no_remainders_of_negative_operands(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    """
    With UMod in place of SRem and SMod, results are equal: no operand of a remainder is negative.
    """
    kernel = generate(seed, machine=H200)
    assert "spirv.SRem" in kernel.text() or "spirv.SMod" in kernel.text()
    truth = interpret(kernel)
    for operation in (arithmetic.SRemOp, arithmetic.SModOp):
        monkeypatch.setitem(COMPONENTWISE, operation, COMPONENTWISE[arithmetic.UModOp])
    assert disagreements(kernel, truth, interpret(kernel)) == []


def test_bfloat16_rounds_one_way_or_the_other():
    """All elements of an output must be rounded in one direction."""
    mixed = 0
    for seed in range(24, 40):
        kernel = generate(seed, "bfloat16", H200)
        truth, (toward_zero,) = interpret(kernel), choices(kernel)
        assert disagreements(kernel, truth, toward_zero, [toward_zero]) == []
        assert disagreements(kernel, truth, truth, [toward_zero]) == []
        for output in kernel.outputs:
            a, b = truth[output.buffer], toward_zero[output.buffer]
            if np.count_nonzero(a != b) > 8:
                half = np.where(np.arange(len(a)).reshape(-1, *[1] * (a.ndim - 1)) % 2, a, b)
                found = truth | {output.buffer: half}
                mixed += len(disagreements(kernel, truth, found, [toward_zero]))
    assert mixed > 8


def dots_of_64_bits() -> list[tuple[Kernel, Buffers]]:
    kernels = [generate(seed, "dot", H200) for seed in range(8)]
    found = [(kernel, interpret(kernel)) for kernel in kernels]
    assert any("UDotAccSat" in o.what for kernel, _ in found for o in kernel.outputs)
    return found


def test_a_known_bug_is_recognised_by_its_results():
    recognised = 0
    for kernel, truth in dots_of_64_bits():
        for output in kernel.outputs:
            if "AccSat" not in output.what or not output.what.endswith("-> i64"):
                continue
            changed = truth | {output.buffer: truth[output.buffer] ^ 1}
            (found,) = disagreements(kernel, truth, changed)
            assert explanation(found, NVIDIA) is None
            result = dot_of_64_bits(found).reshape(found.results.shape)
            for difference in disagreements(kernel, truth, truth | {output.buffer: result}):
                known = explanation(difference, NVIDIA)
                assert known is not None
                assert known.anchor == "saturating-dots-of-64-bits"
                assert explanation(difference, LAVAPIPE) is None
                recognised += 1
    assert recognised > 4
