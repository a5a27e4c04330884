"""Races, bounds and undefined values of images are found. Each bug has a correct counterpart."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from xdsl_spirv.interpreter import Image, InterpreterError, Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.serialization.decode.decoder import decode

SOURCE = """#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 0) const int mode = 0;
layout(binding = 0, r32ui) uniform coherent uimage2D a;
layout(binding = 1, r32ui) uniform uimage2D images[2];
layout(binding = 2) uniform utexture2D c;
void main() {
  ivec2 p = ivec2(gl_LocalInvocationID.xy), q = 7 - p;
  uint id = gl_LocalInvocationIndex;
  uvec4 unset;
  if (mode == 0 || mode == 1) {
    imageStore(a, p, uvec4(id));
    if (mode == 1) { memoryBarrierImage(); barrier(); }
    imageStore(images[0], p, imageLoad(a, q));
  } else if (mode == 2) imageStore(a, p / 2, uvec4(id));
  else if (mode == 3) imageAtomicAdd(a, p / 2, id);
  else if (mode == 4) imageStore(images[0], p, imageLoad(a, p + 1));
  else if (mode == 5) imageStore(images[1], p + 1, uvec4(id));
  else if (mode == 6) imageAtomicMax(a, p - 1, id);
  else if (mode == 7) imageStore(a, p, unset);
  else if (mode == 8) imageStore(a, ivec2(unset.xy), uvec4(id));
}
"""
IMAGE = Image("r32ui", (8, 8))
PLACES = [(0, 0), (0, 1, 0), (0, 1, 1), (0, 2)]


@cache
def _binary(command: tuple[str, ...]) -> bytes:
    with TemporaryDirectory() as folder:
        path, binary = Path(folder, "k.comp"), Path(folder, "k.spv")
        path.write_text(SOURCE)
        subprocess.run([*command, "-V", "-o", binary, path], check=True, capture_output=True)
        return binary.read_bytes()


@pytest.mark.parametrize(
    ("mode", "robust", "rules"),
    [
        (0, False, {"RACE-01"}),
        (1, False, set[str]()),
        (2, False, {"RACE-01", "OVERLAP-01"}),
        (3, False, set[str]()),
        (4, False, {"BOUNDS-01"}),
        (4, True, set[str]()),
        (5, False, {"BOUNDS-05"}),
        (5, True, set[str]()),
        (6, False, {"BOUNDS-01"}),
        (6, True, set[str]()),
        (7, False, {"UNDEF-01"}),
        (8, False, {"UNDEF-01"}),
    ],
)
def test_findings(glslang: list[str], mode: int, robust: bool, rules: set[str]):
    checks = Checks.all()
    buffers = {place: np.zeros((8, 8), np.uint32) for place in PLACES}
    images = dict.fromkeys(PLACES, IMAGE)
    dispatch(
        *(decode(_binary(tuple(glslang))), "main", (1, 1, 1), buffers, {0: mode}),
        options=Options(checks=checks, robust=robust),
        images=images,
    )
    assert {finding.rule for finding in checks.report} - {"SCHED-01"} == rules, str(checks.report)
    assert mode != 7 or "the value stored to the image `a`" in str(checks.report)


def test_a_read_outside_is_refused_without_checks_and_a_store_is_dropped(glslang: list[str]):
    module = decode(_binary(tuple(glslang)))
    buffers = {place: np.full((8, 8), 9, np.uint32) for place in PLACES}
    images = dict.fromkeys(PLACES, IMAGE)
    with pytest.raises(InterpreterError, match=r"a read at \[8, 1\] is outside the image `a`"):
        dispatch(module, "main", (1, 1, 1), buffers, {0: 4}, images=images)
    dispatch(module, "main", (1, 1, 1), buffers, {0: 5}, images=images)
    assert (buffers[0, 1, 1][0] == 9).all()
    assert buffers[0, 1, 1][1:, 1:].tolist() == np.arange(64).reshape(8, 8)[:7, :7].tolist()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (None, "got no image or sampler for it"),
        (Image("rgba8ui", (8, 8)), "is of format R32ui, but is described as Rgba8ui"),
        (Image("r32ui", (64,)), "has 2 dimensions"),
        (Image("r32ui", (8, 9)), "takes 288 bytes, but its array has 256"),
        (Image("r32ui", (8, 4), layers=2), "is not an array, but is described with 2 layers"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(
    glslang: list[str], image: Image | None, message: str
):
    buffers = {place: np.zeros((8, 8), np.uint32) for place in PLACES}
    images = {place: IMAGE for place in PLACES} | ({} if image is None else {(0, 0): image})
    if image is None:
        del images[0, 0]
    with pytest.raises(InterpreterError, match=message):
        dispatch(decode(_binary(tuple(glslang))), "main", (1, 1, 1), buffers, images=images)
