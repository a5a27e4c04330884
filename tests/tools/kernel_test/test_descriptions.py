"""Before anything runs, errors name the mistakes in a test's description."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.tools.kernel_test.description import Compile, Contents, Misuse, Tolerance
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.toml_file import read_test
from xdsl_spirv.tools.main import main

Run = Callable[..., list[Outcome]]

SCALE = """#version 450
layout(local_size_x = 32) in;
layout(constant_id = 3) const uint factor = 2;
layout(std430, binding = 0) readonly buffer Input { uint x[]; };
layout(std430, binding = 1) buffer Output { uint y[]; };
layout(push_constant) uniform P { uint n; ivec2 pair; } p;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < p.n) y[i] = x[i] * factor + uint(p.pair.y);
}
"""
WHOLE = """grid = 1
compile.target-env = "vulkan1.2"
[specialization]
factor = 3
[push-constants]
n = 32
pair = [1, 2]
[buffers.Input]
size = 32
content = "range"
[buffers.Output]
size = 32
content = "zeros"
expect = "Input * factor + pair[1]"
"""


def test_a_complete_description_is_read(tmp_path: Path):
    path = tmp_path / "a.kernel.toml"
    path.write_text("""
kernel = "a.comp"
entry = "main"
grid = [4, 2]
subgroup-sizes = [8, 32]
target = "lavapipe"
checks = ["races", "bounds"]
robust = true
max-steps = 1000
allow = "RACE-01:tile"
[compile]
target-env = "vulkan1.1"
options = ["-gVS"]
defines = { N = 4, S = "x" }
optimize = true
[specialization]
size = 64
[push-constants]
n = 1
[buffers.A]
type = "f32"
size = [2, 3]
content = "random"
seed = 5
low = 0
high = 2.5
expect = "A + 1"
tolerance = { relative = 1e-3, ulp = 2 }
[buffers.B]
alias = "A"
[buffers.C.members]
head = 3
[expect]
findings = ["RACE-01"]
error = "outside"
""")
    test = read_test(path)
    assert test.kernel == tmp_path / "a.comp"
    assert test.grid == (4, 2, 1)
    assert test.subgroup_sizes == (8, 32)
    assert test.checks == "races,bounds"
    assert test.compile == Compile("vulkan1.1", ("-gVS",), {"N": "4", "S": "x"}, True)
    assert test.buffers == {
        "A": Contents("f32", (2, 3), "random", 5, 0, 2.5, "A + 1", Tolerance(0, 1e-3, 2)),
        "B": Contents(alias="A"),
        "C": Contents(members={"head": Contents(content=3)}),
    }
    assert (test.findings, test.error, test.allow) == (("RACE-01",), "outside", ("RACE-01:tile",))
    assert test.robust
    assert test.max_steps == 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the kernel is missing"),
        ("kernel = 3", "kernel: 3 is not text"),
        ('kernel = ""', "is not text"),
        ("kernel = ", "the file is not valid TOML"),
        ('kernel = "a.comp"\nkernel = "b.comp"', "the file is not valid TOML"),
        ("\xff", "the file is not valid TOML"),
        ('kernel = "a.comp"\ngird = 1', "gird: the key is unknown; did you mean 'grid'?"),
        ('kernel = "a.comp"\ngrid = 0', "0 is not an integer from 1"),
        ('kernel = "a.comp"\ngrid = true', "True is not an integer"),
        ('kernel = "a.comp"\ngrid = 1.5', "1.5 is not an integer"),
        ('kernel = "a.comp"\ngrid = [1, 1, 1, 1]', "a grid cannot have 4 numbers"),
        ('kernel = "a.comp"\ngrid = []', "the list is empty"),
        ('kernel = "a.comp"\ngrid = 99999999999', "is not an integer from 1"),
        ('kernel = "a.comp"\nsubgroup-sizes = 256', "256 is not an integer from 1 to 128"),
        ('kernel = "a.comp"\nrobust = 1', "neither true nor false"),
        ('kernel = "a.comp"\nchecks = 1', "not a list of strings"),
        ('kernel = "a.comp"\nbuffers = 1', "buffers: 1 is not a table"),
        ('kernel = "a.comp"\nbuffers.A.type = "float"', "'float' is not an element type"),
        ('kernel = "a.comp"\nbuffers.A.size = -1', "not an integer from 1"),
        ('kernel = "a.comp"\nbuffers.A.size = 0', "not an integer from 1"),
        ('kernel = "a.comp"\nbuffers.A.size = [1048576, 1048576, 2]', "are too many"),
        ('kernel = "a.comp"\nbuffers.A.content = "ranom"', "did you mean 'random'?"),
        ('kernel = "a.comp"\nbuffers.A.contents = 1', "did you mean 'content'?"),
        ('kernel = "a.comp"\nbuffers.A.content = 2020-01-01', "is not a constant"),
        ('kernel = "a.comp"\nbuffers.A.tolerance = -1', "cannot be negative"),
        ('kernel = "a.comp"\nbuffers.A.tolerance = nan', "not a finite number"),
        ('kernel = "a.comp"\nbuffers.A.tolerance.abs = 1', "did you mean 'absolute'?"),
        ('kernel = "a.comp"\nbuffers.A = {size = 1, members = {x = 1}, content = 1}', "or by"),
        ('kernel = "a.comp"\nbuffers.A = {alias = "B", size = 1}', "an alias has the content"),
        ('kernel = "a.comp"\nbuffers.A = {alias = "B", expect = 0}', "an alias has the content"),
        ('kernel = "a.comp"\nbuffers.A = {alias = "B", content = 0}', "an alias has the content"),
        ('kernel = "a.comp"\nbuffers.A = {tolerance = 1, members = {x = 1}}', "or by"),
        ('kernel = "a.comp"\ncompile.defines = {A = [1, 2]}', "cannot be the value of a macro"),
        ('kernel = "a.comp"\ntimeout = 1e300', "is not a valid time limit"),
        (
            'kernel = "a.comp"\nbuffers.A = {content = 1, low = 1}',
            "low and high are only for random numbers",
        ),
        ('kernel = "a.comp"\nexpect.finding = "A"', "did you mean 'findings'?"),
        ('kernel = "a.comp"\ncompile.opt = true', "the key is unknown"),
        ('kernel = "a.comp"\n' + "a = " + "[" * 5000, "the file is not valid TOML"),
    ],
)
def test_mistakes_in_the_file_are_refused(text: str, said: str, tmp_path: Path):
    path = tmp_path / "a.kernel.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(Misuse) as caught:
        read_test(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_right_description_of_the_kernel_is_accepted(run_glsl: Run):
    (outcome,) = run_glsl(SCALE, WHOLE)
    assert outcome.passed, outcome
    assert outcome.compared == 32


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("grid = 1\n", "", "the number of workgroups is not given"),
        ("grid = 1\n", 'grid = 1\nentry = "mian"\n', "no entry point 'mian'; did you mean 'main'"),
        ("vulkan1.2", "vulkan9", "the target environment 'vulkan9' does not exist"),
        ("grid = 1\n", 'grid = 1\ntarget = "lavapip"\n', "there is no target 'lavapip'"),
        ("grid = 1\n", "grid = 1\nchecks = 'race'\n", "there is no check 'race'"),
        ("grid = 1\n", "grid = 1\nsubgroup-sizes = 12\n", "size 12 is not valid"),
        ("factor = 3", "facter = 3", "'facter' is not a specialization constant; did you mean"),
        ("factor = 3", "4 = 3", "'4' is not a specialization constant"),
        (
            "factor = 3",
            "factor = -1",
            "specialization.factor is -1, but must be from 0 to 4294967295",
        ),
        ("factor = 3", "factor = 1.5", "must have type u32"),
        ("factor = 3", "factor = 1\n3 = 1", "is given twice"),
        ("n = 32\n", "", "push-constants.n is missing"),
        ("n = 32\n", "N = 32\n", "push-constants has no 'N'; did you mean 'n'?"),
        ("n = 32\n", "n = 32\nm = 1\n", "push-constants has no 'm'"),
        ("n = 32\n", "n = 4294967296\n", "must be from 0 to 4294967295"),
        ("n = 32\n", "n = true\n", "push-constants.n is True, but must have type u32"),
        ("pair = [1, 2]", "pair = 1", "push-constants.pair is 1, but must be i32[2]"),
        ("pair = [1, 2]", "pair = [1]", "must have (2,)"),
        ("pair = [1, 2]", "pair = [1, 2147483648]", "must be from -2147483648 to 2147483647"),
        ("buffers.Input", "buffers.Inptu", "no buffer 'Inptu'; did you mean 'Input'?"),
        ('[buffers.Input]\nsize = 32\ncontent = "range"\n', "", "the buffer Input is not given"),
        ('size = 32\ncontent = "range"', 'content = "range"', "buffers.Input has no size"),
        ('content = "range"', "", "buffers.Input has no content"),
        ('content = "range"', 'content = "missing.npy"', "cannot read the input"),
        ('content = "range"', "content = 1.5", "must have type u32"),
        ('content = "range"', "content = [1, 2]", "must have (32,)"),
        (
            'content = "range"',
            'content = "random"\nlow = 9\nhigh = 3',
            "low is 9, but high is only",
        ),
        ('content = "range"', 'content = "random"\nlow = 0.5', "must have type u32"),
        ('size = 32\ncontent = "range"', "members.z = 1", "buffers.Input has no member 'z'"),
        (
            'size = 32\ncontent = "range"',
            "alias = 'Outptu'",
            "alias names a buffer that is not described",
        ),
        ("Input * factor", "Inptu * factor", "did you mean 'Input'?"),
        ("Input * factor + pair[1]", "Input[:5]", "the shape (5,), but the buffer has (32,)"),
        ("Input * factor + pair[1]", "Input.sum()", "expressions have no function"),
    ],
)
def test_mistakes_about_the_kernel_are_refused(old: str, new: str, said: str, run_glsl: Run):
    assert old in WHOLE
    (outcome,) = run_glsl(SCALE, WHOLE.replace(old, new, 1))
    assert said in outcome.misuse
    assert not outcome.passed
    assert not outcome.ran


def test_buffers_that_are_too_large_are_not_allocated(run_glsl: Run):
    huge = WHOLE.replace("size = 32", "size = 1000000000000")
    (outcome,) = run_glsl(SCALE, huge)
    assert "but tests may take" in outcome.misuse


def test_missing_settings_can_be_pasted(run_glsl: Run):
    head = WHOLE[: WHOLE.index("[buffers.Input]")]
    (outcome,) = run_glsl(SCALE, head)
    pasted = outcome.misuse.partition("describe it:\n")[2]
    (again,) = run_glsl(SCALE, head.replace("n = 32", "n = 0") + pasted)
    assert again.passed, again


def test_a_mistake_ends_in_status_2(run_glsl: Run, tmp_path: Path):
    run_glsl(SCALE, "")
    assert main(["test", str(tmp_path / "x.comp")]) == 2


def test_arrays_come_from_files(run_glsl: Run, tmp_path: Path):
    np.save(tmp_path / "in.npy", np.arange(32, dtype=np.uint32)[::-1])
    np.save(tmp_path / "out.npy", np.arange(32, dtype=np.uint32)[::-1] * 3 + 2)
    text = WHOLE.replace('size = 32\ncontent = "range"', 'content = "in.npy"')
    text = text.replace("Input * factor + pair[1]", "out.npy")
    (outcome,) = run_glsl(SCALE, text)
    assert outcome.passed, outcome
    np.save(tmp_path / "in.npy", np.arange(32, dtype=np.float32))
    (outcome,) = run_glsl(SCALE, text)
    assert "the array has type float32, but must have u32" in outcome.misuse
    np.savez(tmp_path / "in.npy.npz", a=np.zeros(1))
    (tmp_path / "in.npy.npz").rename(tmp_path / "in.npy")
    (outcome,) = run_glsl(SCALE, text)
    assert "several arrays" in outcome.misuse


def test_a_kernel_without_buffers_says_so(run_glsl: Run):
    source = "#version 450\nlayout(local_size_x = 8) in;\nvoid main() { barrier(); }\n"
    (outcome,) = run_glsl(source, 'grid = 1\ncompile.target-env = "vulkan1.2"\n')
    assert "'main' uses no buffer" in outcome.misuse


def test_a_link_to_itself_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "a.comp").symlink_to(tmp_path / "a.comp")
    assert main(["test", str(tmp_path / "a.comp")]) == 2
    said = capsys.readouterr().out
    assert "is a symbolic link to a missing file: " in said
    assert "did you mean" not in said


def test_a_file_name_that_is_not_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run_glsl: Run
):
    path = tmp_path / "k\udcff.comp"
    path.write_text(SCALE)
    assert main(["test", "--init", str(path)]) == 2
    assert "'k\\udcff.kernel.toml' is not text" in capsys.readouterr().err
    assert os.listdir(tmp_path) == [path.name]
