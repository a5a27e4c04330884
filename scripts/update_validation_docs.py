"""
Updates the tables and the example of docs/validation.md from the validator.

    python scripts/update_validation_docs.py            rewrite them

Each part is between two comments. A test compares the file with the output of this script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation import rules, validate
from xdsl_spirv.serialization.validation.differences import ACCEPTED_HERE, REFUSED_HERE

DOCS = Path(__file__).resolve().parent.parent / "docs" / "validation.md"

EXAMPLE = """\
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 64 1 1
%file = OpString "kernel.comp"
OpName %sum "sum"
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%float = OpTypeFloat 32
%one = OpConstant %uint 1
%half = OpConstant %float 0.5
%main = OpFunction %void None %function
%entry = OpLabel
OpLine %file 7 3
%sum = OpIAdd %uint %one %half
OpControlBarrier %one %one %one
OpReturn
OpFunctionEnd
"""


def example() -> str:
    findings = validate(assemble(EXAMPLE))
    lines = "\n".join(f"kernel.spv: {finding}" for finding in findings)
    return (
        f"```text\n{EXAMPLE}```\n\n`xdsl-spirv assemble kernel.spvasm -o kernel.spv` and "
        f"`xdsl-spirv validate kernel.spv` print\n\n```text\n{lines}\n```"
    )


def rule_table() -> str:
    lines = ["| rule | section | requirement |", "|---|---|---|"]
    for rule in sorted(rules().values(), key=lambda r: (r.id.split("-")[0], r.id)):
        if rule.section != "docs/rules.md":
            mark = " (a warning)" if rule.severity == "warning" else ""
            lines.append(f"| {rule.id} | {rule.section} | {rule.says}{mark} |")
    return "\n".join(lines)


def difference_table() -> str:
    lines = ["| refused here, accepted by spirv-val | why |", "|---|---|"]
    for row in REFUSED_HERE:
        part = f': "{row.part}"' if row.part else ""
        where = " (outside Vulkan's environments)" if row.outside_vulkan else ""
        lines.append(f"| {row.rule}{part}{where} | {row.reason} |")
    lines += [
        "",
        "| accepted here, refused by spirv-val with a message that contains | why |",
        "|---|---|",
    ]
    lines += [f"| {row.part.splitlines()[-1].strip()} | {row.reason} |" for row in ACCEPTED_HERE]
    return "\n".join(lines)


def updated(text: str) -> str:
    """Returns the page with its parts updated."""
    parts: Mapping[str, str] = {
        "example": example(),
        "rules": rule_table(),
        "differences": difference_table(),
    }
    for name, part in parts.items():
        pattern = rf"<!-- {name} -->\n.*?<!-- /{name} -->"
        replacement = f"<!-- {name} -->\n{part}\n<!-- /{name} -->"
        text = re.sub(pattern, lambda _, new=replacement: new, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    DOCS.write_text(updated(DOCS.read_text()))
