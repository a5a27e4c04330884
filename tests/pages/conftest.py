"""Pages of models, and a browser to view them."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xdsl_spirv.runtime.phases import HOST, Phase, device_phases
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.main import main
from xdsl_spirv.tools.run_times import DispatchTime, times_json

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LONG = "a_name_that_nobody_would_break_" * 5

STEP = """
  %r{n} = linalg.matmul ins(%r{m}, %a : tensor<64x64xf16>, tensor<64x64xf16>)
                        outs(%i : tensor<64x64xf16>) -> tensor<64x64xf16>"""

CHAIN = (
    "func.func @main(%r0: tensor<64x64xf16>, %a: tensor<64x64xf16>) -> tensor<64x64xf16> {\n"
    "  %zero = arith.constant 0.0 : f16\n  %e = tensor.empty() : tensor<64x64xf16>\n"
    "  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<64x64xf16>) -> tensor<64x64xf16>"
    + "".join(STEP.format(n=n, m=n - 1) for n in range(1, 9))
    + "\n  return %r8 : tensor<64x64xf16>\n}\n"
).replace("%r3", f"%{LONG}")

REFUSED = """
func.func @main(%A: tensor<8x8xf64>) -> tensor<8x8xf64> {
  %e = tensor.empty() : tensor<8x8xf64>
  %sine = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%A : tensor<8x8xf64>) outs(%e : tensor<8x8xf64>) {
    ^bb0(%a: f64, %o: f64):
      %s = math.sin %a : f64
      linalg.yield %s : f64
  } -> tensor<8x8xf64>
  return %sine : tensor<8x8xf64>
}
"""

H200 = ("--target", "nvidia-h200")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns the generated pages by name."""
    base = tmp_path_factory.mktemp("pages")
    folder = base / LONG
    folder.mkdir()
    source, refused = folder / f"{LONG}.mlir", base / "refused.mlir"
    source.write_text(CHAIN)
    refused.write_text(REFUSED)
    trace = base / "trace"
    program, plain = str(base / "program"), str(base / "plain")
    _run("compile", str(source), *H200, "-o", program)
    limits = ("--except", "cooperative-matrix=*")
    _run("compile", str(source), *H200, *limits, "-o", plain, "--trace-passes", str(trace))
    times = base / "times.json"
    times.write_text(_times(program))
    pages = {
        name: base / f"{name}.html"
        for name in ("explained", "measured", "unmeasured", "refused", "compared")
    }
    _explain(pages["explained"], program)
    _explain(pages["measured"], program, "--profile", str(times))
    _explain(pages["unmeasured"], str(source), "--target", "amd-rdna3")
    _explain(pages["refused"], str(refused), *H200, status=1)
    _explain(pages["compared"], program, "--against", plain)
    pages["trace"] = trace / "index.html"
    if (model := _model()) is not None:
        pages["model"] = base / "model.html"
        sizes = ("x.0=1", "x.2=48", "x.3=48")
        dims = [word for size in sizes for word in ("--dim", size)]
        _explain(pages["model"], str(model), *H200, *dims)
    return pages


def _run(*arguments: str, status: int = 0) -> None:
    assert main(arguments) == status


def _explain(page: Path, *arguments: str, status: int = 0) -> None:
    _run("explain", *arguments, "-o", str(page), status=status)


def _times(program: str) -> str:
    dispatches = Program.load(program).manifest.dispatches
    taken = [
        DispatchTime(d.kernel, d.entry_point, (1000.0 * number,))
        for number, d in enumerate(dispatches, 1)
    ]
    names = ("upload", "submit", "wait", "download")
    host = [Phase(HOST, name, 20_000.0 * n, 20_000.0) for n, name in enumerate(names)]
    steps = [(number, d.entry_point) for number, d in enumerate(dispatches)]
    device = [2000.0] * (len(dispatches) + 2)
    phases = [*host, *device_phases(device, steps, host[2].end, copies=True)]
    return times_json("vulkan:0 (a device)", taken, phases)


def _model() -> Path | None:
    found = importlib.util.find_spec("rapidocr_onnxruntime")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "models" / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    return path if path.exists() else None


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yields a headless Chromium. Tests skip without one, unless tools are required."""
    program = shutil.which("chromium")
    missing = [] if program else ["chromium"]
    missing += [] if importlib.util.find_spec("playwright") else ["playwright"]
    if missing:
        assert "XDSL_SPIRV_REQUIRE_TOOLS" not in os.environ, missing
        pytest.skip(f"not installed: {', '.join(missing)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()
