"""
Malicious program folders are refused with an error that names the fault, or run without harm.

Manifests are damaged field by field. Files are links, pipes, devices, outside of the folder or too
large. Kernels do not match the manifest.
"""

from __future__ import annotations

import json
import math
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.runtime import Program, ProgramError, folder, run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.testing.fuzzing.damage import damage_json
from xdsl_spirv.tools.main import main

SOURCE = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %w = arith.constant dense<[[1., 2., 3., 4., 5., 6., 7., 8.], [1., 2., 3., 4., 5., 6., 7., 8.],
    [1., 2., 3., 4., 5., 6., 7., 8.], [1., 2., 3., 4., 5., 6., 7., 8.]]> : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %s = linalg.add ins(%x, %w : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>)
    -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<8x4xf32>
  %t = linalg.transpose ins(%s : tensor<4x8xf32>) outs(%f : tensor<8x4xf32>) permutation = [1, 0]
  return %t : tensor<8x4xf32>
}
"""

SECRET = "root:x:0:0"

Json = Any


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_module(parse_text(SOURCE), "lavapipe")


@pytest.fixture
def saved(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDSL_SPIRV_CACHE", "0")
    program.save(tmp_path / "program")
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path / "program"


def is_small(program: Program) -> bool:
    """True if the program ends soon. A huge program may be what a user wants."""
    manifest = program.manifest
    grids = [math.prod(dispatch.workgroups) for dispatch in manifest.dispatches]
    return max(grids) < 1000 and sum(b.bytes for b in manifest.buffers) < 1 << 20


def outcome(saved: Path, manifest: Json) -> str:
    """Loads and runs a program with a manifest. Returns `ran`, `large`, `refused` or `quoted`."""
    (saved / "program.json").write_text(json.dumps(manifest))
    try:
        program = Program.load(saved)
        if not is_small(program):
            return "large"
        inputs = {b.name: np.ones(b.sizes, np.float32) for b in program.manifest.inputs}
        run(program, inputs)
    except (ProgramError, InterpreterError, MemoryError) as error:
        return "quoted" if SECRET in str(error) else "refused"
    return "ran"


@pytest.mark.parametrize(
    "seeds", [range(80), pytest.param(range(80, 6000), marks=pytest.mark.long)]
)
def test_damaged_manifests_are_refused_or_harmless(seeds: range, saved: Path) -> None:
    manifest = json.loads((saved / "program.json").read_text())
    outcomes = [outcome(saved, damage_json(random.Random(seed), manifest)) for seed in seeds]
    assert "quoted" not in outcomes
    assert outcomes.count("refused") > len(seeds) // 3
    assert outcomes.count("ran") > 0


OUTSIDE = (
    "/etc/passwd",
    "../secret",
    "kernels/../../secret",
    "./source.mlir",
    "a//b",
    "\\x",
    "C:x",
)


@pytest.mark.parametrize("field", ["source", "weights", "binary", "text"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_file_names_outside_of_the_folder_are_refused(
    field: str, name: str, program: Program, saved: Path
) -> None:
    manifest = json.loads((saved / "program.json").read_text())
    (manifest if field in manifest else manifest["kernels"][0])[field] = name
    (saved / "program.json").write_text(json.dumps(manifest))
    with pytest.raises(ProgramError, match="is outside the program's directory") as raised:
        Program.load(saved)
    assert SECRET not in str(raised.value)


def test_a_hostile_name_is_not_saved_outside_of_the_folder(
    program: Program, tmp_path: Path
) -> None:
    from dataclasses import replace

    kernels = program.manifest.kernels
    named = replace(kernels[0], name="../../../x")
    manifest = replace(program.manifest, kernels=(named, *kernels[1:]), dispatches=())
    hostile = Program(manifest, program.code | {named.name: program.code[kernels[0].name]})
    hostile.weights = program.weights
    with pytest.raises(ProgramError, match="is outside the program's directory"):
        hostile.save(tmp_path / "a" / "b", text=True)
    assert os.listdir(tmp_path / "a") == []


def _link(path: Path) -> None:
    path.symlink_to(next(p for p in path.parents if (p / "secret").exists()) / "secret")


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (_link, "contains a link"),
    "device": (_zero, "contains a link"),
    "pipe": (os.mkfifo, "something other than a file"),
    "folder": (Path.mkdir, "something other than a file"),
    "large": (_large, "has 1,099,511,627,776 bytes, more than"),
    "none": (lambda path: None, "No such file"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["program.json", "source.mlir", "weights.safetensors", "kernel"])
def test_special_files_are_refused(kind: str, file: str, program: Program, saved: Path) -> None:
    make, said = KINDS[kind]
    path = saved / (program.manifest.kernels[0].binary if file == "kernel" else file)
    path.unlink()
    make(path)
    with pytest.raises(ProgramError, match=said) as raised:
        Program.load(saved)
    assert SECRET not in str(raised.value)


def test_a_folder_may_be_a_link(saved: Path, tmp_path: Path) -> None:
    """A link to the program's folder is allowed, a link inside is not."""
    (tmp_path / "link").symlink_to(saved)
    Program.load(tmp_path / "link")
    (saved / "kernels").rename(tmp_path / "elsewhere")
    (saved / "kernels").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProgramError, match="contains a link"):
        Program.load(saved)


def test_a_device_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="something other than a file"):
        folder.Folder("/dev").read("zero", 100)


def _first(manifest: Json, field: str) -> Json:
    return manifest["dispatches"][0][field]


CONTRADICTIONS: list[tuple[str, Callable[[Json], object]]] = [
    (
        "has workgroups of .* but the manifest says 7 x 1 x 1",
        lambda m: m["kernels"][0]["entry_points"][0].update(workgroup_size=[7, 1, 1]),
    ),
    ("the kernel has no entry point 'none'", lambda m: _rename(m, "none")),
    (
        "two buffers are bound to set 0, binding 0",
        lambda m: _first(m, "bindings")[1].update(binding=0),
    ),
    (
        "exceeds the limits of 4 sets and 1024 bindings",
        lambda m: _first(m, "bindings")[0].update(set=2**31),
    ),
    (
        "exceeds the limits of 4 sets and 1024 bindings",
        lambda m: _first(m, "bindings")[0].update(binding=-1),
    ),
    ("no buffer is bound to set 0, binding", lambda m: _first(m, "bindings").pop()),
    ("marked `once` must only compute", lambda m: m["dispatches"][0].update(once=True)),
    ("exceeds 4294967295 workgroups", lambda m: m["dispatches"][0].update(grid=[2**32, 1, 1])),
    ("is not a multiple of 256", lambda m: _temporary(m, offset=4, memory=1 << 20)),
    ("ends beyond the 4 bytes", lambda m: _temporary(m, offset=0, memory=4)),
    ("the memory has -4 bytes", lambda m: m.update(memory=-4)),
    (
        "a push constant of type f32 is at the invalid offset 2",
        lambda m: _push(m, {"offset": 2, "type": "f32", "value": 1.0}),
    ),
    ("end at 4100, beyond", lambda m: _push(m, {"offset": 4096, "type": "i32", "value": 1})),
    ("1.5 is not a value of i32", lambda m: _push(m, {"offset": 0, "type": "i32", "value": 1.5})),
    (
        "has two values",
        lambda m: m["dispatches"][0].update(spec_constants=[{"id": 0, "value": 1}] * 2),
    ),
    (
        "the kernel has no specialization constant of type i32",
        lambda m: m["kernels"][0].update(spec_constants=[{"id": 5, "type": "i32", "default": 1}]),
    ),
    ("given by the caller, but is not an argument", lambda m: m.update(arguments=[])),
    ("is listed twice", lambda m: m["arguments"].append(m["arguments"][0])),
    ("is a buffer of the wrong kind, input", lambda m: m.update(results=["x"])),
    ("33 dimensions", lambda m: m["buffers"][0].update(shape=[1] * 33)),
    ("beyond .* bytes", lambda m: m["buffers"][0].update(shape=[2**62, 2**62])),
    ("beyond .* bytes", lambda m: m["buffers"][0].update(shape=[2**62, 0])),
]


def _rename(manifest: Json, name: str) -> None:
    kernel = manifest["dispatches"][0]["kernel"]
    record = next(k for k in manifest["kernels"] if k["name"] == kernel)
    record["entry_points"][0]["name"] = name
    for dispatch in manifest["dispatches"]:
        if dispatch["kernel"] == kernel:
            dispatch["entry_point"] = name


def _temporary(manifest: Json, offset: int, memory: int) -> None:
    buffer = {"name": "t", "kind": "temporary", "type": "f32", "shape": [8, 4], "offset": offset}
    manifest["buffers"].append(buffer)
    manifest["memory"] = memory


def _push(manifest: Json, constant: Json) -> None:
    manifest["dispatches"][0]["push_constants"] = [constant]


@pytest.mark.parametrize(
    ("message", "edit"), CONTRADICTIONS, ids=map(str, range(len(CONTRADICTIONS)))
)
def test_contradictory_manifests_are_refused(
    message: str, edit: Callable[[Json], object], saved: Path
) -> None:
    manifest = json.loads((saved / "program.json").read_text())
    edit(manifest)
    (saved / "program.json").write_text(json.dumps(manifest))
    with pytest.raises(ProgramError, match=message):
        Program.load(saved)


def test_overlapping_live_temporaries_are_refused(saved: Path) -> None:
    manifest = json.loads((saved / "program.json").read_text())
    for name in ("t", "u"):
        buffer = {"name": name, "kind": "temporary", "type": "f32", "shape": [4, 8], "offset": 0}
        manifest["buffers"].append(buffer)
    manifest["memory"] = 256
    bindings = manifest["dispatches"][0]["bindings"]
    bindings += [{"set": 1, "binding": n, "buffer": name} for n, name in enumerate("tu")]
    (saved / "program.json").write_text(json.dumps(manifest))
    with pytest.raises(ProgramError, match="overlap while both are in use"):
        Program.load(saved)


def test_an_invalid_kernel_is_refused(
    program: Program, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel is validated before a driver reads it, unless `--unsafe`."""
    path = saved / program.manifest.kernels[0].binary
    words = list(struct.iter_unpack("<I", path.read_bytes()))
    # Replaces the last OpReturn by an OpUndef without operands, so that a terminator is missing.
    words[-2] = (0x00010001,)
    path.write_bytes(b"".join(struct.pack("<I", *word) for word in words))
    with pytest.raises(ProgramError, match="the kernel is not valid"):
        Program.load(saved)
    Program.load(saved, unsafe=True)
    np.save(saved.parent / "x.npy", np.ones((4, 8), np.float32))
    arguments = ["run", str(saved), "--input", f"x={saved.parent / 'x.npy'}"]
    assert main([*arguments, "--device", "interpreter"]) == 1
    assert "the kernel is not valid" in capsys.readouterr().err


def test_a_buffer_shorter_than_its_block_is_refused(saved: Path, program: Program) -> None:
    from xdsl_spirv.runtime.agreement import Interface, _check_dispatch  # pyright: ignore

    dispatch = program.manifest.dispatches[0]
    buffers = {buffer.name: buffer for buffer in program.manifest.buffers}
    blocks = {(b.set, b.binding): 4 * 8 * 4 for b in dispatch.bindings}
    _check_dispatch(dispatch, Interface((1, 1, 1), blocks, 0), buffers)
    blocks[0, 0] = 4 * 8 * 4 + 1
    with pytest.raises(ProgramError, match="the kernel reads 129 bytes"):
        _check_dispatch(dispatch, Interface((1, 1, 1), blocks, 0), buffers)
    with pytest.raises(ProgramError, match="reads 64 bytes of push constants, but is given 0"):
        _check_dispatch(dispatch, Interface((1, 1, 1), {}, 64), buffers)


@pytest.mark.parametrize("text", ["+".join(["1"] * 5000), "-".join(["a"] * 5000), "(" * 5000])
def test_sizes_of_thousands_of_terms_are_refused(text: str) -> None:
    from xdsl_spirv.runtime.expressions import function_of

    with pytest.raises(ProgramError):
        function_of([text], ["a"])


def test_control_characters_in_messages_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tmp_path / "\x1b[2J\x07")]) == 1
    said = capsys.readouterr().err
    assert "\\x1b[2J\\x07" in said
    assert "\x1b" not in said


def test_readers_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files above a limit are refused before they are read."""
    from xdsl_spirv import targets
    from xdsl_spirv.runtime import modules

    _large(tmp_path / "large.json")
    with pytest.raises(targets.TargetError, match=f"more than {targets.MAX_BYTES} bytes"):
        targets.load(str(tmp_path / "large.json"))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(targets.TargetError, match="not JSON"):
        targets.load(str(tmp_path / "deep.json"))
    monkeypatch.setattr(modules, "MAX_TEXT_BYTES", 1000)
    (tmp_path / "long.mlir").write_text("// x\n" * 1000)
    with pytest.raises(ProgramError, match="more than 1,000 bytes"):
        modules.parse(tmp_path / "long.mlir")
    with pytest.raises(ProgramError, match="more than 1,000 bytes"):
        modules.parse("/dev/zero")


def test_deeply_nested_brackets_are_refused(saved: Path) -> None:
    (saved / "layers.json").write_text('{"layers": ' + "[" * 100_000)
    with pytest.raises(ProgramError, match=r"not JSON: .*layers.json"):
        Program.load(saved)


def test_a_constant_expression_is_a_valid_push_constant(saved: Path) -> None:
    manifest = json.loads((saved / "program.json").read_text())
    assert outcome(saved, manifest) == "ran"
    _push(manifest, {"offset": 0, "type": "ui32", "value": "7 * 2"})
    assert outcome(saved, manifest) == "ran"
    _push(manifest, {"offset": 0, "type": "ui32", "value": "n"})
    assert outcome(saved, manifest) == "refused"
