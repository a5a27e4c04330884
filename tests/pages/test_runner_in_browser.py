"""The page of the JavaScript runner works in Chromium with WebGPU on SwiftShader."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.testing.state_programs import compiled, expected, rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
NAGA = ROOT / "examples" / "runner-js" / "node_modules" / "naga-wasm"
WEBGPU = ("--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
DONE = "['done', 'refused'].includes(document.body.dataset.state)"
PHONE = 390


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serves the page and yields its address."""
    if not NAGA.exists():
        pytest.skip("naga-wasm is not installed (npm ci --prefix examples/runner-js)")
    folder = tmp_path_factory.mktemp("page") / "runner"
    command = [sys.executable, ROOT / "scripts" / "build_runner_page.py", folder]
    subprocess.run(command, check=True, capture_output=True)
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Yields the page after its default kernel has run."""
    opened = browser.browser_type.launch(
        executable_path=shutil.which("chromium"), args=list(WEBGPU)
    )
    page = opened.new_page(viewport={"width": PHONE, "height": 844})
    page.goto(address)
    finished(page)
    yield page
    opened.close()


def finished(page: Page) -> None:
    page.wait_for_function(DONE, timeout=120_000)


def test_the_page_filters_images(page: Page):
    assert page.inner_text("#device").startswith("Device: google")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    page.select_option("#filter", "blur")
    finished(page)
    read = """id => {
      const canvas = document.getElementById(id);
      const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return [...data].filter((_, place) => place % 4 === 0);
    }"""
    image = np.array(page.evaluate(read, "image"), np.float64).reshape(258, 258)
    filtered = np.array(page.evaluate(read, "filtered"), np.float64).reshape(256, 256)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
    assert np.ptp(image) > 100
    assert np.abs(filtered - windows.mean((2, 3))).max() <= 1


def test_the_page_runs_a_program_of_the_user(page: Page, tmp_path: Path):
    compiled(target="webgpu").save(tmp_path / "program")
    page.set_input_files("#folder", tmp_path / "program")
    page.wait_for_selector("#own button")
    page.select_option("#own select", "prefill")
    cache, past = np.zeros((32, 8), np.float32), 0
    for n in (5, 3):
        np.save(tmp_path / "x.npy", rows(n, past))
        page.set_input_files("input[name=x]", tmp_path / "x.npy")
        page.fill("input[name=past]", str(past))
        page.click("#own button")
        finished(page)
        with page.expect_download() as download:
            page.click("#results a")
        got = np.load(download.value.path())
        np.testing.assert_allclose(got, expected(cache, rows(n, past), past), 1e-4, 1e-5)
        past += n
    page.fill("input[name=past]", "31")
    page.click("#own button")
    finished(page)
    assert "a size is too large" in page.inner_text("#results")
