"""
Hooks of mkdocs for the site: generated pages, and links between pages.

`docs/` is written to be read in the repository, so its links lead to files of the repository. The
hooks change them to links between pages of the site. A link to a missing file is a warning, which
`mkdocs build --strict` makes an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import command_pages
import drawings
import links
import python_pages
import rule_page
import tutorial_pages
from links import ROOT
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from xdsl_spirv.universe import PASSES

NAMED_FENCE = re.compile(r"^(```+\w+) ([\w./-]+)$", re.MULTILINE)
"""A code block of CONTRIBUTING.md whose fence names a file."""

RUNNER_PAGE = "tutorials/browser/runner/index.html"
"""Output of scripts/build_runner_page.py."""

TRY_PAGE = "tutorials/browser/try/index.html"
"""Output of scripts/build_try_page.py."""

Sections = dict[str, Callable[[], dict[str, str]]]


def _examples() -> dict[str, str]:
    places = links.PAGES.items()
    texts = {p: (ROOT / path).read_text() for path, p in places if p.startswith("examples/")}
    if RUNNER_PAGE in tutorial_pages.built():
        heading, _, text = texts["examples/runner-js.md"].partition("\n")
        button = f'<a class="md-button" href="../{RUNNER_PAGE}">Run one in the browser</a>'
        texts["examples/runner-js.md"] = f"{heading}\n\n{button}\n{text}"
    return texts


GENERATED: Sections = {
    "commands/": command_pages.pages,
    "examples/": _examples,
    "interface/": python_pages.pages,
    "tutorials/": tutorial_pages.pages,
}
"""Section in the nav of mkdocs.yml -> function for its pages by path, the index first."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Inserts the generated pages into the nav."""
    config.nav = _filled(config.nav)
    python_pages.link_sources()
    return config


def _filled(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_filled(item) for item in entry]
    if isinstance(entry, dict):
        return {title: _filled(value) for title, value in entry.items()}
    if entry == "passes/":
        return ["passes/README.md", *(f"passes/{name}.md" for name in PASSES)]
    if entry in GENERATED:
        return list(GENERATED[entry]())
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, the pages outside `docs/`, and the linked files."""
    generated = {"rule-index.md": rule_page.page()}
    for path, place in links.PAGES.items():
        generated[place] = (ROOT / path).read_text()
    for section in GENERATED.values():
        generated |= section()
    for place, text in generated.items():
        files.append(File.generated(config, place, content=text))
    for place, path in tutorial_pages.built().items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    _add_linked_files(files, config)
    return files


def _add_linked_files(files: Files, config: MkDocsConfig) -> None:
    added: set[str] = set()
    # A linked Markdown file has links of its own.
    while new := links.linked_files(files) - added:
        for path in sorted(new):
            place, page = links.site_place(path), links.listing(path)
            if page is None:
                files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
            else:
                files.append(File.generated(config, place, content=page))
        added |= new


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites a page's links for the site, and replaces its drawings by pictures."""
    titled = NAMED_FENCE.sub(r'\1 title="\2"', markdown)
    if page.file.src_uri == "try.md" and TRY_PAGE in tutorial_pages.built():
        heading, _, text = titled.partition("\n")
        button = f'<a class="md-button md-button--primary" href="{TRY_PAGE}">Open the page</a>'
        titled = f"{heading}\n\n{button}\n{text}"
    return drawings.drawn(links.rewritten(titled, page.file.src_uri))
