"""Faulty kernels and arguments are refused with the package's own errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
