"""
Links of the repository's pages, as links between the site's.

A page of `docs/` has the same name on the site; `PAGES` stand elsewhere in the repository. Other
files that are linked to come along: data as it is, source code as a page.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

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
"""Pages outside `docs/` -> their places on the site."""

START = {"README.md": "index.md"}
"""The README says on one page what the site's first page and its navigation say."""

SOURCES = {path: repository for repository, path in PAGES.items()}

LISTED = {
    ".md": "markdown",
    ".py": "python",
    ".c": "c",
    ".mlir": "mlir",
    ".toml": "toml",
    ".sh": "sh",
}
"""Suffixes of source files that become pages -> their language."""

TOKEN = re.compile(
    r"^ *(?P<fence>```+|~~~+)[^\n]*\n.*?^ *(?P=fence) *$"
    r"|(?P<text>!?\[(?:`[^`]*`|[^]`])*\]\()(?P<link>[^)\s]+)\)"
    r"|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)
"""A block of code, a link, or code in a line: a link inside code does not count."""


def repository_place(place: str) -> str:
    """Returns where a page of the site comes from, as a path in the repository."""
    return SOURCES.get(place, f"docs/{place}")


def site_place(path: str) -> str:
    """Returns where a file of the repository stands on the site."""
    if path in PAGES | START:
        return (PAGES | START)[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    suffix = ".md" if Path(path).suffix in LISTED else ""
    return f"repository/{path}{suffix}"


def rewritten(markdown: str, place: str) -> str:
    """A page's text with its links leading to the site's pages."""

    def replaced(token: re.Match[str]) -> str:
        if token["link"] is None:
            return token[0]
        return f"{token['text']}{_on_site(token['link'], place)})"

    return TOKEN.sub(replaced, markdown)


def _on_site(link: str, place: str) -> str:
    path, anchor = _target(link, place)
    if path is None:
        return link
    if not (ROOT / path).is_file() and path.startswith("docs/"):
        return link  # A generated page, or mkdocs says that it is missing.
    if not (ROOT / path).is_file():
        log.warning("%s: the link to %r leads to no file of the repository", place, link)
        return link
    relative = posixpath.relpath(site_place(path), posixpath.dirname(place) or ".")
    return f"{relative}#{anchor}" if anchor else relative


def _target(link: str, place: str) -> tuple[str | None, str]:
    """The repository's path that a link leads to, None for other links, and its anchor."""
    path, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link) or link.startswith("/"):
        return None, anchor
    source = repository_place(place)
    if not path:
        return None, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path)), anchor


def linked_files(files: Files) -> set[str]:
    """The repository's files that pages link to and that are not pages themselves."""
    paths: set[str] = set()
    for file in files.documentation_pages():
        for token in TOKEN.finditer(file.content_string):
            path, _ = _target(token["link"] or "", file.src_uri)
            if path and not path.startswith("docs/") and path not in PAGES | START:
                paths |= {path} if (ROOT / path).is_file() else set()
    return paths


def listing(path: str) -> str:
    """A page that shows a source file."""
    language = LISTED[Path(path).suffix]
    head = f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n# `{path}`\n\n"
    return f"{head}````{language}\n{(ROOT / path).read_text()}````\n"
