"""
Compares a shader before and after an optimizer: the interpreter must give the same memory.

Each binary runs directly, and again after decoding and encoding. Buffers have generated contents,
so that every shader whose only resources are buffers and push constants can run.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import Float32Type, VectorType
from xdsl.ir import Attribute

from xdsl_spirv.dialects.spirv.structure import EntryPointOp, ModuleOp, ModuleVariable
from xdsl_spirv.dialects.spirv.types import ArrayType, MatrixType, RuntimeArrayType, StructType
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.testing.differential.types import Array
from xdsl_spirv.testing.structured_flow import KEYS, TABLE
from xdsl_spirv.tools.khronos import spirv_val, tool

BYTES = 1 << 14
"""Size of a generated buffer in bytes."""
STEPS = 200_000
"""Limit of executed blocks. Loop counts that come from generated values may be large."""

OPTIONS = Options(robust=True, max_steps=STEPS)

Place = tuple[int, int] | tuple[int, int, int]


class CompileError(Exception):
    """Raised if a tool refuses a shader."""


@dataclass(frozen=True)
class Case:
    """A shader's binary and its buffers."""

    binary: bytes
    buffers: Mapping[Place, Array]
    push_constants: bytes = b""


def compile_glsl(glslang: Sequence[str], source: Path, env: str = "vulkan1.1") -> bytes:
    """Returns the binary of a GLSL shader. Raises `CompileError`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.spv"
        command = [*glslang, "-V", "--amb", "--target-env", env, str(source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, check=False, cwd=source.parent)
        if done.returncode:
            raise CompileError(done.stdout.decode(errors="replace"))
        return out.read_bytes()


def optimize(binary: bytes, passes: Sequence[str]) -> bytes:
    """Returns a binary after spirv-opt's passes. Raises `CompileError`, `ToolMissing`."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "a.spv", Path(folder) / "b.spv"
        before.write_bytes(binary)
        command = [tool("spirv-opt"), *passes, str(before), "-o", str(after)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise CompileError(done.stderr.decode(errors="replace"))
        return after.read_bytes()


def generated_case(binary: bytes) -> Case:
    """Returns the shader that `structured_flow.generate` makes, with its buffers."""
    keys, table = np.array(KEYS, np.uint32), np.array(TABLE, np.uint32)
    return Case(binary, {(0, 0): keys, (0, 1): table, (0, 2): np.zeros(32, np.uint32)})


def made_up_case(binary: bytes, seed: int = 0) -> Case:
    """
    Returns any shader with made-up buffers. Buffers of a float type contain floats. Other buffers
    contain small integers.
    """
    rng = np.random.default_rng(seed)
    buffers: dict[Place, Array] = {}
    for op in decode(binary).body.block.ops:
        if not isinstance(op, ModuleVariable):
            continue
        if op.binding is not None and op.descriptor_set is not None:
            words = rng.integers(0, 16, BYTES // 4).astype(np.uint32)
            floats = rng.integers(1, 16, BYTES // 4).astype(np.float32) / 4
            place = (op.descriptor_set.value.data, op.binding.value.data)
            is_float = np.zeros(BYTES // 4, np.bool_)
            _mark_floats(op.object_type, is_float)
            buffers[place] = np.where(is_float, floats.view(np.uint32), words)
    return Case(binary, buffers, bytes(256))


def _mark_floats(type: Attribute | None, words: Array) -> None:
    """Marks in `words` which words of a value of the type are binary32 floats."""
    if not len(words):
        return
    match type:
        case VectorType():
            components = words[: type.get_shape()[0]]
            components[:] = type.get_element_type() == Float32Type()
        case MatrixType():
            words[:] = type.column_type.get_element_type() == Float32Type()
        case StructType():
            for offset, member in zip(type.offsets, type.member_types, strict=False):
                _mark_floats(member, words[offset.data // 4 :])
        case ArrayType() | RuntimeArrayType():
            stride = max(type.stride.data // 4, 1)
            _mark_floats(type.element_type, words[:stride])
            whole = len(words) // stride * stride
            words[:whole].reshape(-1, stride)[:] = words[:stride]
        case _:
            words[:1] = isinstance(type, Float32Type)


def run(
    case: Case, binary: bytes | None = None, options: Options = OPTIONS
) -> Mapping[Place, Array]:
    """Returns the memory after one workgroup of the first entry point."""
    return run_module(case, decode(case.binary if binary is None else binary), options)


def run_module(
    case: Case, module: ModuleOp, options: Options = OPTIONS, name: str | None = None
) -> Mapping[Place, Array]:
    """
    Runs a module like `run`, without decoding it. `name` selects an entry point other than the
    first.
    """
    module.verify()
    buffers = {place: array.copy() for place, array in case.buffers.items()}
    entry = next(op for op in module.body.block.ops if isinstance(op, EntryPointOp))
    name = name or entry.fn.root_reference.data
    dispatch(module, name, (1, 1, 1), buffers, push_constants=case.push_constants, options=options)
    return buffers


def differences(case: Case, optimized: bytes, expected: Mapping[Place, Array]) -> list[str]:
    """Returns the problems of an optimized binary, before and after re-encoding."""
    found: list[str] = []
    module = decode(optimized)
    again = encode(module)
    if not spirv_val(optimized) and (refused := spirv_val(again)):
        found.append(f"spirv-val refuses the re-encoded binary: {refused}")
    for what, results in (
        ("optimized", run_module(case, module)),
        ("re-encoded", run(case, again)),
    ):
        for place, array in expected.items():
            if not same(results[place], array):
                found.append(f"{what}: buffer {place} differs")
    return found


def same(one: Array, other: Array) -> bool:
    """True if two buffers have equal words. Floats may differ by a few units in the last place."""
    if np.array_equal(one, other):
        return True
    if one.dtype != np.uint32:
        return False
    wrong = one != other
    a, b = one[wrong].view(np.float32), other[wrong].view(np.float32)
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True))
