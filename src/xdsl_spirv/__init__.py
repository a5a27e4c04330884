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

_HOMES = {
    "LanguageModel": "llm",
    "Program": "runtime.program",
    "check": "kernels",
    "compile": "compiler.api",
    "from_jax": "frontends.jax_import",
    "from_torch": "frontends.torch_import",
    "from_triton": "kernels.triton",
    "from_ttir": "kernels.triton",
    "launch": "kernels",
    **dict.fromkeys(
        (
            "assemble",
            "decode",
            "devices",
            "disassemble",
            "encode",
            "explain",
            "interpret",
            "parse",
            "target_names",
            "validate",
        ),
        "surface",
    ),
}

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


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "kernels":
        return import_module("xdsl_spirv.kernels")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"xdsl_spirv.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
