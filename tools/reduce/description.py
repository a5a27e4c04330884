"""Writes a kernel's test as a `*.kernel.toml` file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from xdsl_spirv.tools.kernel_test.arguments import key
from xdsl_spirv.tools.kernel_test.description import Contents, Given, KernelTest

APART = ("source", "kernel", "findings", "error", "assume")


def write_description(test: KernelTest, kernel: str) -> bytes:
    """Returns the TOML text of a test; `kernel` is the kernel's file name."""
    lines = [f"kernel = {_value(kernel)}"]
    buffers = test.buffers
    for name, value in _read_fields(replace(test, buffers={})).items():
        lines.append(f"{name} = {_value(value)}")
    for name, buffer in buffers.items():
        lines.append(f"\n[buffers.{key(name)}]")
        lines += [f"{name} = {_value(value)}" for name, value in _read_fields(buffer).items()]
    return ("\n".join(lines) + "\n").encode()


def _read_fields(record: Any) -> dict[str, Any]:
    """Returns the fields that differ from their defaults, by TOML key."""
    plain = type(record)(Path(), Path()) if isinstance(record, KernelTest) else type(record)()
    values = {one.name: getattr(record, one.name) for one in fields(record)}
    return {
        key(name.replace("_", "-")): value
        for name, value in values.items()
        if name not in APART and value != getattr(plain, name)
    }


def _value(value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        value = _read_fields(value)
    elif isinstance(value, Mapping):
        value = {key(name): one for name, one in value.items()}
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_value(one)}' for name, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def with_absolute_paths(test: KernelTest, kernel: Path) -> KernelTest:
    """Returns the test with absolute paths of arrays, so that the TOML file can be moved."""
    base = test.source.parent.resolve()

    def path_of(value: Given) -> Given:
        return str(base / value) if isinstance(value, str) and value.endswith(".npy") else value

    def contents(one: Contents) -> Contents:
        members = {name: contents(member) for name, member in one.members.items()}
        return replace(
            one, content=path_of(one.content), expect=path_of(one.expect), members=members
        )

    buffers = {name: contents(one) for name, one in test.buffers.items()}
    target = test.target
    if target is not None and (base / target).is_file():
        target = str(base / target)
    return replace(test, kernel=kernel, buffers=buffers, target=target, findings=(), error=None)
