"""Faulty kernels and arguments are refused with the package's own errors."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv import kernels as k
from xdsl_spirv.kernels import tiles as t
from xdsl_spirv.kernels.tracer import KernelError

TOO_MANY: Any = 1 << 70


def huge_workgroup() -> object:
    return k.kernel(workgroup=TOO_MANY)


def builtin() -> object:
    none: Any = dict
    return k.kernel(workgroup=1)(none)


def huge_memory() -> object:
    @k.kernel(workgroup=1)
    def f(x: Any = k.buffer(k.f32)):  # pyright: ignore[reportUnusedFunction]
        x[0] = k.shared(k.f32, 1 << 40)[0]

    return f


def huge_buffer() -> object:
    return k.buffer(k.f32, TOO_MANY)


def text_for_numbers() -> object:
    @k.kernel(workgroup=1)
    def f(x: Any = k.buffer(k.f32)):
        x[0] = 1.0

    return f.launch(1, "x")


def value_of_a_loop() -> object:
    @k.kernel(workgroup=1)
    def f(x: Any = k.buffer(k.f32), n: Any = k.push(k.u32)):
        total = 0.0
        for i in k.range(n):
            total = total + x[i]
        x[0] = total

    return f


def value_of_a_branch() -> object:
    @k.kernel(workgroup=1)
    def f(x: Any = k.buffer(k.f32)):
        first = x[0]
        with k.when(first < 1.0):
            with k.when(first < 0.5):
                small = x[1]
            x[2] = small + 1.0

    return f


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (huge_workgroup, "is not a size of a workgroup"),
        (builtin, "is not a Python function"),
        (huge_memory, "Workgroup memory cannot have the sizes"),
        (huge_buffer, "is not a size of a buffer"),
        (value_of_a_loop, "is used after it .test_refusals.py:.*: x.0. = total"),
        (value_of_a_branch, "is used after it .test_refusals.py:.*: x.2. = small"),
        (text_for_numbers, "the argument is not an array of f32: could not convert"),
    ],
)
def test_other_functions_are_refused_as_kernels(make: Callable[[], object], cause: str):
    with pytest.raises(KernelError, match=cause):
        make()


def of_values() -> object:
    @k.kernel(workgroup=1)
    def f(x: Any = k.buffer(k.i32)):  # pyright: ignore[reportUnusedFunction]
        x[0] = x[0] // 2

    return f


def of_tiles() -> object:
    @t.kernel
    def f(x: t.View = t.view(k.f32, None)):  # pyright: ignore[reportUnusedFunction]
        x.store(0, x.load(0, 16) << 1)

    return f


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (of_values, r"the operator // .*test_refusals.py:\d+: x\[0\] = x\[0\] // 2"),
        (of_tiles, r"the operator << .*test_refusals.py:\d+: x\.store.*; convert with .to\(i32\)"),
    ],
)
def test_a_refused_operator_is_shown_with_the_kernels_line(make: Callable[[], object], cause: str):
    with pytest.raises(KernelError, match=cause):
        make()


LACKING: dict[str, tuple[Callable[[Any], Any], str]] = {
    "@": (lambda x: x @ x, r"the operator @ .*; multiply matrices with multiply_add\(a, b, c\)"),
    "**": (lambda x: x**2, r"the operator \*\* .*; multiply: x \* x"),
    "abs": (abs, r"abs\(\) .*; use absolute\(x\)"),
    "divmod": (lambda x: divmod(x, 2)[0], r"divmod\(\) .*; divide and subtract"),
}


@pytest.mark.parametrize(("apply", "cause"), LACKING.values(), ids=LACKING)
def test_an_operator_that_kernels_lack_is_named_as_python_writes_it(
    apply: Callable[[Any], Any], cause: str
):
    with pytest.raises(KernelError, match=cause):

        @k.kernel(workgroup=1)
        def f(x: Any = k.buffer(k.f32)):  # pyright: ignore[reportUnusedFunction]
            x[0] = apply(x[0])

    with pytest.raises(KernelError, match=cause):

        @t.kernel
        def g(x: t.View = t.view(k.f32, None)):  # pyright: ignore[reportUnusedFunction]
            x.store(0, apply(x.load(0, 16)))


SCALAR_LAYOUT = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %data
OpExecutionMode %main LocalSize 1 1 1
OpName %data "data"
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 8
OpDecorate %data DescriptorSet 0
OpDecorate %data Binding 0
%void = OpTypeVoid
%function = OpTypeFunction %void
%float = OpTypeFloat 32
%vector = OpTypeVector %float 3
%block = OpTypeStruct %vector
%pointer = OpTypePointer Uniform %block
%data = OpVariable %pointer Uniform
%main = OpFunction %void None %function
%entry = OpLabel
%all = OpLoad %block %data
OpReturn
OpFunctionEnd
"""


def test_an_invalid_kernel_runs_on_a_device_only_if_its_rule_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "scalar.spvasm"
    path.write_text(SCALAR_LAYOUT)
    data = np.ones(20, np.uint8)
    with pytest.raises(k.KernelError, match=re.escape("or, if the device can run it, launch")):
        k.launch(str(path), 1, [data], device="vulkan")
    module = sys.modules["xdsl_spirv.kernels.launch"]
    monkeypatch.setattr(module, "_on_device", lambda *_: {(0, 0): data})
    launched = k.launch(str(path), 1, [data], device="vulkan", allow=["BLK-04"])
    assert launched["data"].tolist() == [1] * 20
