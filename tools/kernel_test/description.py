"""
Describes a kernel's test: the launch, its inputs, and the expected results.

A record holds only the values of the description: None and empty mean "not given". A launch's
values have no defaults, except the subgroup size (32, or the target's) and the checks (all).
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
"""Exit statuses: a launch failed; a test is described wrongly."""

SUFFIX = ".kernel.toml"
SOURCES = (".comp", ".glsl", ".slang", ".hlsl", ".wgsl")
"""Endings of sources that are compiled to SPIR-V (compilers.py)."""
KERNELS = (*SOURCES, ".spv", ".spvasm", ".mlir", ".ttir")
"""Endings of files that can be tested."""

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
"""Element types as tests write them, mapped to the names in runtime/elements.py."""

DEFAULT_TIMEOUT = 300.0
"""Default time limit in seconds: much more than a test should take, even on a slow machine."""

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "bounds": ("BOUNDS-",),
    "races": ("RACE-",),
    "barriers": ("BARRIER-",),
    "division": ("UNDEF-04", "UNDEF-05"),
    "shifts": ("UNDEF-03",),
    "initialization": ("UNDEF-01",),
}
"""Questions about all launches, each with the rules whose findings show a fault in one launch."""

PROOF_TIMEOUT = 60.0
"""Time limit of a proof in seconds of processor time: 95 % of proofs take less."""

PATTERNS = ("zeros", "ones", "random", "range")
"""Contents that have a name."""

Given: TypeAlias = Any
"""A value of TOML: a boolean, a number, a string, a list or a table of them."""


class Misuse(ProgramError):
    """A test is described wrongly: nothing was run. The command's exit status is then 2."""


@dataclass(frozen=True)
class Compile:
    """
    Options for compiling a source; `target_env` also selects the environment of the validation.
    """

    target_env: str | None = None
    options: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict[str, str])
    optimize: bool = False


@dataclass(frozen=True)
class Tolerance:
    """
    Tolerance of a comparison.

    A value is accepted if |actual - expected| <= absolute + relative |expected|, or if it is within
    `ulp` units in the last place of the buffer's type.
    """

    absolute: float = 0.0
    relative: float = 0.0
    ulp: int = 0


@dataclass(frozen=True)
class Contents:
    """
    The contents of a buffer or a member: before the launch, and as expected after it.

    `size` is a shape in elements of `type`; if they are not given, a fixed block or a `.npy` file
    supplies both. `content` is a pattern's name, a number, a list, or the path of a `.npy` file.
    `low` and `high` bound random numbers. `alias` names another buffer whose memory this one
    shares. An image has a format, and no type; its size is width, height, depth and layers.
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
    """
    One kernel and its launch; `source` is the TOML file, or the kernel's file if there is none.
    """

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
    """Premises of proofs."""
    prove: tuple[str, ...] = ()
    """The questions to prove for all launches."""
    prove_timeout: float = PROOF_TIMEOUT
    """Time limit of a proof in seconds of processor time."""
    findings: tuple[str, ...] = ()
    error: str | None = None

    @property
    def name(self) -> str:
        """Name in reports."""
        return str(self.source).removesuffix(SUFFIX)


def suggest(name: str, known: Mapping[str, Any] | list[str] | tuple[str, ...]) -> str:
    """Returns a remedy for an unknown name: the most similar name, and all known ones."""
    names = list(known)
    meant = did_you_mean(name, names)
    return f"{meant} there are: {', '.join(names) or 'none'}".strip()
