"""
Bugs in our kernels are found. Repaired kernels, and kernels that only look wrong, are accepted.

A folder contains `broken` and `repaired`, or `right`: a kernel that looks wrong. Each kernel is
compiled for three versions of Vulkan, without debug information, with `-g`, with `-gVS` and by
`spirv-opt -O`, none of which changes the kernel's meaning. The quick test uses one of the twelve
settings for each kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from xdsl_spirv.tools.kernel_test.compilers import NO_DEBUG
from xdsl_spirv.tools.kernel_test.description import SUFFIX, KernelTest
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import read_test

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATHS = sorted(HERE.glob(f"*/*{SUFFIX}"))
ENVIRONMENTS = ("vulkan1.1", "vulkan1.2", "vulkan1.3")
MODES = ("plain", "-g", "-gVS", "-O")


@dataclass(frozen=True)
class Setting:
    """Compiler settings of a kernel."""

    environment: str
    mode: str

    def __str__(self) -> str:
        return f"{self.environment}{'' if self.mode == 'plain' else self.mode}"

    def of(self, test: KernelTest) -> KernelTest:
        """Returns the test with these compiler settings."""
        options = (self.mode if self.mode.startswith("-g") else NO_DEBUG,)
        chosen = replace(
            test.compile,
            target_env=self.environment,
            options=(*test.compile.options, *options),
            optimize=self.mode == "-O",
        )
        return replace(test, compile=chosen)


def settings_of(test: KernelTest) -> list[Setting]:
    """Returns a kernel's settings for its oldest target environment and all later ones."""
    oldest = test.compile.target_env
    assert oldest in ENVIRONMENTS, f"{test.source}: target-env is the oldest that will do"
    return [Setting(e, m) for e in ENVIRONMENTS if e >= oldest for m in MODES]


TESTS = [read_test(path) for path in PATHS]


def _name(test: KernelTest) -> str:
    return f"{test.source.parent.name}/{test.source.name.removesuffix(SUFFIX)}"


def _all() -> Iterator[tuple[KernelTest, Setting]]:
    for test in TESTS:
        for setting in settings_of(test):
            yield test, setting


def _in_turn() -> Iterator[tuple[KernelTest, Setting]]:
    """
    Yields a setting for each kernel. With steps of 5, all 12 settings occur and neighbours differ.
    """
    for number, test in enumerate(TESTS):
        settings = settings_of(test)
        yield test, settings[number * 5 % len(settings)]


def _parameters(pairs: Iterator[tuple[KernelTest, Setting]]):
    return [pytest.param(t, s, id=f"{_name(t)}-{s}") for t, s in pairs]


pytestmark = pytest.mark.usefixtures("own_glslang")


def _judge(test: KernelTest, setting: Setting) -> None:
    outcomes = run_test(setting.of(test))
    assert outcomes
    assert all(outcome.passed for outcome in outcomes), "\n".join(map(str, outcomes))
    expects_error = test.error is not None
    assert all(outcome.checked or expects_error for outcome in outcomes)


@pytest.mark.parametrize(("test", "setting"), _parameters(_in_turn()))
def test_a_kernel_has_its_expected_findings(test: KernelTest, setting: Setting):
    _judge(test, setting)


@pytest.mark.long
@pytest.mark.parametrize(("test", "setting"), _parameters(_all()))
def test_a_kernel_has_its_expected_findings_in_every_setting(test: KernelTest, setting: Setting):
    _judge(test, setting)


def test_every_broken_kernel_has_a_repaired_one():
    folders = {path.parent for path in PATHS}
    broken = [folder for folder in folders if (folder / f"broken{SUFFIX}").exists()]
    assert len(broken) >= 30
    for folder in folders:
        kernels = {path.stem for path in folder.glob("*.comp")}
        described = {path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")}
        assert kernels == described, folder.name
        assert kernels in ({"broken", "repaired"}, {"right"}), folder.name


def test_only_broken_kernels_expect_findings():
    for test in TESTS:
        name = test.source.name.removesuffix(SUFFIX)
        expects = bool(test.findings) + (test.error is not None)
        assert expects == (name == "broken"), _name(test)
        if name != "broken":
            compared = [b for b in test.buffers.values() if _has_expectation(b)]
            assert compared, f"{_name(test)} would compare nothing"


def _has_expectation(contents: object) -> bool:
    from xdsl_spirv.tools.kernel_test.description import Contents

    assert isinstance(contents, Contents)
    return contents.expect is not None or any(map(_has_expectation, contents.members.values()))
