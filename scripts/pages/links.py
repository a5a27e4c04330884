"""
Translates links between files of the repository to links between pages of the site.

A page of `docs/` has the same path on the site. `PAGES` lists pages outside `docs/`. Other linked
files are added to the site: Markdown files become pages, source code becomes a page that shows it,
and data files are copied.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]

log = logging.getLogger("mkdocs.hooks.links")

PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{
        f"examples/{page.parent.name}/README.md": f"examples/{page.parent.name}.md"
        for page in sorted(ROOT.glob("examples/*/README.md"))
    },
}
"""Pages outside `docs/` -> their paths on the site."""

SHOWN = {"README.md": "index.md", "tools": "commands/index.md", "tutorials": "tutorials/index.md"}
"""Files and folders whose content the site shows in another form -> the page that shows it."""

SOURCES = {path: repository for repository, path in PAGES.items()}

LISTED = {
    ".py": "python",
    ".c": "c",
    ".mlir": "mlir",
    ".toml": "toml",
    ".sh": "sh",
}
"""Suffix of source files that become pages -> language."""

TOKEN = re.compile(
    r"^ *(?P<fence>```+|~~~+)[^\n]*\n.*?^ *(?P=fence) *$"
    r"|(?P<text>!?\[(?:`[^`]*`|[^]`])*\]\()(?P<link>[^)\s]+)\)"
    r"|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)
"""A code block, a link, or inline code. Links inside code are not changed."""


def repository_place(place: str) -> str:
    """Returns the repository path of a page of the site."""
    if place.startswith("repository/"):
        path = place.removeprefix("repository/")
        shown = path.removesuffix(".md")
        return shown if Path(shown).suffix in LISTED else path
    return SOURCES.get(place, f"docs/{place}")


def site_place(path: str) -> str:
    """Returns the site path of a file of the repository."""
    if path in PAGES | SHOWN:
        return (PAGES | SHOWN)[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    suffix = ".md" if Path(path).suffix in LISTED else ""
    return f"repository/{path}{suffix}"


def rewritten(markdown: str, place: str) -> str:
    """Returns the text of the page `place`, in which links lead to the site's pages."""

    def replaced(token: re.Match[str]) -> str:
        if token["link"] is None:
            return token[0]
        return f"{token['text']}{_on_site(token['link'], place)})"

    return TOKEN.sub(replaced, markdown)


def _on_site(link: str, place: str) -> str:
    path, anchor = _target(link, place)
    if path is None:
        return link
    if path not in SHOWN and not (ROOT / path).is_file():
        if path.startswith("docs/"):
            return link  # The target is a generated page, or mkdocs reports that it is missing.
        log.warning("%s: the target of the link %r is not in the repository", place, link)
        return link
    relative = posixpath.relpath(site_place(path), posixpath.dirname(place) or ".")
    return f"{relative}#{anchor}" if anchor else relative


def _target(link: str, place: str) -> tuple[str | None, str]:
    """Returns the repository path of a link's target (None for external links), and the anchor."""
    path, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link) or link.startswith("/"):
        return None, anchor
    source = repository_place(place)
    if not path:
        return None, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path)), anchor


def targets(markdown: str, place: str) -> Iterator[str]:
    """
    Yields the repository paths of the targets of all links on the page `place`, except external
    links.
    """
    for token in TOKEN.finditer(markdown):
        path, _ = _target(token["link"] or "", place)
        if path:
            yield path


def linked_files(files: Files) -> set[str]:
    """Returns files of the repository that pages link to and that are not pages."""
    return {
        path
        for file in files.documentation_pages()
        for path in targets(file.content_string, file.src_uri)
        if not path.startswith("docs/") and path not in PAGES | SHOWN and (ROOT / path).is_file()
    }


def listing(path: str) -> str | None:
    """Returns a page for a Markdown file or a source file, and None for other files."""
    suffix = Path(path).suffix
    head = "---\nsearch:\n  exclude: true\n"
    if suffix == ".md":
        return f"{head}---\n{(ROOT / path).read_text()}"
    if suffix not in LISTED:
        return None
    code = f"````{LISTED[suffix]}\n{(ROOT / path).read_text()}````\n"
    return f"{head}hide: [toc]\n---\n# `{path}`\n\n{code}"
