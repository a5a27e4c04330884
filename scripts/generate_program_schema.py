"""
Writes docs/program.schema.json, the JSON schema of program.json, from the records that read it.

    python scripts/generate_program_schema.py

The schema contains types and required fields. docs/program.md explains their meaning and the
conditions between fields.
"""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from xdsl_spirv.runtime.manifest import READABLE, SCHEMA, Manifest

TARGET = Path(__file__).resolve().parent.parent / "docs" / "program.schema.json"
SCALARS = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def schema() -> dict[str, Any]:
    """Returns the schema of a manifest."""
    definitions: dict[str, Any] = {}
    root = _schema(Manifest, definitions)
    properties = definitions["Manifest"]["properties"]
    properties["schema"] = {"const": SCHEMA}
    properties["version"] = {"enum": list(READABLE)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "program.json of a program that xdsl-spirv compiled",
        **root,
        "$defs": definitions,
    }


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind):
        name = getattr(kind, "__name__", "")
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = _record(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if origin in (Union, types.UnionType):
        present = [k for k in get_args(kind) if k is not type(None)]
        options = [_schema(k, definitions) for k in present]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin is tuple:
        first, *rest = get_args(kind)
        array: dict[str, Any] = {"type": "array", "items": _schema(first, definitions)}
        if Ellipsis not in rest:
            array |= {"minItems": 1 + len(rest), "maxItems": 1 + len(rest)}
        return array
    return SCALARS[kind]


def _record(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    needed = [
        f.name
        for f in fields
        if f.default is dataclasses.MISSING and type(None) not in get_args(hints[f.name])
    ]
    return {
        "type": "object",
        "properties": {f.name: _schema(hints[f.name], definitions) for f in fields},
        "required": needed,
        "additionalProperties": False,
    }


def text() -> str:
    """Returns the content of the file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
