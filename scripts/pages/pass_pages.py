"""
A page for each pass: what its docstring and its options say, then its section of docs/passes.md.
"""

from __future__ import annotations

import re
from functools import cache
from inspect import cleandoc

from links import ROOT

from xdsl_spirv.tools.pass_help import options_of
from xdsl_spirv.universe import PASSES, UNIVERSE

NAMES = frozenset(PASSES)
SECTION = re.compile(r"^(?=## )", re.MULTILINE)


@cache
def pages() -> dict[str, str]:
    """The overview and a page a pass, in the order of docs/passes.md."""
    head, *sections = SECTION.split((ROOT / "docs" / "passes.md").read_text())
    own, others = {}, []
    for section in sections:
        title, _, body = section.removeprefix("## ").partition("\n")
        if title in NAMES:
            own[f"passes/{title}.md"] = page_of(title, body)
        else:
            others.append(section)
    return {"passes/index.md": head + "".join(others), **own}


def page_of(name: str, body: str) -> str:
    """Returns the page of one pass."""
    cls = UNIVERSE.all_passes[name]()
    rows = [f"| `{o.name}` | `{o.default}` | {o.meaning} |" for o in options_of(cls)]
    table = ["| option | default | meaning |", "|---|---|---|", *rows, ""]
    head = [f"# {name}", "", cleandoc(cls.__doc__ or ""), ""]
    return "\n".join([*head, *(table if rows else []), body])
