"""
Runs the tutorials of `build/tutorials/browser` in headless Chromium. Fails if a cell fails.

The browser is offline, except for a server of this process. The script also types a mistake into a
cell and expects an error.

    python scripts/check_browser_tutorials.py [--screenshots DIR]
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from pathlib import Path

from build_tutorials import BUILT, IN_BROWSER
from playwright.sync_api import Page, Route, ViewportSize, sync_playwright

SECONDS = 600
PHONE: ViewportSize = {"width": 390, "height": 844}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without log messages."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(folder: Path, kind: type[Quiet] = Quiet) -> http.server.ThreadingHTTPServer:
    """Starts a server of a folder on 127.0.0.1, on a free port."""
    handler = functools.partial(kind, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def state(page: Page, *wanted: str) -> str:
    """Waits until the page has one of the states, and returns it."""
    page.wait_for_function(
        "wanted => wanted.includes(document.body.dataset.state)",
        arg=list(wanted),
        timeout=SECONDS * 1000,
    )
    return page.evaluate("document.body.dataset.state")


def check(page: Page, notebook: str) -> None:
    """Waits for all cells, which must succeed. Then a faulty cell must report an error."""
    if state(page, "done", "failed") == "failed":
        shown = page.inner_text("#state"), *page.locator(".failed").all_inner_texts()
        sys.exit(f"{notebook}: {' '.join(shown)}")
    cells = page.locator(".cell")
    assert all(cells.nth(i).get_attribute("data-state") == "done" for i in range(cells.count()))
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"], f"{notebook} is wider than a phone's window: {width} pixels"
    check_mistake(page)
    print(f"{notebook}: {cells.count()} cells")


def check_mistake(page: Page) -> None:
    """Checks that a faulty cell shows its error, and that the other cells still run."""
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
    parser.add_argument("notebooks", nargs="*", help="which; all without")
    arguments = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Chromium is not installed (Debian: chromium)")
    server = serve(BUILT)
    here = f"http://127.0.0.1:{server.server_port}/"

    def only_here(route: Route) -> None:
        route.continue_() if route.request.url.startswith(here) else refused.append(route)

    refused: list[Route] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        pages: dict[str, Page] = {}
        for notebook in (
            arguments.notebooks or IN_BROWSER
        ):  # All pages run concurrently, on several cores.
            page = pages[notebook] = browser.new_page(viewport=PHONE)
            page.on("pageerror", lambda error: sys.exit(f"a script of the page failed: {error}"))
            page.route("http*://**", only_here)
            page.goto(f"{here}browser/{notebook}.html#run")
        for notebook, page in pages.items():
            check(page, notebook)
            if arguments.screenshots:
                page.screenshot(path=arguments.screenshots / f"{notebook}.png", full_page=True)
        browser.close()
    if refused:
        sys.exit(
            f"the page loads files of other servers: {[route.request.url for route in refused]}"
        )


if __name__ == "__main__":
    main()
