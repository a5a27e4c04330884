"""
Opens every page of `build/site` in headless Chromium, at a laptop's and at a phone's width, and
fails where a page is wider than the window, loads something from elsewhere, or a script fails.

    python scripts/check_site.py [--screenshots DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Literal

from check_browser_tutorials import serve
from playwright.sync_api import Browser, Request, ViewportSize, sync_playwright

SITE = Path(__file__).resolve().parent.parent / "build" / "site"

VIEWS: dict[str, tuple[int, int, Literal["dark", "light"]]] = {
    "laptop": (1366, 800, "dark"),
    "phone": (390, 800, "light"),
}
"""Width, height and colour scheme of the windows."""

LEFT_OUT = ("repository/", "tutorials/browser/", "404")
"""Listings of files; pages with programs, which scripts/check_browser_tutorials.py runs."""

ALIKE = ("passes/", "commands/")
"""Pages from one mould, which are opened on a phone only."""

INDEX = "search/search_index.json"
"""The search's words, of which nothing is asked here; they are larger than all pages together."""

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Visitor:
    """A window, what its pages ask others for, and the errors of their scripts."""

    def __init__(self, browser: Browser, view: str, base: str):
        self.view, self.base = view, base
        self.problems: list[str] = []
        width, height, scheme = VIEWS[view]
        size = ViewportSize(width=width, height=height)
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.page.on("pageerror", lambda error: self.problems.append(f"a script fails: {error}"))
        self.page.on("request", self._note)
        index = json.dumps(json.loads((SITE / INDEX).read_text()) | {"docs": []})
        self.page.route(f"**/{INDEX}", lambda route: route.fulfill(body=index))

    def _note(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.problems.append(f"loads {request.url}")

    def visit(self, place: str, folder: Path | None) -> list[str]:
        """What is wrong with a page."""
        self.problems.clear()
        self.page.goto(f"{self.base}/{place}")
        if folder is not None:
            self.page.screenshot(path=folder / f"{place.replace('/', '_')}.{self.view}.png")
        if overflow := self.page.evaluate(OVERFLOW):
            self.problems.append(f"{overflow} pixels wider than the window")
        return self.problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--screenshots", type=Path, metavar="DIR")
    folder = parser.parse_args().screenshots
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None or not (SITE / "index.html").exists():
        sys.exit("no chromium (Debian: chromium)" if program is None else "no site: make site")
    places = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    places = [place for place in places if not place.startswith(LEFT_OUT)]
    server, wrong = serve(SITE), 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for view in VIEWS:
            visitor = Visitor(browser, view, f"http://127.0.0.1:{server.server_port}")
            for place in places:
                if view == "laptop" and place.startswith(ALIKE):
                    continue
                for problem in visitor.visit(place, folder):
                    print(f"{place}, {view}: {problem}", file=sys.stderr)
                    wrong += 1
    print(f"{len(places)} pages in {len(VIEWS)} windows: {wrong or 'no'} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
