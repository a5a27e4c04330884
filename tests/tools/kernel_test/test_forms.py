"""Kernels in every supported form can be tested, and errors end a test early."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from xdsl_spirv.tools.kernel_test.compilers import compile_source
from xdsl_spirv.tools.kernel_test.description import Contents, KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.problems import Outcome, Sources
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import read_test
from xdsl_spirv.tools.main import main

Run = Callable[..., list[Outcome]]


@pytest.mark.parametrize("form", ["spv", "spvasm", "mlir"])
def test_every_form_of_a_kernel_is_tested(form: str, racy: Path):
    test = read_test(racy)
    binary, kernel = racy.with_name("k.spv"), racy.with_name(f"k.{form}")
    binary.write_bytes(compile_source(test.kernel, test.compile))
    if form == "spvasm":
        assert main(["disassemble", str(binary), "-o", str(kernel)]) == 0
    if form == "mlir":
        assert main(["translate", str(binary), "-o", str(kernel)]) == 0
    racy.write_text(racy.read_text().replace("sum.comp", kernel.name))
    (outcome,) = run_test(read_test(racy))
    (race,) = outcome.problems
    assert race.rule == "RACE-01"
    assert race.location is not None
    if form == "mlir":
        assert race.location.file == str(kernel)
        assert "spirv.Load" in race.location.text
    else:
        assert (Path(race.location.file).name, race.location.line) == ("sum.comp", 11)
    assert outcome.compared == 2


def test_assembly_without_lines_has_its_own(racy: Path):
    test = read_test(racy)
    test = replace(test, compile=replace(test.compile, options=("-g0",)))
    binary, kernel = racy.with_name("k.spv"), racy.with_name("k.spvasm")
    binary.write_bytes(compile_source(test.kernel, test.compile))
    assert main(["disassemble", str(binary), "-o", str(kernel)]) == 0
    (outcome,) = run_test(replace(test, kernel=kernel, buffers=by_binding(test)))
    race = outcome.problems[0]
    assert race.rule == "RACE-01"
    assert race.location is not None
    assert race.location.file == str(kernel)
    assert "OpLoad" in kernel.read_text().split("\n")[race.location.line - 1]


def by_binding(test: KernelTest) -> dict[str, Contents]:
    """Returns the buffers of a kernel without names."""
    given = enumerate(test.buffers.values())
    return {f"0.{number}": replace(contents, expect=None) for number, contents in given}


def test_errors_of_glslang_have_places(run_glsl: Run, tmp_path: Path):
    source = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {\n    y = 1;\n}\n"
    (outcome,) = run_glsl(source, "grid = 1\n")
    (problem,) = outcome.problems
    assert problem.rule == "COMPILE"
    assert f"{tmp_path / 'x.comp'}:4: 'y' : undeclared identifier" in problem.text
    assert problem.location is not None
    assert (problem.location.file, problem.location.line) == (str(tmp_path / "x.comp"), 4)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.spv", b"\3\2#\7", "the binary cannot be read"),
        ("x.spv", b"", "the binary cannot be read"),
        ("x.spvasm", b"OpCapability Shaders\n", "x.spvasm:1:14: 'Shaders' is not a Capability"),
        ("x.mlir", b"spirv.modul", "the input cannot be parsed"),
        ("x.mlir", b"builtin.module {}", "there is no spirv.module"),
    ],
)
def test_other_files_fail_as_kernels(name: str, data: bytes, said: str, tmp_path: Path):
    (tmp_path / name).write_bytes(data)
    path = tmp_path / "x.kernel.toml"
    path.write_text(f'kernel = "{name}"\ngrid = 1\n')
    (outcome,) = run_test(read_test(path))
    (problem,) = outcome.problems
    assert problem.rule == "COMPILE"
    assert said in problem.text


def test_a_missing_glslang_is_reported_with_its_remedy(
    saxpy: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GLSLANG", "/missing/glslang")
    (outcome,) = run_test(read_test(saxpy))
    assert "GLSLANG is '/missing/glslang', which is not a program" in outcome.misuse
    monkeypatch.delenv("GLSLANG")
    monkeypatch.setattr("xdsl_spirv.tools.kernel_test.compilers.FETCHED", Path("/missing"))
    monkeypatch.setenv("PATH", "")
    (outcome,) = run_test(read_test(saxpy))
    assert "glslang, which is not installed" in outcome.misuse
    assert "GLSLANG=PATH" in outcome.misuse


ENDLESS = """#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Data { uint x[]; };
void main() {
    // Odd numbers only: it ends in no round, though it waits for nobody.
    for (uint i = 1; i != 0; i += 2) x[1] = i;
}
"""
LAUNCH = """grid = 1
[buffers.Data]
size = 2
content = "zeros"
"""


def test_an_endless_kernel_is_stopped_by_its_time(run_glsl: Run):
    (outcome,) = run_glsl(ENDLESS, f"timeout = 0.5\nchecks = 'bounds'\n{LAUNCH}")
    (problem,) = outcome.problems
    assert "the launch takes more than 0.5 s" in problem.text


def test_an_endless_kernel_is_stopped_by_its_steps(run_glsl: Run):
    (outcome,) = run_glsl(ENDLESS, f"max-steps = 500\n{LAUNCH}[expect]\nfindings = 'STEP-01'\n")
    assert outcome.passed, outcome


def test_a_reader_that_stops_early_is_no_error(saxpy: Path):
    code = f"from xdsl_spirv.tools.main import main; main(['test', {str(saxpy)!r}])"
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.wait()


def test_special_files_are_not_opened(saxpy: Path):
    os.mkfifo(saxpy.with_name("pipe.spv"))
    os.mkfifo(saxpy.with_name("pipe.npy"))
    os.mkfifo(saxpy.with_name("pipe.kernel.toml"))
    text = saxpy.read_text()
    saxpy.write_text(text.replace("saxpy.comp", "pipe.spv"))
    (outcome,) = run_test(read_test(saxpy))
    assert "pipe.spv is not a file" in outcome.misuse
    saxpy.write_text(text.replace('"random"', '"pipe.npy"'))
    (outcome,) = run_test(read_test(saxpy))
    assert "pipe.npy is not a file" in outcome.misuse
    with pytest.raises(Misuse, match="is not a file"):
        read_test(saxpy.with_name("pipe.kernel.toml"))


def test_source_lines_are_read_from_beside_the_kernel_only(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("a\n")
    (tmp_path / "sub" / "x.h").write_text("first\nsecond\n")
    os.symlink(secret, tmp_path / "sub" / "link")
    sources = Sources(tmp_path / "sub" / "x.comp")
    assert sources.line(str(tmp_path / "sub" / "x.h"), 2) == "second"
    assert sources.line(str(tmp_path / "sub" / "x.h"), 3) == ""
    for other in (str(secret), str(tmp_path / "sub" / "link"), "/dev/zero", "a\0b", ""):
        assert sources.line(other, 1) == ""


def test_the_robust_mode_is_the_launchs(run_glsl: Run):
    source = """#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Data { uint x[]; };
void main() { x[0] = x[4] + 7; }
"""
    launch = "grid = 1\nbuffers.Data = { content = [1, 1], expect = [7, 1] }\n"
    (strict,) = run_glsl(source, launch)
    assert "BOUNDS-01" in [problem.rule for problem in strict.problems]
    (robust,) = run_glsl(source, f"robust = true\nchecks = 'none'\n{launch}")
    assert robust.passed, robust


def test_a_test_without_expectations_is_refused(run_glsl: Run):
    source = ENDLESS.replace("i != 0", "i < 9")
    (idle,) = run_glsl(source, f"checks = 'none'\n{LAUNCH}")
    assert "the test has no checks and no expected values" in idle.misuse
    (looked_at,) = run_glsl(source, f"checks = 'none'\n{LAUNCH}expect = '[0, 7]'\n")
    assert looked_at.passed
    assert looked_at.compared == 2
