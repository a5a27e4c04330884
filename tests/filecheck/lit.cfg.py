"""
Configures the FileCheck tests. The environment's tools come first on PATH, with MLIR's if
installed.

Substitutions: `XDSL_ROUNDTRIP` parses and prints twice, through the generic form, and checks the
custom form. `XDSL_GENERIC_ROUNDTRIP` checks the generic form (prefix CHECK-GENERIC).
`MLIR_ROUNDTRIP` and `MLIR_GENERIC_ROUNDTRIP` pass the custom and the generic form through
`mlir-opt`; such tests contain `// REQUIRES: mlir-opt`.

`XDSL_SPIRV_REQUIRE_TOOLS=1` makes a missing tool an error. `XDSL_SPIRV_STOCK_COMMANDS=1` starts a
new process of `xdsl-opt` and `filecheck` for every line; otherwise preloaded.py forks them.
"""
# pyright: basic

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import lit.formats

sys.path.insert(0, str(Path(__file__).parent))
import preloaded

# lit defines these names and executes this file.
config = globals()["config"]
lit_config = globals()["lit_config"]

MLIR_VERSION = "22"

config.name = "xdsl-spirv"
config.suffixes = [".mlir"]
config.excludes = ["Output"]
config.test_source_root = str(Path(__file__).parent)
config.test_format = lit.formats.ShTest()
config.environment["PATH"] = os.pathsep.join(
    [str(Path(sys.executable).parent), config.environment["PATH"]]
)
if "PYTHONPATH" in os.environ:
    # The tests may belong to another checkout than the installed package.
    config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

mlir_opt = shutil.which(f"mlir-opt-{MLIR_VERSION}") or os.environ.get("MLIR_OPT")
if mlir_opt:
    config.available_features.add("mlir-opt")
elif os.environ.get("XDSL_SPIRV_REQUIRE_TOOLS"):
    lit_config.fatal(f"mlir-opt-{MLIR_VERSION} is not installed (Debian: mlir-22-tools)")
else:
    lit_config.note(f"mlir-opt-{MLIR_VERSION} is not installed: tests that need it are skipped")

if shutil.which("spirv-val", path=config.environment["PATH"]):
    config.available_features.add("spirv-val")

if hasattr(os, "fork") and not os.environ.get("XDSL_SPIRV_STOCK_COMMANDS"):
    # lit forks its workers from this process, and the server ends with the last worker.
    folder = Path(tempfile.mkdtemp(prefix="xdsl-spirv-lit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = preloaded.start(folder)
    path = os.pathsep.join([str(folder), config.environment["PATH"]])
    config.environment["PATH"] = path

_OPT = "xdsl-opt --split-input-file"
_MLIR = f"{mlir_opt} --split-input-file"
for name, command in {
    "XDSL_GENERIC_ROUNDTRIP": f"{_OPT} --print-op-generic %s"
    f" | {_OPT} --print-op-generic | filecheck %s --check-prefix=CHECK-GENERIC",
    "XDSL_ROUNDTRIP": f"{_OPT} --print-op-generic %s | {_OPT} | filecheck %s",
    "MLIR_GENERIC_ROUNDTRIP": f"{_OPT} --print-op-generic %s"
    f" | {_MLIR} --mlir-print-op-generic | {_OPT} | filecheck %s",
    "MLIR_ROUNDTRIP": f"{_OPT} %s | {_MLIR} | {_OPT} | filecheck %s",
}.items():
    config.substitutions.append((rf"\b{name}\b", command))
config.substitutions.append((r"(?<![\w/-])mlir-opt(?![\w-])", mlir_opt or "mlir-opt"))
