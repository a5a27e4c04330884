"""
Runs a whole ONNX model, which tells if a line of text is upright or upside down.

PP-OCR's direction classifier (53 convolutions) judges a line rendered here, once upright and once
upside down. The model is compiled for an NVIDIA H200, its kernels run on the interpreter, and the
answers are compared with onnxruntime's. Before the run, a table shows for each kernel what it
computes, its kind of instructions with the reason, and its minimum cost on that device.

    make demo            the page demo-output/classifier.html shows the table with a picture
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

TARGET = "nvidia-h200"
MODEL = "ch_ppocr_mobile_v2.0_cls_infer.onnx"
TEXT = "Which way up?"
HEIGHT, WIDTH = 48, 192
OUTPUT = Path("demo-output")

Array = np.ndarray[Any, np.dtype[Any]]


def missing() -> list[str]:
    packages = ("onnx", "onnxruntime", "rapidocr_onnxruntime", "PIL")
    return [name for name in packages if find_spec(name) is None]


def model_path() -> Path:
    spec = find_spec("rapidocr_onnxruntime")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "models" / MODEL


def render(upside_down: bool) -> Array:
    """Renders a line of text as input of the model: 1 x 3 x 48 x 192, from -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    ImageDraw.Draw(image).text((8, 8), TEXT, font=ImageFont.load_default(26), fill="black")
    if upside_down:
        image = image.rotate(180)
    image.save(OUTPUT / f"line-{'down' if upside_down else 'up'}.png")
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def main() -> int:
    if absent := missing():
        print(f"the model is skipped, because packages are not installed: {', '.join(absent)}")
        print("pip install '.[onnx]' onnxruntime pillow; see `make demo`")
        return 0
    from xdsl_spirv.compare.onnxruntime import differences, run_onnxruntime, tolerance_of
    from xdsl_spirv.compiler.model import compile_model, load_model
    from xdsl_spirv.runtime.execution import run
    from xdsl_spirv.targets import load
    from xdsl_spirv.tools.explain import original_nodes, with_times
    from xdsl_spirv.tools.explain_html import page_of
    from xdsl_spirv.tools.explain_text import text_of
    from xdsl_spirv.tools.explanation import explanation_of
    from xdsl_spirv.tools.run_times import Measured

    OUTPUT.mkdir(exist_ok=True)
    path = model_path()
    start = time.perf_counter()
    model = load_model(path, {"x.0": 1, "x.2": HEIGHT, "x.3": WIDTH})
    tolerance = tolerance_of(model.module)
    imported = time.perf_counter()
    program = compile_model(model, TARGET)
    compiled = time.perf_counter()
    program.save(OUTPUT / "classifier")
    explanation = explanation_of(
        program, MODEL, load(TARGET), original_nodes(str(path)), model.nodes
    )
    print(text_of(explanation))
    print(f"imported in {imported - start:.1f} s, compiled in {compiled - imported:.1f} s")
    passed = True
    times: list[float] = []
    for upside_down in (False, True):
        inputs = {"x": render(upside_down)}
        times.clear()
        results = run(program, inputs, times=times)
        (answer,) = results.values()
        says = "upside down" if answer[0, 1] > answer[0, 0] else "upright"
        is_right = (says == "upside down") == upside_down
        expected = run_onnxruntime(path, inputs, list(results))
        (difference,) = differences(results, expected.results, tolerance)
        print(
            f"{TEXT!r} {'upside down' if upside_down else 'upright'}: the model says {says} "
            f"({answer.max():.4f}) in {sum(times):.1f} s on the interpreter; compared with "
            f"{expected.how}: {difference}"
        )
        passed = passed and difference.passed and is_right
    page = with_times(explanation, Measured(times, "the interpreter"))
    (OUTPUT / "classifier.html").write_text(page_of(page))
    print(f"{OUTPUT}/classifier.html shows the layers; {OUTPUT}/classifier is the program")
    if not passed:
        print("error: an answer is wrong or differs from onnxruntime's", file=sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
