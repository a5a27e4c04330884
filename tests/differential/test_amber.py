"""The reader of Amber's language: data, layouts, expectations, and refusals by name."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.testing.amber import Run, Unsupported, failures, parse

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


def test_a_script():
    script = parse(SCRIPT)
    buffers = script.buffers
    assert buffers["plain"].data.view(np.int32).tolist() == [1, -2, 16]
    assert buffers["series"].data.tolist() == [5, 7, 9]
    # Amber cuts a half's mantissa off.
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
        ("BUFFER b DATA_TYPE int32 SIZE 3 FILE TEXT x.txt", "BUFFER SIZE"),
        ("EXPECT plain EQ_RGB 1", "EXPECT EQ_RGB"),
        ("BUFFER b DATA_TYPE R8_SRGB DATA 1 END", "the type R8_SRGB"),
    ],
)
def test_the_rest_is_refused(line: str, reason: str):
    with pytest.raises(Unsupported, match=reason):
        parse(SCRIPT + line + "\n")
