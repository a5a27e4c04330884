"""
Checks every page of `build/site` in headless Chromium, in a laptop's and a phone's window.

Fails if a page is wider than the window, loads files of other servers, or has a failing script.

    python scripts/check_site.py [--screenshots DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from check_browser_tutorials import Quiet, serve
from playwright.async_api import Page, Request, ViewportSize, async_playwright

SITE = Path(__file__).resolve().parent.parent / "build" / "site"

VIEWS: dict[str, tuple[int, int, Literal["dark", "light"]]] = {
    "laptop": (1366, 800, "dark"),
    "phone": (390, 800, "light"),
}
"""Width, height and colour scheme of each window."""

TABS = 2
"""Number of concurrently open pages."""

LEFT_OUT = ("tutorials/browser/", "404")
"""Pages that are skipped, besides listings. check_browser_tutorials.py checks the first ones."""

ALIKE = ("passes/", "commands/")
"""Folders of pages with one template. They are opened in the phone's window only."""

INDEX = "search/search_index.json"
"""Path of the search index, which is larger than all pages together. An empty one is served."""

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Files(Quiet):
    """Serves the site with caching, and with an empty search index."""

    def do_GET(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            if not self.path.endswith(INDEX):
                return super().do_GET()
            body = json.dumps(json.loads((SITE / INDEX).read_text()) | {"docs": []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()


class Tab:
    """A browser tab that records script errors, and requests of its pages to other servers."""

    def __init__(self, page: Page, base: str, folder: Path | None):
        self.page, self.base, self.folder = page, base, folder
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(f"a script fails: {error}"))
        self.page.on("request", self._note)

    def _note(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.problems.append(f"loads {request.url}")

    async def visit(self, places: Iterator[str]) -> int:
        """Opens pages, prints their problems, and returns the number of problems."""
        count = 0
        for place in places:
            views = ["phone"] if place.startswith(ALIKE) else list(VIEWS)
            await self._show(views[0])
            await self.page.goto(f"{self.base}/{place}")
            for view in views:
                for problem in await self._look(place, view):
                    print(f"{place}, {view}: {problem}", file=sys.stderr)
                    count += 1
        return count

    async def _show(self, view: str) -> None:
        width, height, scheme = VIEWS[view]
        await self.page.set_viewport_size(ViewportSize(width=width, height=height))
        await self.page.emulate_media(color_scheme=scheme)

    async def _look(self, place: str, view: str) -> list[str]:
        await self._show(view)
        if self.folder is not None:
            name = f"{place.replace('/', '_')}.{view}.png"
            await self.page.screenshot(path=self.folder / name)
        overflow = await self.page.evaluate(OVERFLOW)
        problems, self.problems = self.problems, []
        return [*problems, f"{overflow} pixels wider than the window"] if overflow else problems


def is_listing(place: str) -> bool:
    """Returns whether a page shows a source file."""
    return place.startswith("repository/") and "." in Path(place).stem


async def visit_all(places: list[str], program: str, folder: Path | None) -> int:
    """Returns the number of problems of all pages."""
    base = f"http://127.0.0.1:{serve(SITE, Files).server_port}"
    left = iter(places)
    async with async_playwright() as playwright:
        chromium = playwright.chromium
        browser = await chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = await browser.new_context()
        tabs = [Tab(await context.new_page(), base, folder) for _ in range(TABS)]
        return sum(await asyncio.gather(*(tab.visit(left) for tab in tabs)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--screenshots", type=Path, metavar="DIR")
    folder = parser.parse_args().screenshots
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None or not (SITE / "index.html").exists():
        sys.exit(
            "Chromium is not installed (Debian: chromium)"
            if program is None
            else "build/site does not exist: run `make site`"
        )
    places = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    places = [place for place in places if not place.startswith(LEFT_OUT) and not is_listing(place)]
    wrong = asyncio.run(visit_all(places, program, folder))
    print(f"{len(places)} pages in {len(VIEWS)} windows: {wrong or 'no'} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
