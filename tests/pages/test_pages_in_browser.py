"""Pages of `explain` and `--trace-passes` work in Chromium on laptops and phones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Scheme: TypeAlias = Literal["light", "dark"]

pytestmark = pytest.mark.browser

WINDOWS = {"laptop": (1366, 900), "phone": (390, 800)}
NAMES = ("explained", "measured", "unmeasured", "refused", "compared", "trace", "model")

PICTURES = os.environ.get("XDSL_SPIRV_PICTURES")
"""Folder for screenshots of the pages, for reviews."""

OVERFLOWING = """() => {
  const page = document.documentElement, wide = [];
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    if (box.width && box.right > page.clientWidth + 1 && !element.closest(".scroll"))
      wide.push(element.outerHTML.slice(0, 80));
  }
  return [page.scrollWidth - page.clientWidth, wide];
}"""

EMPTY_CHARTS = """() => [...document.querySelectorAll("svg[role=img]")].filter(chart => {
  const box = chart.getBoundingClientRect();
  const shapes = [...chart.querySelectorAll("rect")].map(s => s.getBoundingClientRect());
  const seen = shapes.filter(s => s.width > 1 && s.height > 1);
  return box.width < 100 || box.height < 20 || seen.length === 0;
}).length"""

PALE = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parts = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(
    c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
  ).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e !== null; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const pale = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("svg, script, style, button, select, .quiet")) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) pale.add(element.outerHTML.slice(0, 90) + " " + contrast.toFixed(2));
  }
  return [...pale];
}"""


@pytest.fixture
def opened(browser: Browser, pages: dict[str, Path]) -> Iterator[Callable[..., Page]]:
    """Yields a function that opens a page. Errors in the browser fail the test."""
    shown_pages: list[Page] = []
    complaints: list[str] = []

    def open_page(name: str, window: str = "laptop", scheme: Scheme = "light") -> Page:
        if name not in pages:
            pytest.skip("the model is not installed (pip install --no-deps rapidocr-onnxruntime)")
        width, height = WINDOWS[window]
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        shown_pages.append(page)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.goto(pages[name].as_uri())
        return page

    yield open_page
    for page in shown_pages:
        page.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", NAMES)
def test_pages_fit_and_can_be_read(
    name: str, window: str, scheme: Scheme, opened: Callable[..., Page]
):
    page = opened(name, window, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    if PICTURES:
        page.screenshot(path=f"{PICTURES}/{name}-{window}-{scheme}.png", full_page=True)
    assert page.evaluate(OVERFLOWING) == [0, []]
    assert page.evaluate(PALE) == []
    assert page.evaluate(EMPTY_CHARTS) == 0


@pytest.mark.parametrize(
    ("name", "charts"), [("explained", 2), ("measured", 5), ("compared", 2), ("unmeasured", 1)]
)
def test_charts_are_there(name: str, charts: int, opened: Callable[..., Page]):
    page = opened(name)
    assert page.locator("svg[role=img]").count() == charts
    if name == "compared":
        bars = "document.querySelectorAll('.pair .bar')"
    else:
        bars = "document.querySelectorAll('.bars i')"
    widths = page.evaluate(f"[...{bars}].map(bar => bar.getBoundingClientRect().width)")
    assert len(widths) == (16 if name in ("measured", "compared") else 8)
    assert min(widths) >= 1
    assert max(widths) > 50


def test_a_layer_leads_to_its_details_and_its_reasons(opened: Callable[..., Page]):
    page = opened("explained")
    page.click(".layer .notes a")
    assert (page.locator(":target").get_attribute("id") or "").startswith("note-")
    page.click(".layer .chip")
    target = page.locator("tr:target")
    assert target.get_attribute("id") == "layer-0"
    assert target.is_visible()


def shown(page: Page) -> list[str]:
    return [
        stage.get_attribute("data-name") or "" for stage in page.locator(".stage:visible").all()
    ]


def test_keys_select_the_next_or_previous_pass(opened: Callable[..., Page]):
    page = opened("trace")
    passes = page.locator("table.passes a").all_inner_texts()
    assert shown(page) == passes[1:2]
    for key, number in (("ArrowRight", 2), ("j", 3), ("n", 4), ("ArrowLeft", 3), ("k", 2)):
        page.keyboard.press(key)
        assert shown(page) == [passes[number]]
    chosen = page.locator(".here a").get_attribute("href") or ""
    assert page.url.endswith("#stage-" + chosen[7:])
    page.click(f"table.passes a >> text={passes[-1]}")
    assert shown(page) == passes[-1:]
    assert page.locator("button >> text=next").is_disabled()
    page.keyboard.press("ArrowRight")
    assert shown(page) == passes[-1:]
    page.click("text=all passes")
    assert shown(page) == passes


def test_a_value_is_followed_to_its_kernel(opened: Callable[..., Page]):
    page = opened("trace")
    page.select_option("select", label="r1")
    page.click("text=all passes")
    stages = shown(page)
    assert "kernel-to-spirv" in stages
    assert "linalg-to-contraction" in stages
    lowered = page.locator("[data-name=linalg-to-contraction] tr:visible").all_inner_texts()
    assert any("%r1 = linalg.generic" in row for row in lowered)
    assert not any("%r2 = " in row for row in lowered)
    instructions = page.locator("[data-name=kernel-to-spirv] ins:visible").all_inner_texts()
    assert any("spirv.GL.Fma" in line for line in instructions)
    page.select_option("select", label="everything")
    assert len(shown(page)) == len(page.locator("table.passes a").all())


def test_the_page_shows_everything_without_scripts(browser: Browser, pages: dict[str, Path]):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["trace"].as_uri())
    assert shown(page) == page.locator("table.passes a").all_inner_texts()
    assert not page.locator(".bar").is_visible()
    context.close()
