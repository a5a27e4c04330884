"""
Collects modules of six SPIR-V producers as test inputs for the readers.

    python scripts/make_corpus.py .corpus            # all installed producers
    python scripts/make_corpus.py .corpus --small    # a few modules of each
    python scripts/make_corpus.py .corpus --install  # iree-compile and slangpy from PyPI first
    python scripts/make_corpus.py .suites --suite ~/SPIRV-Cross --suite ~/glslang

git ignores the folder. glslang and glslc compile the shaders of tests/serialization/glsl, slang
those in tests/serialization/slang, iree-compile linear algebra, mlir-translate-22 and our encoder
the modules of tests/filecheck. A missing producer is skipped with a message.

With `--suite` the modules come from a checkout of another project (SPIRV-Cross, glslang, wgpu,
SPIRV-Tools): its binaries, its assembly, and its GLSL and HLSL compiled by glslang.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "serialization"
PACKAGES = ("iree-base-compiler", "slangpy")
Made = Iterator[tuple[str, bytes]]


class Missing(Exception):
    """Raised if a producer is not installed. The message says how to install it."""


def run(command: Sequence[str | Path], data: bytes | None = None) -> bytes | None:
    """Returns the output of a program, or None if it fails."""
    line = [str(part) for part in command]
    done = subprocess.run(line, input=data, capture_output=True, timeout=300, check=False)
    return done.stdout if done.returncode == 0 else None


def compiled(command: Sequence[str | Path], output: Path) -> bytes | None:
    """Returns the file that a compiler writes, or None if it fails."""
    output.unlink(missing_ok=True)
    if run([*command, "-o", output]) is None or not output.exists():
        return None
    return output.read_bytes()


def find_glslang() -> list[str]:
    """Returns the command of glslang."""
    prefix = ROOT / ".glslang"
    if "GLSLANG" in os.environ:
        return shlex.split(os.environ["GLSLANG"])
    if (prefix / "run").exists():
        return [str(prefix / "run"), str(prefix / "bin" / "glslang")]
    if compiler := shutil.which("glslang") or shutil.which("glslangValidator"):
        return [compiler]
    raise Missing("glslang is not installed: run `make glslang`")


def glslang(folder: Path, small: bool) -> Made:
    command = find_glslang()
    targets = ["vulkan1.3"] if small else ["vulkan1.1", "vulkan1.2", "vulkan1.3"]
    debug = [()] if small else [(), ("-g",), ("-gVS",), ("-Od",)]
    for source, target, options in itertools.product(shaders(), targets, debug):
        line = [*command, "--target-env", target, *options, source]
        data = compiled(line, folder / "x.spv")
        if data:
            yield f"{source.stem}-{target}{''.join(options)}", data


def glslc(folder: Path, small: bool) -> Made:
    command = shlex.split(os.environ.get("GLSLC", "")) or [shutil.which("glslc") or ""]
    if not command[0]:
        raise Missing("glslc is not installed: install Debian's package glslc, or set GLSLC")
    options = ["-O"] if small else ["-O0", "-O", "-Os", "-g"]
    targets = ["vulkan1.2"] if small else ["vulkan1.1", "vulkan1.2", "vulkan1.3"]
    for source, option, target in itertools.product(shaders(), options, targets):
        line = [*command, f"--target-env={target}", option, source]
        data = compiled(line, folder / "x.spv")
        if data:
            yield f"{source.stem}{option}-{target}", data


def shaders() -> list[Path]:
    return sorted((TESTS / "glsl").glob("*.comp"))


def iree(folder: Path, small: bool, peers: Path) -> Made:
    command = peer(peers, "iree-compile")
    targets = ["ampere"] if small else ["ampere", "rdna3", "adreno", "valhall4"]
    for (name, text), target in itertools.product(linear_algebra(small), targets):
        source, out = folder / "x.mlir", folder / "iree"
        source.write_text(text)
        shutil.rmtree(out, ignore_errors=True)
        options = [
            "--iree-hal-target-device=vulkan",
            f"--iree-vulkan-target={target}",
            f"--iree-hal-dump-executable-binaries-to={out}",
        ]
        run([command, *options, source, "-o", folder / "x.vmfb"])
        for number, file in enumerate(sorted(out.glob("*.spv")) if out.exists() else ()):
            yield f"{name}-{target}-{number}", file.read_bytes()


def linear_algebra(small: bool) -> Iterator[tuple[str, str]]:
    """Yields functions on tensors by name."""
    shapes = (
        [(64, 128, 64)] if small else [(64, 128, 64), (33, 70, 65), (1, 256, 512), (512, 64, 8)]
    )
    types = [("f16", "f32")] if small else [("f16", "f32"), ("f32", "f32"), ("i8", "i32")]
    for (m, k, n), (given, result) in itertools.product(shapes, types):
        zero = "0.0" if result.startswith("f") else "0"
        a, b, c = (
            f"tensor<{m}x{k}x{given}>",
            f"tensor<{k}x{n}x{given}>",
            f"tensor<{m}x{n}x{result}>",
        )
        yield (
            f"matmul-{m}x{k}x{n}-{given}",
            f"""func.func @f(%a: {a}, %b: {b}) -> {c} {{
              %z = arith.constant {zero} : {result}
              %e = tensor.empty() : {c}
              %f = linalg.fill ins(%z : {result}) outs(%e : {c}) -> {c}
              %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%f : {c}) -> {c}
              return %r : {c}
            }}""",
        )
    for size in [128] if small else [128, 1000, 4096]:
        t = f"tensor<{size}x64xf32>"
        yield (
            f"softmax-{size}",
            f"""func.func @f(%a: {t}) -> {t} {{
              %e = tensor.empty() : {t}
              %r = linalg.softmax dimension(1) ins(%a : {t}) outs(%e : {t}) -> {t}
              return %r : {t}
            }}""",
        )


def peer(peers: Path, program: str) -> Path:
    """
    Returns the path of a program in the environment of other compilers.

    Raises `Missing` if the program is not installed.
    """
    path = peers / "bin" / program
    if not path.exists():
        raise Missing(f"{program} is not installed: use --install")
    return path


def install(peers: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", peers], check=True)
    pip = [peers / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, *PACKAGES], check=True)


def slang(folder: Path, small: bool, peers: Path) -> Made:
    """Yields modules compiled by Slang from PyPI's slangpy, through its C interface."""
    library = next(
        iter(peers.glob("lib/python*/site-packages/slangpy/libslang-compiler.so*")), None
    )
    if library is None:
        raise Missing("slangpy is not installed: use --install")
    compiler = Slang(ctypes.CDLL(str(library)))
    for source in sorted((TESTS / "slang").glob("*.slang")):
        text = source.read_text()
        entries = re.findall(r"void (\w+)\(uint3 id", text)
        levels = [1] if small else [0, 1, 2, 3]
        for entry, level, debug in itertools.product(entries, levels, [0] if small else [0, 2]):
            data = compiler.compile(text, entry, level, debug)
            if data:
                yield f"{source.stem}-{entry}-O{level}{'-g' if debug else ''}", data


class Slang:
    """The functions of Slang's C interface that compile one entry point."""

    SPIRV = 6
    LANGUAGE = 1
    COMPUTE = 6

    def __init__(self, library: ctypes.CDLL):
        self.library = library
        for name in ("spCreateSession", "spCreateCompileRequest", "spGetEntryPointCode"):
            getattr(library, name).restype = ctypes.c_void_p
        self.session = ctypes.c_void_p(library.spCreateSession(None))

    def compile(self, text: str, entry: str, level: int, debug: int) -> bytes | None:
        library = self.library
        request = ctypes.c_void_p(library.spCreateCompileRequest(self.session))
        library.spSetCodeGenTarget(request, self.SPIRV)
        library.spSetOptimizationLevel(request, level)
        library.spSetDebugInfoLevel(request, debug)
        unit = library.spAddTranslationUnit(request, self.LANGUAGE, b"kernels")
        library.spAddTranslationUnitSourceString(request, unit, b"kernels.slang", text.encode())
        index = library.spAddEntryPoint(request, unit, entry.encode(), self.COMPUTE)
        if library.spCompile(request) != 0:
            return None
        size = ctypes.c_size_t()
        code = library.spGetEntryPointCode(request, index, ctypes.byref(size))
        binary = ctypes.string_at(code, size.value) if code else None
        library.spDestroyCompileRequest(request)
        return binary


STAGES = "comp vert frag geom tesc tese mesh task rgen rchit rmiss rint rahit rcall".split()
OUTPUTS = ("reference", "baseResults")
"""Folders of expected output, which tests do not compile."""


def suite(checkout: Path, folder: Path) -> Made:
    """Yields the modules of a project's tests by path."""
    command = [*find_glslang(), "-V", "--target-env", "vulkan1.3", "--amb", "--aml", "--quiet"]
    for source in sorted(p for p in checkout.rglob("*") if p.is_file()):
        path = source.relative_to(checkout)
        kind = path.suffix.removeprefix(".")
        data: bytes | None = None
        if any(part in OUTPUTS for part in path.parts[:-1]):
            continue
        if kind == "spv":
            data = source.read_bytes()
        elif kind == "spvasm" or ".asm." in path.name:
            data = assemble_file(source)
        elif kind in STAGES:
            hlsl = ["-D", "-e", "main"] if "hlsl" in path.name else []
            data = compiled([*command, *hlsl, "-g", source], folder / "x.spv")
        if data:
            yield ".".join(path.parts), data


def assemble_file(source: Path) -> bytes | None:
    """Returns the binary of an assembly file. Prints a message if only spirv-as accepts it."""
    from xdsl_spirv.serialization.text.assembler import assemble
    from xdsl_spirv.tools import khronos

    try:
        return assemble(source.read_text()).encode()
    except ValueError as error:
        data = run([khronos.tool("spirv-as"), "--preserve-numeric-ids", source, "-o", "-"])
        if data:
            print(f"{source}: read by spirv-as only: {error}")
        return data


def texts() -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each part of a FileCheck test that contains a `spirv.module`."""
    for path in sorted((ROOT / "tests" / "filecheck").rglob("*.mlir")):
        if "invalid" in path.name:
            continue
        for number, part in enumerate(path.read_text().split("// -----")):
            if "spirv.module" in part:
                yield f"{path.stem}-{number}", part


TRIPLE = (
    "requires #spirv.vce<v1.6, [Shader, Linkage, Float16, Float64, Int8, Int16, Int64, Matrix, "
    "GroupNonUniformArithmetic, GroupNonUniformBallot, GroupNonUniformShuffle, VulkanMemoryModel, "
    "CooperativeMatrixKHR, DotProduct, DotProductInput4x8Bit, DotProductInput4x8BitPacked], "
    "[SPV_KHR_cooperative_matrix]> {"
)


def mlir(folder: Path, small: bool) -> Made:
    command = shutil.which("mlir-translate-22")
    if command is None:
        raise Missing(
            "mlir-translate-22 is not installed: install the Debian package mlir-22-tools"
        )
    step = 8 if small else 1
    for name, text in itertools.islice(texts(), 0, None, step):
        stated = re.sub(r"(spirv\.module (?:@\w+ )?\w+ \w+) \{", rf"\1 {TRIPLE}", text)
        line = [command, "--no-implicit-module", "--serialize-spirv"]
        data = run(line, stated.encode())
        if data:
            yield name, data


def ours(folder: Path, small: bool) -> Made:
    from xdsl.parser import Parser

    from xdsl_spirv.dialects.spirv.module import modules_in
    from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
    from xdsl_spirv.runtime.modules import context
    from xdsl_spirv.serialization.encode.encoder import encode

    step = 8 if small else 1
    for name, text in itertools.islice(texts(), 0, None, step):
        try:
            program = Parser(context(), text).parse_module()
            program.verify()
            UpdateVCEPass().apply(context(), program)
            binaries = [encode(module, names=True) for module in modules_in(program)]
        # The tests contain invalid modules, which any producer may refuse.
        except Exception:
            continue
        for number, data in enumerate(binaries):
            yield f"{name}-{number}", data


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="a few modules of each producer")
    parser.add_argument("--peers", type=Path, help="environment of iree-compile and slangpy")
    parser.add_argument("--install", action="store_true", help="install those on PyPI")
    parser.add_argument(
        "--suite", type=Path, action="append", default=[], help="a checkout of another project"
    )
    arguments = parser.parse_args()
    peers = (arguments.peers or arguments.folder / "peers").absolute()
    if arguments.install and not (peers / "bin" / "iree-compile").exists():
        install(peers)
    small = arguments.small
    producers: dict[str, Callable[[Path], Made]] = {
        "glslang": lambda folder: glslang(folder, small),
        "glslc": lambda folder: glslc(folder, small),
        "iree": lambda folder: iree(folder, small, peers),
        "mlir": lambda folder: mlir(folder, small),
        "slang": lambda folder: slang(folder, small, peers),
        "ours": lambda folder: ours(folder, small),
    }
    if arguments.suite:
        producers = {p.resolve().name: partial(suite, p) for p in arguments.suite}
    total = 0
    for name, make in producers.items():
        count = 0
        target = arguments.folder / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as scratch:
            try:
                for module, data in make(Path(scratch)):
                    (target / f"{module}.spv").write_bytes(data)
                    count += 1
            except Missing as reason:
                print(f"{name}: left out: {reason}")
        print(f"{name}: {count} modules")
        total += count
    print(f"{total} modules")


if __name__ == "__main__":
    main()
