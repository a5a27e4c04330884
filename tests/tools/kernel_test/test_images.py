"""Kernel tests and launches support images and samplers, and find races on texels."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.kernels.launch import launch
from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.main import main

Run = Callable[..., list[Outcome]]

KERNEL = """#version 450
layout(local_size_x = 4, local_size_y = 2) in;
layout(binding = 0) uniform sampler2D picture;
layout(binding = 1, r32f) uniform writeonly image2DArray layers;
layout(binding = 2) uniform texture2D plain;
layout(binding = 3) uniform sampler nearest;
void main() {
    ivec2 p = ivec2(gl_LocalInvocationID.xy);
    vec2 place = (vec2(p) + 0.5) / vec2(4, 2);
    imageStore(layers, ivec3(p, 0), textureLod(picture, place, 0).yyyy);
    imageStore(layers, ivec3(p, 2), textureLod(sampler2D(plain, nearest), place, 0));
}
"""
TEST = """grid = 1
[buffers.picture]
format = "rg8"
size = [4, 2]
content = "random"
sampler = { mag = "linear", address = "repeat" }
[buffers.plain]
format = "r16f"
size = [4, 2]
content = "range"
[buffers.nearest]
sampler = {}
[buffers.layers]
size = [4, 2, 3]
content = "ones"
expect = "stack([picture[:, :, 1] / 255, full((2, 4), 1), plain])"
tolerance = 1e-6
"""


def test_samplers_layers_and_formats(run_glsl: Run):
    (outcome,) = run_glsl(KERNEL, TEST)
    assert outcome.passed, outcome
    assert outcome.compared == 24


def test_init_chooses_formats_of_the_components_type(glslang: list[str], tmp_path: Path):
    kernel = tmp_path / "x.comp"
    kernel.write_text("""#version 450
        layout(binding = 0) uniform usampler2D naturals;
        layout(binding = 1) uniform isampler2D integers;
        layout(binding = 2) buffer Sums { ivec4 sums; };
        void main() {
            sums = ivec4(texelFetch(naturals, ivec2(0), 0)) + texelFetch(integers, ivec2(0), 0);
        }""")
    assert main(["test", str(kernel), "--init"]) == 0
    assert main(["test", str(kernel)]) == 0
    formats = re.findall('format = "(.*)"', kernel.with_suffix(".kernel.toml").read_text())
    assert formats == ["rgba8ui", "rgba8i"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size = [4, 2, 3]\n", "", r"an image \(2D\): it needs a size of 3 numbers; write"),
        ("size = [4, 2, 3]", "size = [4, 2]", r"size = .*# WIDTH, HEIGHT, LAYERS"),
        ('format = "rg8"\n', "", r"it needs a format; write\n *format = "),
        ('"rg8"', '"rg9"', "the image format 'rg9' does not exist"),
        ("sampler = {}", 'content = "zeros"', "nearest is a sampler: a sampler has no texels"),
        ("size = [4, 2, 3]", 'format = "r8"\nsize = [4, 2, 3]', "the test describes Image"),
        ('mag = "linear"', 'mag = "cubic"', r"a sampler's mag cannot be 'cubic'"),
        ('"repeat"', '["repeat"]', "3 address modes, not 1"),
        ("[buffers.nearest]\nsampler = {}\n", "", r"describe it:\n *\[buffers.nearest\]"),
    ],
)
def test_a_wrong_description_is_refused_by_name(
    run_glsl: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    old: str, new: str, message: str,
):  # fmt: skip
    (tmp_path / "x.comp").write_text(KERNEL)
    assert old in TEST
    (tmp_path / "x.kernel.toml").write_text('kernel = "x.comp"\n' + TEST.replace(old, new))
    assert main(["test", str(tmp_path / "x.comp")]) == 2
    assert re.search(message, capsys.readouterr().out)


def test_a_race_on_a_texel_is_found_at_its_line(
    run_glsl: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = """#version 450
layout(local_size_x = 2) in;
layout(binding = 0, r32ui) uniform uimage2D a;
void main() {
    imageStore(a, ivec2(3, 1), uvec4(gl_LocalInvocationID.x));
}
"""
    (tmp_path / "x.comp").write_text(source)
    command = ["test", str(tmp_path / "x.comp"), "--grid", "1", "--buffer"]
    assert main([*command, "a=r32ui:4x2:zeros"]) == 1
    found = capsys.readouterr().out
    assert "RACE-01" in found
    assert "x.comp:5: imageStore(a" in found
    right = source.replace("ivec2(3, 1)", "ivec2(gl_LocalInvocationID.x, 1)")
    (tmp_path / "x.comp").write_text(right)
    expect = ["--expect", "a=where(arange(8) == 5, 1, 0)"]
    assert main([*command, "a=:4x2:zeros", *expect]) == 0


def test_launch_takes_images(glslang: list[str], tmp_path: Path):
    (tmp_path / "x.comp").write_text(KERNEL)
    picture = np.arange(16, dtype=np.uint8).reshape(2, 4, 2)
    plain = np.arange(8, dtype=np.float16).reshape(2, 4)
    buffers = {"picture": picture, "plain": plain, "layers": np.zeros((3, 2, 4), np.float32)}
    images = {
        "picture": Image("rg8", (4, 2), sampler=Sampler()),
        "plain": Image("r16f", (4, 2)),
        "layers": Image("r32f", (4, 2), layers=3),
        "nearest": Sampler(),
    }
    layers = launch(tmp_path / "x.comp", 1, buffers, images=images)["layers"]
    assert np.array_equal(layers, [picture[..., 1] / np.float32(255), 0 * plain, plain])
    for wrong in ({"plain": Image("r16f", (8,))}, {"picture": Image("rg8", (4, 2))}):
        with pytest.raises(KernelError, match="but Image"):
            launch(tmp_path / "x.comp", 1, buffers, images={**images, **wrong})
    with pytest.raises(KernelError, match=r"'picture' is an image .* None is given"):
        launch(tmp_path / "x.comp", 1, buffers)
