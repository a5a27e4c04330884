"""
Plants failures in large kernels and models. Each has a small counterpart with the same failure.

    python -m xdsl_spirv.testing.seeded_failures kernel OpFDiv x.spv   # a tool: status 3 if wrong

Tests of `xdsl-spirv reduce` compare its results with the small counterparts, which are
handwritten.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HEAD = """#version 450
#extension GL_KHR_shader_subgroup_basic : enable
#extension GL_KHR_shader_subgroup_shuffle : enable
layout(local_size_x = {size}) in;
layout(binding = 0) buffer A {{ float a[]; }};
layout(binding = 1) buffer B {{ float b[]; }};
"""
SHARED = "shared float s[64]; shared float t[64]; shared uint u[64];\n"
FUNCTIONS = """
float f(float x) { float r = 1.0; for (int i = 0; i < 4; i++) r = r * 0.5 + x; return r; }
float g(vec4 v) { return dot(v, vec4(0.25)); }
"""
BODY = "void main() {{ uint l = gl_LocalInvocationID.x; uint i = gl_GlobalInvocationID.x;\n{}}}\n"
LAUNCH = ("--grid", "2", "--buffer", "A=f32:128:random", "--buffer", "B=f32:128:zeros")


@dataclass(frozen=True)
class Seed:
    """
    A planted failure: statements for a large kernel, and a small kernel with the same failure.
    """

    planted: str
    small: str
    size: int = 2


FINDINGS: Mapping[str, Seed] = {
    "RACE-01: a read": Seed(
        "t[l] = {x}; float w = t[63u - l];",
        "shared float t[2]; void main() { uint l = gl_LocalInvocationID.x; t[l] = a[0]; "
        "b[l] = t[1u - l]; }",
    ),
    "OVERLAP-01": Seed(
        "u[l >> 1] = l; float w = {x};",
        "shared uint u; void main() { u = gl_LocalInvocationID.x; b[0] = 0.0; }",
    ),
    "BOUNDS-01": Seed(
        "float w = {x}; if ({x} > -1000.0) { w += a[i + 100000u]; }",
        "void main() { b[0] = a[100000]; }",
        1,
    ),
    "UNDEF-04": Seed(
        "int d = int(l) / (int({x}) - int({x})); float w = float(d);",
        "void main() { int d = int(a[0]); b[0] = float(1 / (d - d)); }",
        1,
    ),
    "UNDEF-03": Seed(
        "float w = {x} + float(1u << (l + 40u));",
        "void main() { b[0] = float(1u << (uint(a[0]) + 40u)); }",
        1,
    ),
    "BARRIER-01": Seed(
        "float w = {x}; if (l < 7u) { barrier(); }",
        "void main() { if (gl_LocalInvocationID.x < 1u) { barrier(); } b[0] = 0.0; }",
    ),
    "UNDEF-01": Seed(
        "float z; float w = {x}; if (z > w) { w = 1.0; }",
        "void main() { float z; if (z > 0.0) { b[0] = 1.0; } }",
        1,
    ),
    "BOUNDS-02": Seed(
        "float q[4]; for (int k = 0; k < 4; k++) { q[k] = {x}; } float w = q[l & 7u];",
        "void main() { float q[4]; b[0] = q[gl_LocalInvocationID.x + 4u]; }",
        1,
    ),
}
"""Maps the start of a finding's text to the planted failure that causes the finding."""


def large_kernel(planted: str, seed: int, statements: int = 120) -> str:
    """Returns a kernel of random statements with the planted statements in the middle."""
    rng = random.Random(seed)
    lines: list[str] = ["float x = a[i];"]
    names = ["x"]
    for i in range(statements):
        a, b = rng.choice(names[-12:]), rng.choice(names[-12:])
        lines.append(rng.choice(STATEMENTS).format(v=f"v{i}", a=a, b=b))
        names.append(f"v{i}")
        if i == statements // 2 and planted:
            lines.append(f"{planted.replace('{x}', names[-1])} b[i] = w;")
            names.append("w")
    body = "\n".join((*lines, f"b[i] = {names[-1]};\n"))
    return HEAD.format(size=64) + SHARED + FUNCTIONS + BODY.format(body)


STATEMENTS = (
    "float {v} = {a} * 0.5 + {b};",
    "float {v} = max({a}, {b});",
    "float {v} = {a}; if ({b} > 0.0) {{ {v} = {b} - 1.0; }} else {{ {v} += 2.0; }}",
    "float {v} = 0.0; for (uint j = 0u; j < 3u; j++) {{ {v} += {a} * float(j); "
    "if ({v} > 100.0) break; }}",
    "float {v} = f({a}) + g(vec4({b}));",
    "s[l] = {a}; barrier(); float {v} = s[63u - l]; barrier();",
)


def small_kernel(seed: Seed) -> str:
    """Returns the complete small kernel of a planted failure."""
    return HEAD.format(size=seed.size) + seed.small + "\n"


# Tools with a bug

SWAPPED = {
    "OpFDiv": "OpFMul",
    "OpISub": "OpIAdd",
    "OpUMod": "OpUDiv",
    "OpULessThan": "OpUGreaterThanEqual",
}
"""Maps instructions to the instructions by which the faulty tool replaces them."""
WRONG: Mapping[str, Seed] = {
    "OpFDiv": Seed("float w = {x} / 3.0;", "void main() { b[0] = a[0] / 3.0; }", 1),
    "OpISub": Seed(
        "float w = {x}; for (int k = 0; k < 3; k++) { w += float(int(l) - k); }",
        "void main() { b[0] = float(int(a[0]) - 3); }",
        1,
    ),
    "OpUMod": Seed(
        "float w = {x} + float(l % 5u);", "void main() { b[0] = float(uint(a[0]) % 5u); }"
    ),
    "OpULessThan": Seed(
        "uint n = l * 3u; float w = {x}; if (n < 40u) { w = w + 1.0; }",
        "void main() { if (uint(a[0]) < 4u) { b[0] = 1.0; } }",
        1,
    ),
}
CRASHES: Mapping[str, Seed] = {
    "OpExtInst .* Sin ": Seed("float w = sin({x});", "void main() { b[0] = sin(a[0]); }", 1),
    "OpBitReverse": Seed(
        "float w = {x} + float(bitfieldReverse(l));",
        "void main() { b[0] = float(bitfieldReverse(uint(a[0]))); }",
        1,
    ),
    "OpLoopMerge": Seed(
        "float w = {x}; for (uint k = l; k < 9u; k += 7u) { w *= fract(w); }",
        "void main() { float w = a[0]; while (w > 0.0) { w = fract(w); } b[0] = w; }",
        1,
    ),
    "OpAtomicIAdd": Seed(
        "float w = {x} + float(atomicAdd(u[l], 1u));",
        "shared uint u; void main() { b[0] = float(atomicAdd(u, 1u)); }",
        1,
    ),
}
"""
Maps a pattern of a kernel's text to a planted failure. The faulty tool crashes if the pattern
occurs.
"""


def is_wrong(path: str, op: str) -> bool:
    """
    True if results change when a tool replaces the instruction `op` of a kernel by another one.
    """
    from xdsl_spirv.grammar import grammar
    from xdsl_spirv.interpreter import InterpreterError, dispatch
    from xdsl_spirv.serialization.decode.decoder import decode as decode_module
    from xdsl_spirv.serialization.raw.binary import RawModule, decode

    data = Path(path).read_bytes()
    raw = decode(data)
    old, new = (grammar().instruction(name).opcode for name in (op, SWAPPED[op]))
    rows = [
        [row[0] & ~0xFFFF | new, *row[1:]] if row[0] & 0xFFFF == old else row for row in raw.rows()
    ]
    results: list[Any] = []
    for binary in (data, RawModule.build(raw.header, rows).encode()):
        values = np.random.default_rng(0).random(128, np.float32) + 1
        buffers = {(0, 0): values, (0, 1): np.zeros(128, np.float32)}
        try:
            dispatch(decode_module(binary), "main", (2, 1, 1), buffers)
        except InterpreterError:
            # The replaced instruction may read out of bounds.
            return bool(results)
        results.append(buffers)
    return any(not np.array_equal(results[0][at], results[1][at], True) for at in results[0])


def is_wrong_of_model(path: str, op: str) -> bool:
    """True if a model's results change when its nodes `op` are replaced by Identity."""
    import onnx
    import onnxruntime  # pyright: ignore[reportMissingTypeStubs]

    model = onnx.load(path)
    results: list[Any] = []
    for wrong in (False, True):
        for node in model.graph.node if wrong else ():
            if node.op_type == op:
                node.op_type = "Identity"
                node.ClearField("attribute")
        session = onnxruntime.InferenceSession(model.SerializeToString())
        rng = np.random.default_rng(0)
        inputs = {i.name: rng.standard_normal(i.shape).astype("f4") for i in session.get_inputs()}
        results.append(session.run(None, inputs))
    return any(not np.allclose(a, b) for a, b in zip(*results, strict=True))


def large_model(op: str, layers: int = 60) -> Any:
    """Returns a model of random layers with a node `op` in the middle."""
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(len(op))
    nodes: list[Any] = []
    stored: list[Any] = []
    x = "x"
    for i in range(layers):
        weight = rng.standard_normal((16, 16)).astype(np.float32) / 4
        stored.append(numpy_helper.from_array(weight, f"w{i}"))
        kind = op if i == layers // 2 else ("Tanh", "Sigmoid", "Softplus")[i % 3]
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node(kind, [f"m{i}"], [f"a{i}"]))
        nodes.append(helper.make_node("Add", [f"a{i}", x], [f"x{i}"]))
        x = f"x{i}"
    ends = [helper.make_tensor_value_info(name, 1, [4, 16]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compile_glsl(text: str, path: Path) -> Path:
    """Compiles GLSL for Vulkan 1.3. Returns the binary's path."""
    from xdsl_spirv.tools.kernel_test.compilers import compile_source
    from xdsl_spirv.tools.kernel_test.description import Compile

    source = path.with_suffix(".comp")
    source.write_text(text)
    binary = path.with_suffix(".spv")
    binary.write_bytes(compile_source(source, Compile(options=("-g0",))))
    return binary


def optimize(path: Path) -> None:
    """Runs `spirv-opt -O` on a binary in place."""
    from xdsl_spirv.tools import khronos

    command = [khronos.tool("spirv-opt"), "-O", str(path), "-o", str(path)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    _, what, op, file = sys.argv
    sys.exit(3 * (is_wrong_of_model if what == "model" else is_wrong)(file, op))
