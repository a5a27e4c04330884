"""
Reads a page by OCR: the detector, the orientation classifier and the recogniser in sequence.

    python benchmarks/ocr.py [--image page.png] [--device interpreter|vulkan[:N]|onnxruntime]
        [--target lavapipe] [--json FILE]

The three models come from rapidocr-onnxruntime and are compiled by us. The steps between them are
written in numpy: a line is the upright bounding box of a connected component in the detector's
map. Without `--image` a page is rendered, whose last line is upside down. The same pipeline runs
with onnxruntime, and rapidocr itself if its packages are installed. The exit status is 1 if our
text differs from onnxruntime's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from model_zoo import MODELS, OCR, package_file, with_shapes, written

from xdsl_spirv.compare.onnxruntime import run_onnxruntime
from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.program import Program

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Runner: TypeAlias = Callable[[str, Array], Array]
"""A function that runs a model, given the model's name in the zoo and its input."""

TEXT = ("SPIR-V from Python", "Hello Vulkan 1.3", "Which way up?")
"""Lines of the page. The last one is rendered upside down."""

STEP = 32
"""Input sizes of the detector are multiples of this."""

THRESHOLD, SCORE, UNCLIP, SURE = 0.3, 0.5, 1.6, 0.9
"""rapidocr's values: thresholds of map and box mean, growth of a box, threshold for turned text."""

LINE = (48, 320)
TURNED = (48, 192)
"""Rows and columns of the classifier's input."""


@dataclass(frozen=True)
class Line:
    """A recognised line with its position on the page."""

    text: str
    box: tuple[int, int, int, int]
    upside_down: bool


def page(width: int = 320, height: int = 160, size: float = 26) -> Array:
    """Returns a rendered page: height x width x 3."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), "white")
    step = height // len(TEXT)
    for number, text in enumerate(TEXT):
        strip = Image.new("RGB", (width - 16, step - 8), "white")
        at = (4, (step - 8 - size) / 2 - 2)
        ImageDraw.Draw(strip).text(at, text, font=ImageFont.load_default(size), fill="black")
        if number == len(TEXT) - 1:
            strip = strip.rotate(180)
        image.paste(strip, (8, number * step + 4))
    return np.asarray(image)


def normalized(image: Array) -> Array:
    """Returns an image as the models take it: 1 x 3 x rows x columns, BGR, from -1 to 1."""
    pixels = image[:, :, ::-1].astype(np.float32) / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def resized(image: Array, height: int, width: int) -> Array:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


def fitted(image: Array, size: tuple[int, int]) -> Array:
    """Scales a line to the model's height, padded with zeros or squeezed to the model's width."""
    height, most = size
    width = min(most, max(1, round(image.shape[1] * height / image.shape[0])))
    canvas = np.zeros((1, 3, height, most), np.float32)
    canvas[..., :width] = normalized(resized(image, height, width))
    return canvas


def components(mask: Array) -> Array:
    """Labels connected components. A label is the component's least flat index plus one."""
    numbers = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    far = mask.size + 1
    while True:
        around = np.pad(np.where(mask, numbers, far), 1, constant_values=far)
        rows, columns = mask.shape
        near = [around[i : i + rows, j : j + columns] for i, j in ((0, 1), (1, 0), (1, 2), (2, 1))]
        least = np.where(mask, np.minimum.reduce([numbers, *near]), 0)
        if np.array_equal(least, numbers):
            return numbers
        numbers = least


def boxes(heat: Array) -> list[tuple[int, int, int, int]]:
    """Returns (top, bottom, left, right) of each box in the detector's map, sorted by top row."""
    numbers = components(heat > THRESHOLD)
    result: list[tuple[int, int, int, int]] = []
    for number in np.unique(numbers[numbers > 0]):
        rows, columns = np.nonzero(numbers == number)
        top, bottom = int(rows.min()), int(rows.max()) + 1
        left, right = int(columns.min()), int(columns.max()) + 1
        height, width = bottom - top, right - left
        if min(height, width) < 3 or heat[top:bottom, left:right].mean() < SCORE:
            continue
        grow = round(height * width * UNCLIP / (2 * (height + width)))
        limits = heat.shape
        top, left = max(0, top - grow), max(0, left - grow)
        bottom, right = min(limits[0], bottom + grow), min(limits[1], right + grow)
        result.append((top, bottom, left, right))
    return sorted(result)


def read_page(image: Array, runner: Runner) -> list[Line]:
    """Returns the lines of a page, with model results from `runner`."""
    rows, columns = (max(STEP, round(size / STEP) * STEP) for size in image.shape[:2])
    image = resized(image, rows, columns)
    lines: list[Line] = []
    for box in boxes(runner("ppocr_det", normalized(image))[0, 0]):
        top, bottom, left, right = box
        crop = image[top:bottom, left:right]
        turned = runner("ppocr_cls", fitted(crop, TURNED))[0]
        upside_down = bool(turned[1] > SURE)
        if upside_down:
            crop = crop[::-1, ::-1]
        text = written({"": runner("ppocr_rec", fitted(crop, LINE))})
        lines.append(Line(text.strip(), box, upside_down))
    return lines


def proto(name: str, shape: tuple[int, ...]) -> Any:
    onnx: Any = import_module("onnx")
    model = next(listed for listed in MODELS if listed.name == name)
    return with_shapes(onnx.load(package_file(model.package, model.file)), {"x": shape})


def with_onnxruntime(name: str, x: Array) -> Array:
    model = proto(name, x.shape)
    names = [value.name for value in model.graph.output]
    (result,) = run_onnxruntime(model.SerializeToString(), {"x": x}, names).results.values()
    return result


class Compiled:
    """Runs models compiled on first use on a device, and sums up the seconds of each stage."""

    def __init__(self, device: str, target: str):
        self.device, self.target = device, target
        self.programs: dict[tuple[str, tuple[int, ...]], Program] = {}
        self.seconds: dict[str, dict[str, float]] = {}

    def __call__(self, name: str, x: Array) -> Array:
        spent = self.seconds.setdefault(name, {"import_s": 0.0, "compile_s": 0.0, "run_s": 0.0})
        key = name, x.shape
        if key not in self.programs:
            start = time.perf_counter()
            model = import_onnx(proto(name, x.shape))
            ready = time.perf_counter()
            self.programs[key] = compile_model(model, self.target)
            spent["import_s"] += ready - start
            spent["compile_s"] += time.perf_counter() - ready
        start = time.perf_counter()
        (result,) = run(self.programs[key], {"x": x}, self.device).values()
        spent["run_s"] += time.perf_counter() - start
        return result


def with_rapidocr(image: Array) -> list[str] | None:
    """Returns the text that rapidocr reads, or None if one of its packages is missing."""
    if any(find_spec(name) is None for name in ("cv2", "pyclipper", "shapely", "yaml")):
        return None
    lines, _ = import_module("rapidocr_onnxruntime").RapidOCR()(image[:, :, ::-1])
    return [text for _, text, _ in lines or []]


def missing() -> str | None:
    """Returns the missing packages as arguments for `pip install --no-deps`."""
    needed = [name for name in (OCR, "onnxruntime", "onnx", "PIL") if find_spec(name) is None]
    return " ".join(needed).replace("PIL", "pillow").replace("_", "-") or None


def measure(image: Array, device: str, target: str) -> dict[str, Any]:
    expected = [line.text for line in read_page(image, with_onnxruntime)]
    figures: dict[str, Any] = {"device": device, "onnxruntime": expected}
    figures["rapidocr"] = with_rapidocr(image)
    if device != "onnxruntime":
        compiled = Compiled(device, target)
        lines = read_page(image, compiled)
        figures["lines"] = [vars(line) for line in lines]
        figures["seconds"] = {
            name: {what: round(value, 2) for what, value in spent.items()}
            for name, spent in compiled.seconds.items()
        }
        figures["same_text"] = [line.text for line in lines] == expected
    return figures


def report(figures: Mapping[str, Any]) -> None:
    for line in figures.get("lines", []):
        print(f"{line['text']!r:32} at {line['box']}{', turned' * line['upside_down']}")
    for what in ("onnxruntime", "rapidocr"):
        print(f"{what}: {figures[what] if figures[what] is not None else 'not installed'}")
    for name, spent in figures.get("seconds", {}).items():
        print(f"{name}: {', '.join(f'{what[:-2]} {value} s' for what, value in spent.items())}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the text. Returns 1 if it differs from onnxruntime's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--image", type=Path, help="a page; one is rendered otherwise")
    parser.add_argument("--device", default="interpreter", help="where the programs run")
    parser.add_argument("--target", default="lavapipe", help="what to compile for")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args(arguments)
    if needed := missing():
        print(f"pip install --no-deps {needed}", file=sys.stderr)
        return 2
    if options.image is None:
        image = page()
    else:
        from PIL import Image

        image = np.asarray(Image.open(options.image).convert("RGB"))
    figures = measure(image, options.device, options.target)
    report(figures)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if figures.get("same_text", True) else 1


if __name__ == "__main__":
    sys.exit(main())
