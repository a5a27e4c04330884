"""
Writes docs/operators.md, the list of imported ONNX operators.

python scripts/operator_docs.py --check     fails if the page is stale
"""

from __future__ import annotations

import sys
from pathlib import Path

from xdsl_spirv.frontends.onnx import operators
from xdsl_spirv.frontends.onnx.registry import registered

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

HEAD = """\
# ONNX operators

This page lists the ONNX operators that the importer reads. `python scripts/operator_docs.py` writes
it. Each operator is imported by a function in the named file of `frontends/onnx/operators/`. Other
operators are expanded if ONNX or the model defines them as functions of other operators. If a row
has several opsets, the meaning of the operator changes at each of these opsets.
[ONNX models](onnx.md#supported-and-refused) lists what is refused.

| operator | domain | from opset | file |
|---|---|---|---|
"""


def page() -> str:
    """Returns the page for the registered operators."""
    operators.load()
    rows: dict[tuple[str, str], tuple[set[int], set[str]]] = {}
    for entry in registered():
        opsets, files = rows.setdefault((entry.domain, entry.name), (set(), set()))
        opsets.add(entry.since)
        files.add(entry.function.__module__.rpartition(".")[2])
    lines = [
        f"| {name} | {domain or 'ai.onnx'} | {', '.join(map(str, sorted(opsets)))} | "
        f"{', '.join(sorted(files))} |"
        for (domain, name), (opsets, files) in sorted(rows.items())
    ]
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    if "--check" in sys.argv:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
