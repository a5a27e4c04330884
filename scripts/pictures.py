"""
Writes the README's pictures: docs/images/race.svg and docs/images/explain.png.

    pip install rich pillow onnx && pip install --no-deps rapidocr-onnxruntime==1.4.4
    python scripts/pictures.py        needs glslang and Chromium
"""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
TERMINAL = 122
"""Columns of the terminal in the picture."""

WINDOW = (1160, 1300)
"""Size in pixels of the window that shows the page of `explain`."""

BANDS = ((0, 285), (890, 1230))
"""Vertical ranges of the page in the picture: its head and the first layers."""

STYLES = {
    r"^\$ .*": "bold",
    r"FAILED|[A-Z]+-\d+: .*": "bold red",
    r"\S+\.comp:\d+:": "cyan",
    r"`[^`]*`": "yellow",
    r"put a barrier.*": "green",
}
"""Styles of a line's parts in the picture. The command itself prints no colours."""

FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def command(*arguments: str, folder: Path = ROOT) -> str:
    """Returns the output of `xdsl-spirv`, even if the command fails (a test that finds a bug)."""
    program = [sys.executable, "-m", "xdsl_spirv.tools.main", *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False).stdout


def race() -> None:
    """Draws the report of the race in examples/sum.comp as an SVG without fonts."""
    text = Text("$ xdsl-spirv test examples/sum.comp\n" + command("test", "examples/sum.comp"))
    for pattern, style in STYLES.items():
        text.highlight_regex(f"(?m){pattern}", style)
    console = Console(record=True, width=TERMINAL, file=io.StringIO())
    console.print(text, soft_wrap=False)
    svg = FONTS.sub("", console.export_svg(title="a race in a GLSL kernel"))
    (IMAGES / "race.svg").write_text(re.sub(r"\s+\n", "\n", svg))


def explanation() -> None:
    """Photographs the page of `explain` for PP-OCR's classifier on an H200."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    assert spec is not None
    assert spec.submodule_search_locations
    models = Path(spec.submodule_search_locations[0]) / "models"
    sizes = ("--dim", "x.0=1", "--dim", "x.2=48", "--dim", "x.3=192")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        page, picture = folder / "page.html", folder / "page.png"
        shutil.copy(models / "ch_ppocr_mobile_v2.0_cls_infer.onnx", folder / "classifier.onnx")
        options = ["--target", "nvidia-h200", *sizes, "-o", page.name]
        command("explain", "classifier.onnx", *options, folder=folder)
        size = ",".join(map(str, WINDOW))
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
        shot = ["chromium", *options, f"--screenshot={picture}", page.as_uri()]
        subprocess.run(shot, check=True, capture_output=True)
        page_image = Image.open(picture).convert("RGB")
        image = Image.new("RGB", (WINDOW[0], sum(end - start for start, end in BANDS)))
        top = 0
        for start, end in BANDS:
            image.paste(page_image.crop((0, start, WINDOW[0], end)), (0, top))
            top += end - start
        image.quantize(64).save(IMAGES / "explain.png", optimize=True)


if __name__ == "__main__":
    race()
    explanation()
