"""
Recursive structs, also through arrays, and the instructions that name them survive round trips.

Each struct is declared once in a binary and stays one declaration, whichever struct is decoded
first.
"""

from __future__ import annotations

import random
from typing import cast

import pytest
from xdsl.parser import Parser

from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.dialects.spirv.types import PointerType, StructType
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.tools.khronos import spirv_val

HEAD = """OpCapability Shader
OpCapability PhysicalStorageBufferAddresses
OpMemoryModel PhysicalStorageBuffer64 GLSL450
OpEntryPoint GLCompute %main "main" {roots}
OpExecutionMode %main LocalSize 1 1 1
"""


def write_module(seed: int, named: bool) -> str:
    """Returns assembly with a few structs whose members point to structs or arrays of them."""
    rng = random.Random(seed)
    count = rng.randint(1, 4)
    structs = [f"s{n}" for n in range(count)]
    pointers = [f"p_{struct}" for struct in structs]
    # A struct may point to an array of an earlier struct.
    arrays = {f"a_{s}": s for s in structs[1:] if rng.random() < 0.4}
    rows = {f"r{n}": rng.choice(pointers) for n in range(rng.randint(0, 2))}
    members = {
        s: rng.choices(
            [*pointers, *rows, *(f"p_{a}" for a, held in arrays.items() if held < s)],
            k=rng.randint(1, 3),
        )
        for s in structs
    }
    lines = [f'OpName %{s} "{s}"' for s in structs if named]
    blocks = [s for s in structs if s not in arrays.values()]
    lines += [f"OpDecorate %{s} Block" for s in blocks]
    lines += [
        f"OpMemberDecorate %{s} {n} Offset {64 * n}"
        for s in structs
        for n in range(len(members[s]))
    ]
    lines += [f"OpDecorate %{a} ArrayStride 256" for a in arrays]
    lines += [f"OpDecorate %{r} ArrayStride 8" for r in rows]
    roots = [f"v{s}" for s in rng.sample(blocks, k=rng.randint(1, len(blocks)))]
    lines += [f"OpDecorate %{v} {d} 0" for v in roots for d in ("DescriptorSet", "Binding")]
    lines += ["%void = OpTypeVoid", "%f = OpTypeFunction %void", "%int = OpTypeInt 32 0"]
    lines += ["%four = OpConstant %int 4"]
    lines += [f"OpTypeForwardPointer %{p} PhysicalStorageBuffer" for p in pointers]
    lines += [f"%{r} = OpTypeArray %{p} %four" for r, p in rows.items()]
    for s in structs:
        lines += [f"%{s} = OpTypeStruct {' '.join('%' + m for m in members[s])}"]
        for held in [s, f"a_{s}"] if f"a_{s}" in arrays else [s]:
            lines += [f"%{held} = OpTypeArray %{s} %four"] * (held != s)
            lines += [f"%p_{held} = OpTypePointer PhysicalStorageBuffer %{held}"]
    for root in roots:
        lines += [f"%q{root} = OpTypePointer StorageBuffer %{root[1:]}"]
        lines += [f"%{root} = OpVariable %q{root} StorageBuffer"]
    head = HEAD.format(roots=" ".join("%" + v for v in roots))
    body = ["%main = OpFunction %void None %f", "%l = OpLabel", "OpReturn", "OpFunctionEnd"]
    return "; Version: 1.5\n" + head + "\n".join([*lines, *body])


@pytest.mark.parametrize("named", [True, False])
def test_structs_that_point_to_each_other_survive_round_trips(named: bool) -> None:
    for seed in range(40):
        given = assemble(write_module(seed, named)).encode()
        module = decode(given)
        module.verify()
        once = encode(module)
        assert encode(decode(once)) == once, seed
        printed = Parser(context(), str(module)).parse_module()
        (read,) = printed.body.block.ops
        assert isinstance(read, ModuleOp)
        assert encode(read) == once, seed
        if seed % 8 == 0:
            assert not spirv_val(given, "vulkan1.2"), seed
            assert not spirv_val(once, "vulkan1.2"), seed


def test_a_member_has_the_declaration_of_its_struct() -> None:
    to_a = "!spirv.ptr<!spirv.struct<A>, Generic>"
    text = f"!spirv.struct<A, (!spirv.ptr<!spirv.struct<B, ({to_a})>, Generic>)>"
    a = Parser(context(), text).parse_type()
    assert isinstance(a, StructType)
    (to_b,) = cast("tuple[PointerType]", a.member_types)
    b = to_b.pointee
    assert isinstance(b, StructType)
    assert b.member_types == (PointerType(a, StorageClass.Generic),)
