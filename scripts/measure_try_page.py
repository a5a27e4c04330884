"""
Measures the page that tests kernels: seconds from opening it to the first finding.

    python scripts/measure_try_page.py [--megabits 10] [--times 3] [--folder FOLDER]

The server limits the bandwidth of all connections together, uncompressed, because DevTools'
throttling does not affect workers. A cold visit starts with an empty browser cache, a warm visit
follows in the same browser. Every visit prints the times at which files arrived and the page
started and ended.
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
from typing import Any, BinaryIO

from build_browser_tutorials import OUT
from playwright.sync_api import BrowserContext, Request, sync_playwright

BLOCK = 1 << 14
BUFFERED = 0.25
"""Seconds of data that the network buffers while the server waits for a processor."""
STATES = """
() => new Promise((resolve) => {
  const seen = {};
  const look = () => {
    const { state, found } = document.body.dataset;
    seen[found ? "finding" : state] ??= performance.now();
    if (found || ["failed", "broken", "stopped"].includes(state)) resolve(seen);
  };
  new MutationObserver(look).observe(document.body, { attributes: true });
  look();
})
"""


class Line:
    """A shared limit on the bandwidth of all connections."""

    def __init__(self, bytes_a_second: float):
        self.pace = bytes_a_second
        self.free = 0.0
        self.lock = threading.Lock()

    def wait(self, count: int) -> None:
        with self.lock:
            self.free = max(self.free, time.monotonic() - BUFFERED) + count / self.pace
            until = self.free
        time.sleep(max(0.0, until - time.monotonic()))


def handler(line: Line) -> type[http.server.SimpleHTTPRequestHandler]:
    """Returns a request handler that serves files with limited bandwidth."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def copyfile(self, source: BinaryIO, outputfile: BinaryIO) -> None:  # pyright: ignore
            while block := source.read(BLOCK):
                line.wait(len(block))
                outputfile.write(block)

    return Handler


def visit(context: BrowserContext, address: str) -> float:
    """Opens the page until its first finding and returns the seconds."""
    page = context.new_page()
    start = time.monotonic()
    came: list[tuple[float, str]] = []

    def note(request: Request) -> None:
        came.append((time.monotonic() - start, request.url.rpartition("/")[2].partition("?")[0]))

    page.on("requestfinished", note)
    page.goto(address, wait_until="commit")
    page.wait_for_selector("body")
    seen: dict[str, float] = page.evaluate(STATES)
    if "finding" not in seen:
        sys.exit(f"no finding: {page.inner_text('#state')}")
    page.wait_for_function("document.body.dataset.state === 'done'")
    time.sleep(3)  # The worker stores loaded files in its cache.
    page.close()
    files = ", ".join(f"{name} {at:.1f}" for at, name in came if "xz" in name)
    states = ", ".join(f"{name} {at / 1000:.1f}" for name, at in seen.items())
    print(f"  {files}; {states}", flush=True)
    return seen["finding"] / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--megabits", type=float, default=10.0)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=OUT)
    given = parser.parse_args()
    kind = functools.partial(handler(Line(given.megabits * 1e6 / 8)), directory=str(given.folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/try/index.html"
    taken: dict[str, list[float]] = {"cold": [], "warm": []}
    with sync_playwright() as playwright:
        program: Any = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for _ in range(given.times):
            context = browser.new_context()
            for name in taken:
                taken[name].append(visit(context, address))
            context.close()
        browser.close()
    for name, seconds in taken.items():
        print(f"{name}: {', '.join(f'{one:.1f}' for one in sorted(seconds))} s")


if __name__ == "__main__":
    main()
