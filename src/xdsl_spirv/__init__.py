"""
SPIR-V for machine learning in Python, on xDSL.

    import xdsl_spirv as xs

    program = xs.compile("model.onnx", target="lavapipe")
    y = program(x)
    print(xs.explain("model.onnx", "nvidia-h200"))

    print(xs.check("sum.comp", grid=4, buffers={"X": x, "Y": y}))
    xs.validate("sum.spv")
    module = xs.decode("sum.spv")

Models and programs: `compile`, `from_torch`, `from_jax`, `Program`, `explain`, `LanguageModel`.
Kernels: `kernels` (written in Python), `from_triton`, `from_ttir`, `launch`, `check`. Modules:
`parse`, `interpret`, `decode`, `encode`, `validate`, `disassemble`, `assemble`. Machines:
`devices`, `target_names`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl_spirv import kernels
    from xdsl_spirv.compiler.api import compile
    from xdsl_spirv.frontends.jax_import import from_jax
    from xdsl_spirv.frontends.torch_import import from_torch
    from xdsl_spirv.kernels import check, launch
    from xdsl_spirv.kernels.triton import from_triton, from_ttir
    from xdsl_spirv.llm import LanguageModel
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.surface import (
        assemble,
        decode,
        devices,
        disassemble,
        encode,
        explain,
        interpret,
        parse,
        target_names,
        validate,
    )

try:
    # Written when the package is built or installed, from git's tags (RELEASING.md).
    from xdsl_spirv._version import __version__
except ImportError:
    __version__ = "0.1.0.dev0"

__all__ = [
    "LanguageModel",
    "Program",
    "assemble",
    "check",
    "compile",
    "decode",
    "devices",
    "disassemble",
    "encode",
    "explain",
    "from_jax",
    "from_torch",
    "from_triton",
    "from_ttir",
    "interpret",
    "kernels",
    "launch",
    "parse",
    "target_names",
    "validate",
]


def import_on_use(package: str) -> Callable[[str], Any]:
    """
    Returns a package's `__getattr__`, which imports a name in `__all__` when it is first used.

    Call it in the package's `__init__.py`. The `import` statements under `if TYPE_CHECKING` there
    tell which module defines a name. They are read from the byte code, and are never executed.
    """

    code = sys._getframe(1).f_code  # pyright: ignore[reportPrivateUsage]

    @cache
    def find_homes() -> dict[str, str]:
        import dis

        homes, module = dict[str, str](), ""
        for instruction in dis.get_instructions(code):
            if instruction.opname == "IMPORT_NAME":
                module = instruction.argval
            elif instruction.opname == "IMPORT_FROM":
                homes[instruction.argval] = module
        return homes

    def find(name: str) -> Any:
        if name not in sys.modules[package].__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = find_homes()[name]
        if home == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(home), name)

    return find


__getattr__ = import_on_use(__name__)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
