"""
Data classes for a kernel's test: the launch, its inputs, and the expected results.

None or an empty value means that the description does not give a value. A launch has no default
values, except for the subgroup size (32, or the target's) and the checks (all).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from xdsl_spirv.images import Sampler
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.speech import did_you_mean

FAILED, MISUSED = 1, 2
"""Exit statuses: a launch failed; a test's description is wrong."""

SUFFIX = ".kernel.toml"
SOURCES = (".comp", ".glsl", ".slang", ".hlsl", ".wgsl")
"""File endings of sources that `compilers.py` compiles to SPIR-V."""
KERNELS = (*SOURCES, ".spv", ".spvasm", ".mlir", ".ttir")
"""File endings of kernels that can be tested."""

ELEMENT_TYPES: Mapping[str, str] = {
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "f64": "f64",
    "i8": "i8",
    "u8": "ui8",
    "i16": "i16",
    "u16": "ui16",
    "i32": "i32",
    "u32": "ui32",
    "i64": "i64",
    "u64": "ui64",
}
"""Maps the element types in tests to the names in `runtime/elements.py`."""

DEFAULT_TIMEOUT = 300.0
"""Default time limit of a launch, in seconds."""

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "bounds": ("BOUNDS-",),
    "races": ("RACE-",),
    "barriers": ("BARRIER-",),
    "division": ("UNDEF-04", "UNDEF-05"),
    "shifts": ("UNDEF-03",),
    "initialization": ("UNDEF-01",),
}
"""Maps a question for proofs (such as races) to the rules whose findings show a violation."""

PROOF_TIMEOUT = 60.0
"""Default limit of processor time for a proof, in seconds. 95 % of proofs take less."""

PATTERNS = ("zeros", "ones", "random", "range")
"""Names of patterns for a buffer's contents, such as `zeros`."""

Given: TypeAlias = Any
"""A TOML value: a boolean, a number, a string, a list or a table."""


class Misuse(ProgramError):
    """Raised if a test's description is wrong, so that nothing was run. The exit status is 2."""


@dataclass(frozen=True)
class Compile:
    """Options for compiling a source; `target_env` is also the environment of the validation."""

    target_env: str | None = None
    options: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict[str, str])
    optimize: bool = False


@dataclass(frozen=True)
class Tolerance:
    """
    The tolerance of a comparison.

    A value is accepted if |actual - expected| <= absolute + relative * |expected|, or if the
    difference is at most `ulp` units in the last place of the buffer's type.
    """

    absolute: float = 0.0
    relative: float = 0.0
    ulp: int = 0


@dataclass(frozen=True)
class Contents:
    """
    The contents of a buffer or a member before the launch, and the expected contents after it.

    `size` is a shape in elements of `type`. A fixed-size block or a `.npy` file implies both.
    `content` is a pattern's name, a number, a list, or the path of a `.npy` file. `low` and `high`
    bound random numbers. `alias` names another buffer with the same memory. An image has a
    `format` instead of a `type`; its size is width, height, depth and layers.
    """

    type: str | None = None
    size: tuple[int, ...] | None = None
    content: Given = None
    seed: int = 0
    low: float | None = None
    high: float | None = None
    expect: Given = None
    tolerance: Tolerance = Tolerance()
    alias: str | None = None
    members: Mapping[str, Contents] = field(default_factory=dict[str, "Contents"])
    format: str | None = None
    levels: int = 1
    sampler: Sampler | None = None


@dataclass(frozen=True)
class KernelTest:
    """A kernel and its launch; `source` is the TOML file, or the kernel's file if there is none."""

    source: Path
    kernel: Path
    entry: str | None = None
    grid: tuple[int, int, int] | None = None
    subgroup_sizes: tuple[int, ...] = ()
    target: str | None = None
    checks: str = "all"
    robust: bool = False
    max_steps: int | None = None
    timeout: float = DEFAULT_TIMEOUT
    """Time limit of a launch in seconds."""
    allow: tuple[str, ...] = ()
    compile: Compile = Compile()
    specialization: Mapping[str, Given] = field(default_factory=dict[str, Given])
    push_constants: Mapping[str, Given] = field(default_factory=dict[str, Given])
    buffers: Mapping[str, Contents] = field(default_factory=dict[str, Contents])
    assume: tuple[str, ...] = ()
    """Premises of the proof."""
    prove: tuple[str, ...] = ()
    """Names of the questions to prove for all launches."""
    prove_timeout: float = PROOF_TIMEOUT
    """Limit of processor time for the proof, in seconds."""
    findings: tuple[str, ...] = ()
    error: str | None = None

    @property
    def name(self) -> str:
        """Name of the test in reports."""
        return str(self.source).removesuffix(SUFFIX)


def suggest(name: str, known: Mapping[str, Any] | list[str] | tuple[str, ...]) -> str:
    """Returns a remedy for an unknown name: the most similar known name, and all known names."""
    names = list(known)
    meant = did_you_mean(name, names)
    return f"{meant} there are: {', '.join(names) or 'none'}".strip()
