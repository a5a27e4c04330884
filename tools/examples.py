"""Examples of command lines for the help texts."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "compile": (
        "compile model.onnx --dim batch=1 --target nvidia-h200 -o program",
        "compile matmul.mlir --target lavapipe -o program --trace-passes trace",
    ),
    "run": (
        "run model.onnx --dim batch=1",
        "run model.onnx --input x=picture.npy -o results.npz",
        "run program --random 0 --device vulkan --time 20",
    ),
    "generate": ("generate model.gguf --prompt 'Say hello.'",),
    "serve": ("serve model.gguf --port 8000",),
    "explain": (
        "explain model.onnx --dim batch=1",
        "explain model.onnx --dim batch=1 --target nvidia-h200 -o page.html",
        "explain program --against other",
    ),
    "convert": (
        "convert model.onnx --to f16 --dim batch=1 -o half.onnx",
        "convert model.onnx --to int8 --calibration samples -o int8.onnx",
    ),
    "devices": ("devices", "devices --write-target my-gpu.json"),
    "tune": ("tune --contraction 1024x1024x512:f16->f32 --target nvidia-h200",),
    "worker": ("worker --scheduler tcp://host:8786",),
    "results": ("results store.db --failures",),
    "translate": (
        "translate matmul.mlir -p 'linalg-to-spirv{target=lavapipe}' -o matmul.spv",
        "translate matmul.spv -o kernel.mlir",
    ),
    "interpret": (
        "interpret matmul.mlir --random 0",
        "interpret kernel.spv --grid 4 --buffer 0=a.npy --buffer 1=b.npy --check all",
    ),
    "language-server": ("language-server",),
    "reduce": (
        "reduce sum.comp",
        "reduce model.onnx -o small.onnx",
        "reduce kernel.spv --command './crashes.sh {}' --says 'Assertion'",
    ),
    "debug": ("debug kernel.comp --dap",),
    "test": (
        "test sum.comp --init",
        "test sum.comp",
        "test sum.comp --grid 2 --buffer Data=f32:64:random --push n=64",
        "test kernels/ --sarif findings.sarif",
    ),
    "prove": ("prove kernel.comp --assume 'len(Output) >= n'",),
    "check-passes": ("check-passes matmul.mlir -p 'linalg-to-spirv{target=lavapipe}'",),
    "validate": ("validate kernel.spv --target-env vulkan1.3",),
    "disassemble": ("disassemble kernel.spv",),
    "assemble": ("assemble kernel.spvasm -o kernel.spv",),
    "completion": ('eval "$(xdsl-spirv completion bash)"',),
}
"""Example command lines of each command, the simplest first."""


def epilog(name: str, more: str | None) -> str:
    """Returns the last part of a command's help: examples, then `more`."""
    lines = [line if "$(" in line else f"xdsl-spirv {line}" for line in EXAMPLES.get(name, ())]
    examples = "\n".join(["examples:", *(f"  {line}" for line in lines)]) if lines else ""
    return "\n\n".join(filter(None, (examples, more)))
