"""Amber scripts are parsed, and errors name unsupported parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.testing import vkscript
from xdsl_spirv.testing.amber import Expectation, Run, Unsupported, Write, failures, parse

SCRIPT = """#!amber
SHADER compute shader GLSL
#version 450
void main() {}
END
STRUCT S
  uint32 a
  vec3<float> b
  float c[2]
END
BUFFER plain DATA_TYPE int32 DATA 1 -2
  0x10 END
BUFFER series DATA_TYPE uint8 SIZE 3 SERIES_FROM 5 INC_BY 2
BUFFER file DATA_TYPE int32 SIZE 3 FILE TEXT numbers.txt
BUFFER half DATA_TYPE float16 DATA 1.9999 END
BUFFER mixed DATA_TYPE S DATA 7 1 2 3 4 5 END
PIPELINE compute pipeline
  ATTACH shader ENTRY_POINT other \\
    SPECIALIZE 3 AS uint32 4
  SUBGROUP shader
    REQUIRED_SIZE 16
  END
  BIND BUFFER plain AS storage DESCRIPTOR_SET 1 BINDING 2
  BIND BUFFER mixed AS push_constant
END
REPEAT 2
  RUN pipeline 4 5 6
END
EXPECT plain IDX 4 EQ -2 16
EXPECT plain IDX 0 LT 1
EXPECT mixed IDX 0 TOLERANCE 50% EQ 7 1.4 2 9
"""


def test_a_script_is_parsed(tmp_path: Path):
    (tmp_path / "numbers.txt").write_text("# Numbers\n3 0x4\n-5 6\n")
    script = parse(SCRIPT, tmp_path)
    assert script.buffers["file"].data.view(np.int32).tolist() == [3, 4, -5]
    buffers = script.buffers
    assert buffers["plain"].data.view(np.int32).tolist() == [1, -2, 16]
    assert buffers["series"].data.tolist() == [5, 7, 9]
    # Amber truncates the mantissa of f16.
    assert buffers["half"].data.view(np.float16)[0] == np.float16(1.999)
    assert buffers["mixed"].data.nbytes == 48
    assert buffers["mixed"].data.view(np.float32)[[4, 5, 6, 7, 8]].tolist() == [1, 2, 3, 4, 5]
    pipeline = script.pipelines["pipeline"]
    assert (pipeline.entry, pipeline.constants, pipeline.push) == ("other", {3: 4}, "mixed")
    assert (pipeline.bound, pipeline.subgroup_size) == ({(1, 2): ("plain", 0)}, 16)
    assert script.commands[:2] == [Run("pipeline", (4, 5, 6))] * 2
    right, less, near = script.commands[2:]
    assert list(failures(script, right)) == []  # pyright: ignore
    assert "is 1, not LT 1" in next(failures(script, less))  # pyright: ignore
    assert len(list(failures(script, near))) == 1  # pyright: ignore


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("SHADER vertex v GLSL", "a vertex shader"),
        ("IMAGE texture FORMAT x", "IMAGE x"),
        ("BUFFER b DATA_TYPE int32 SIZE 3 FILE TEXT x.txt", "the file x.txt is missing"),
        ("EXPECT plain EQ_RGB 1", "EXPECT EQ_RGB"),
        ("BUFFER b DATA_TYPE R8_SRGB DATA 1 END", "the type R8_SRGB"),
    ],
)
def test_unsupported_parts_are_refused(line: str, reason: str):
    with pytest.raises(Unsupported, match=reason):
        parse(SCRIPT.replace("FILE TEXT numbers.txt", "FILL 0") + line + "\n")


VKSCRIPT = """[require]
shaderInt64
[compute shader spirv]
OpCapability Shader
[test]
compute entrypoint other
ssbo 1:2 3
ssbo 1:2 subdata uint 4 7 0x10
uniform ubo 3 mat3x2 0 1 2 \\
  3 4 5 6
uniform vec3 0 1 2 3
compute 4 5 6
probe ssbo uint 1:2 4 == 7 17
tolerance 50%
probe ssbo vec2 0:4 0 ~= 1.0 0.0
ssbo 1:2 subdata uint 0 1  # behind a run
"""


def test_a_script_in_the_older_language_is_parsed():
    script = vkscript.parse(VKSCRIPT)
    pipeline = script.pipelines["pipeline"]
    assert (pipeline.entry, pipeline.push) == ("other", "push constants")
    assert pipeline.bound == {(1, 2): ("1:2", 0), (0, 3): ("0:3", 0), (0, 4): ("0:4", 0)}
    assert script.shaders["shader"].text == "\nOpCapability Shader\n"
    sizes = {name: buffer.data.nbytes for name, buffer in script.buffers.items()}
    # Three elements of four bytes; columns padded to 16 by STD140; the last column is a vec3.
    assert sizes == {"1:2": 12, "0:3": 48, "push constants": 16, "0:4": 8}
    kinds = [Write, Write, Write, Run, Expectation, Expectation, Write]
    assert [type(command) for command in script.commands] == kinds
    written, columns, _, _, probe, near, _ = script.commands
    assert isinstance(written, Write)
    assert written.data.view(np.uint32).tolist() == [7, 16]
    assert isinstance(columns, Write)
    assert columns.data.view(np.float32)[[0, 1, 4, 5, 8, 9]].tolist() == [1, 2, 3, 4, 5, 6]
    assert isinstance(probe, Expectation)
    assert isinstance(near, Expectation)
    script.buffers["1:2"].data.view(np.uint32)[1:] = 7, 16
    assert list(failures(script, probe)) == ["line 13: 1:2 at byte 8 is 16, not EQ 17"]
    assert len(list(failures(script, near))) == 1
    script.buffers["0:4"].data.view(np.float32)[0] = 1.4
    assert not list(failures(script, near))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[vertex shader]\n", "[vertex shader]"),
        ("[test]\nclear color 1 1 1 1\n", "clear color"),
        ("[test]\nssbo 0 subdata quat 0 1\n", "the type quat"),
        ("[test]\ncompute 1 1 1\ncompute entrypoint a\n", "an entry point after a run"),
    ],
)
def test_unsupported_parts_of_the_older_language_are_refused(text: str, what: str):
    with pytest.raises(Unsupported) as error:
        vkscript.parse(text)
    assert str(error.value).endswith(f"{what} is not supported")
