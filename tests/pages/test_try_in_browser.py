"""The page that tests kernels works in Chromium, as built by `make tutorials`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser

BUILT = Path(__file__).resolve().parents[2] / "build" / "tutorials" / "browser"
MEGABYTE = 1_000_000
MOST_BYTES = 12 * MEGABYTE
"""Maximum number of bytes that the page loads before the first finding: 9.6 s at 10 Mbit/s."""

EXAMPLES = {
    "A missing barrier": ("RACE-01", "partial[lane] += partial[lane + stride];"),
    "A race between workgroups": ("RACE-01", "rod[i] = 0.5 * (rod[i - 1] + rod[i + 1]);"),
    "A store out of bounds": ("BOUNDS-01", "y[i] = scales[min(i, n - 1) / 32] * float(q);"),
    "Shared memory without a value": (
        "UNDEF-01",
        "atomicAdd(bins[values[i * 32 + lane] & 15u], 1);",
    ),
    "A barrier that some do not reach": ("BARRIER-01", "barrier();"),
}
"""Rule and source line that the page finds in each example."""

WGSL = """\
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) l: u32) { y[0] = l; }
"""
WRONG = "#version 450\nlayout(local_size_x = 64) in;\nvoid main() {\n    uint i = j;\n}\n"
FILL = """\
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) writeonly buffer Output { float y[]; };
void main() { y[gl_GlobalInvocationID.x] = 2.0; }
"""
ENDLESS = """\
#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer Data { uint x[]; };
void main() { while (x[0] == x[0]) x[1] += 1; }
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serves the page and yields its address."""
    if not (BUILT / "try" / "data.json").exists():
        assert "XDSL_SPIRV_REQUIRE_TOOLS" not in os.environ
        pytest.skip("the page is not built (make tutorials)")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(BUILT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/try/index.html"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Yields a browser window of a phone's size."""
    opened = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="light")
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    """Yields the page after the test of its first example."""
    page = context.new_page()
    page.on("pageerror", lambda error: pytest.fail(f"an error of the page: {error}"))
    page.goto(address)
    await_end(page)
    yield page
    page.close()


@pytest.fixture
def urls(page: Page) -> list[str]:
    """Returns addresses of files that the page loads after its first example."""
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    return urls


def await_end(page: Page) -> None:
    ended = "['done', 'failed', 'stopped', 'broken'].includes(document.body.dataset.state)"
    page.wait_for_function(ended, timeout=180_000)


def run_kernel(page: Page, language: str, source: str, launch: str = "") -> None:
    page.select_option("#language", language)
    page.fill("#source", source)
    page.evaluate("text => document.getElementById('launch').value = text", launch)
    page.click("#run")
    await_end(page)


def test_each_example_has_its_finding_at_its_line(page: Page, urls: list[str]):
    titles = page.locator("#example option").all_inner_texts()[1:]
    assert titles == list(EXAMPLES)
    for title, (rule, line) in EXAMPLES.items():
        page.select_option("#example", title)
        await_end(page)
        assert page.locator(".finding a").first.inner_text() == rule, title
        assert page.locator(".finding .place code").first.inner_text() == line, title
        number = int(page.locator("#gutter .bad").first.inner_text())
        assert page.input_value("#source").split("\n")[number - 1].strip() == line, title
        assert page.evaluate("document.documentElement.scrollWidth") == 390, title
    assert not urls


def test_the_first_finding_needs_few_bytes(browser: Browser, address: str):
    context = browser.new_context()
    page = context.new_page()
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(address)
    await_end(page)
    base = address.removesuffix("index.html")
    assert all(url.startswith((base, "data:")) for url in urls), urls
    names = {url.removeprefix(base).split("?")[0] for url in urls if url.startswith(base)}
    sizes = {name: (BUILT / "try" / name).stat().st_size for name in names}
    context.close()
    assert sum(sizes.values()) <= MOST_BYTES, sizes


def test_the_page_tests_kernels_in_other_languages(page: Page):
    run_kernel(page, "wgsl", WGSL)
    assert "RACE-01" in page.inner_text("#findings")
    assembly = page.text_content("#assembly") or ""
    assert "OpEntryPoint GLCompute" in assembly
    assert "spirv.module" in (page.text_content("#dialect") or "")
    run_kernel(page, "spirv", assembly)
    assert "RACE-01" in page.inner_text("#findings")


def test_an_error_of_the_compiler_is_shown_at_its_line(page: Page):
    run_kernel(page, "glsl", WRONG)
    assert "'j' : undeclared identifier" in page.inner_text("#findings")
    assert page.locator("#gutter .bad").all_inner_texts() == ["4"]


def test_the_launch_is_offered_and_can_be_changed(page: Page):
    run_kernel(page, "glsl", FILL)
    offered = page.input_value("#launch")
    assert "grid = [1, 1, 1]" in offered
    run_kernel(page, "glsl", FILL, offered + "expect = 2\n")
    assert "No findings." in page.inner_text("#findings")
    assert page.text_content("#buffers .numbers b") is not None
    run_kernel(page, "glsl", FILL, offered + "expect = 3\n")
    assert "MISMATCH" in page.inner_text("#findings")
    run_kernel(page, "glsl", FILL, offered + "[buffers.Outputs]\nsize = 1\n")
    assert "did you mean 'Output'" in page.inner_text("#findings")
    assert page.get_attribute("#launching", "open") is not None


def test_functions_that_are_not_loaded_at_first(page: Page, urls: list[str]):
    """The page loads all of Python when a missing function is called."""
    source, launch = page.input_value("#source"), page.input_value("#launch")
    zeros = 'content = "zeros"'
    assert zeros in launch
    run_kernel(page, "glsl", source, launch.replace(zeros, 'content = "none.npy"'))
    assert any(url.endswith("python.wasm.gz") and "/try/" not in url for url in urls)
    assert "none.npy" in page.inner_text("#findings")
    run_kernel(page, "glsl", source, launch)
    assert "RACE-01" in page.inner_text("#findings")


def test_an_endless_kernel_is_stopped(page: Page):
    page.fill("#source", ENDLESS)
    page.evaluate("document.getElementById('launch').value = ''")
    page.click("#run")
    page.click("#stop")
    await_end(page)
    assert "Stopped after" in page.inner_text("#state")
    page.select_option("#example", "A store out of bounds")
    await_end(page)
    assert "BOUNDS-01" in page.inner_text("#findings")


def test_a_link_contains_the_kernel(page: Page, context: BrowserContext):
    source = page.input_value("#source") + "// ä\n"
    page.fill("#source", source)
    page.click("#share")
    page.wait_for_function("location.hash.length > 100")
    other = context.new_page()
    other.goto(page.url)
    await_end(other)
    assert other.input_value("#source") == source
    assert other.input_value("#launch") == page.input_value("#launch")
    assert "RACE-01" in other.inner_text("#findings")
    other.close()
