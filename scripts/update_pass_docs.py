"""
Updates docs/passes/: the list of passes, their options, and the results of examples.

    python scripts/update_pass_docs.py            rewrite the list, options and examples' results
    python scripts/update_pass_docs.py NAME       rewrite the page of one pass

README.md lists the passes of `linalg-to-spirv`. Each pass has a page. Its section "Options" is
made from the docstrings of the pass's fields. An example is a line "`xdsl-opt -p '...'`", a block
of MLIR, the line "becomes", and a block with the command's output. A test compares the files with
the output of this script.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.tools.pass_help import options_of
from xdsl_spirv.universe import PASSES, UNIVERSE

DOCS = Path(__file__).resolve().parent.parent / "docs" / "passes"

EXAMPLE = re.compile(
    r"`xdsl-opt -p '(?P<passes>[^`]*)'`\n\n```mlir\n(?P<before>.*?)```\n\nbecomes\n\n"
    r"```mlir\n(?P<after>.*?)```",
    re.DOTALL,
)


TARGET = "lavapipe"

LIST = re.compile(r"^xdsl-opt x\.mlir -p '.*'(?=\nxdsl-opt .*linalg-to-spirv)", re.MULTILINE)

OPTIONS = re.compile(r"\n## Options\n\n(?:\|.*\n)+")


def pipeline() -> str:
    """Returns the command that runs the passes of `linalg-to-spirv` one by one."""
    specs = ",".join(str(member.pipeline_pass_spec()) for member in linalg_to_spirv(TARGET))
    return f"xdsl-opt x.mlir -p '{specs}'"


def result_of(passes: str, text: str) -> str:
    """Returns the module that `xdsl-opt -p passes` prints."""
    ctx = context()
    module = parse_text(text, ctx=ctx)
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    module.verify()
    return text_of(module)


def options(name: str) -> str:
    """Returns the section on a pass's options, empty for a pass without options."""
    rows = [
        f"| `{option.name}` | `{option.default}` | {option.meaning} |\n"
        for option in options_of(UNIVERSE.all_passes[name]())
    ]
    head = "\n## Options\n\n| option | default | meaning |\n|---|---|---|\n"
    return head + "".join(rows) if rows else ""


def updated(path: Path) -> str:
    """Returns a page with the current list, options and results of examples."""

    def replace(match: re.Match[str]) -> str:
        start = match.start("after") - match.start()
        end = match.end("after") - match.start()
        after = result_of(match["passes"], match["before"])
        return match[0][:start] + after.rstrip() + "\n" + match[0][end:]

    text = EXAMPLE.sub(replace, LIST.sub(lambda _: pipeline(), path.read_text()))
    if path.stem not in PASSES:
        return text
    return OPTIONS.sub("", text).rstrip() + "\n" + options(path.stem)


def outdated() -> list[str]:
    """Returns the names of stale pages."""
    return [path.name for path in sorted(DOCS.glob("*.md")) if updated(path) != path.read_text()]


if __name__ == "__main__":
    for page in sorted(DOCS.glob(f"{sys.argv[1]}.md" if sys.argv[1:] else "*.md")):
        page.write_text(updated(page))
