"""
Keep docs/passes.md what the passes really are and print.

    python scripts/update_pass_docs.py            rewrite the list and every example's result
    python scripts/update_pass_docs.py NAME       rewrite those whose command names the pass

The list is the line that spells `linalg-to-spirv` out. An example is a line "`xdsl-opt -p '...'`",
a block of MLIR, the line "becomes", and another block: what the command prints of the first. A test
compares the file with what this makes of it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.runtime.modules import context, parse_text, text_of

DOCS = Path(__file__).resolve().parent.parent / "docs" / "passes.md"

EXAMPLE = re.compile(
    r"`xdsl-opt -p '(?P<passes>[^`]*)'`\n\n```mlir\n(?P<before>.*?)```\n\nbecomes\n\n"
    r"```mlir\n(?P<after>.*?)```",
    re.DOTALL,
)


TARGET = "lavapipe"

LIST = re.compile(r"^xdsl-opt x\.mlir -p '.*'(?=\nxdsl-opt .*linalg-to-spirv)", re.MULTILINE)


def pipeline() -> str:
    """The command that runs the passes of `linalg-to-spirv` one by one."""
    specs = ",".join(str(member.pipeline_pass_spec()) for member in linalg_to_spirv(TARGET))
    return f"xdsl-opt x.mlir -p '{specs}'"


def result_of(passes: str, text: str) -> str:
    """Returns the module that `xdsl-opt -p passes` prints."""
    ctx = context()
    module = parse_text(text, ctx=ctx)
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    module.verify()
    return text_of(module)


def updated(text: str, name: str = "") -> str:
    """The documentation with the examples' results, or those of one pass, as they are now."""

    def replace(match: re.Match[str]) -> str:
        if name not in match["passes"]:
            return match[0]
        start = match.start("after") - match.start()
        end = match.end("after") - match.start()
        after = result_of(match["passes"], match["before"])
        return match[0][:start] + after.rstrip() + "\n" + match[0][end:]

    return EXAMPLE.sub(replace, LIST.sub(lambda _: pipeline(), text))


if __name__ == "__main__":
    DOCS.write_text(updated(DOCS.read_text(), *sys.argv[1:2]))
