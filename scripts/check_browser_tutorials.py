"""
Runs the tutorials of `build/tutorials/browser` in headless Chromium, offline but for a server of
this process, and fails unless every cell succeeds. Also types a mistake into one.

    python scripts/check_browser_tutorials.py [--screenshots DIR]
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
import time
from pathlib import Path

from build_tutorials import BUILT, IN_BROWSER
from playwright.sync_api import Page, Route, sync_playwright

SECONDS = 240


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(folder: Path) -> http.server.ThreadingHTTPServer:
    """A server of a folder on this machine, on a port of its own."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def state(page: Page, *wanted: str) -> str:
    """Waits until the page has one of the states."""
    page.wait_for_function(
        "wanted => wanted.includes(document.body.dataset.state)",
        arg=list(wanted),
        timeout=SECONDS * 1000,
    )
    return page.evaluate("document.body.dataset.state")


def check(page: Page, address: str) -> None:
    """Runs all cells, then a wrong one; raises `SystemExit` for what goes wrong."""
    start = time.perf_counter()
    page.goto(address)
    if state(page, "ready", "failed") == "failed":
        raise SystemExit(f"{address}: {page.inner_text('#state')}")
    ready = time.perf_counter() - start
    page.click("#all")
    if state(page, "done", "failed") == "failed":
        raise SystemExit(f"{address}: {page.inner_text('.failed')}")
    cells = page.locator(".cell")
    assert all(cells.nth(i).get_attribute("data-state") == "done" for i in range(cells.count()))
    print(
        f"{address.rpartition('/')[2]}: {cells.count()} cells, ready after {ready:.1f} s, "
        f"run in {time.perf_counter() - start - ready:.1f} s"
    )


def check_mistake(page: Page) -> None:
    """A cell that fails says so, in its own words, and the others can still be run."""
    cell = page.locator(".cell").last
    cell.locator("textarea").fill("1 / 0")
    cell.locator("button").click()
    state(page, "failed")
    assert "ZeroDivisionError" in cell.inner_text()
    cell.locator("textarea").fill("6 * 7")
    cell.locator("button").click()
    state(page, "done")
    assert "42" in cell.inner_text()


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the tutorials of the browser in Chromium.")
    parser.add_argument("--screenshots", type=Path, help="a folder for pictures of the pages")
    arguments = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no chromium: install it (Debian: chromium)")
    server = serve(BUILT)
    here = f"http://127.0.0.1:{server.server_port}/"

    def only_here(route: Route) -> None:
        route.continue_() if route.request.url.startswith(here) else refused.append(route)

    refused: list[Route] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for notebook in IN_BROWSER:
            page = browser.new_page(viewport={"width": 390, "height": 844})
            page.on("pageerror", lambda error: sys.exit(f"an error of the page: {error}"))
            page.context.route("http*://**", only_here)
            check(page, f"{here}browser/{notebook}.html")
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, f"{notebook} is {width} pixels wide on a phone"
            if arguments.screenshots:
                page.screenshot(path=arguments.screenshots / f"{notebook}.png", full_page=True)
            check_mistake(page)
            page.close()
        browser.close()
    if refused:
        sys.exit(f"the page loads from elsewhere: {[route.request.url for route in refused]}")


if __name__ == "__main__":
    main()
