"""
Lists and compiles the modules of ggml's build.

ggml's generator `vulkan-shaders-gen.cpp` decides which shaders are compiled with which defines,
and calls `glslc` for each. This module builds the generator with the features of the available
compiler and runs it with a fake `glslc` that records its arguments. A module is compiled on first
use, by glslang with glslc's options, and by `spirv-opt -O` where ggml uses it. The compiler keeps
debug names (ggml's build strips them), because launches set push constants by name.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHADERS = Path("src/ggml-vulkan/vulkan-shaders")
FEATURES = {
    "coopmat": "COOPMAT",
    "coopmat2": "COOPMAT2",
    "coopmat2_decode_vector": "COOPMAT2_DECODE_VECTOR",
    "integer_dot": "INTEGER_DOT",
    "bfloat16": "BFLOAT16",
    "float_e2m1": "FLOAT_E2M1",
    "float_e4m3": "FLOAT_E4M3",
}
"""ggml's feature test of each define GGML_VULKAN_*_GLSLC_SUPPORT."""

RECORDER = """#!/bin/sh
for part; do [ "$last" = -o ] && output=$part; last=$part; done
printf '%s\\n' "$@" > "$output.arguments"
"""

PREAMBLE = "#extension GL_GOOGLE_include_directive : require"
"""Options of glslang that glslc implies."""


class BuildError(Exception):
    """Raised if a compiler or ggml's generator fails. The message contains its output."""


@dataclass(frozen=True)
class Module:
    """A module of ggml's build. `name` is ggml's name, `source` the file name of the shader."""

    name: str
    path: Path
    target: str
    optimize: bool
    defines: tuple[str, ...]

    @property
    def source(self) -> str:
        return self.path.name

    @property
    def facts(self) -> dict[str, object]:
        """Returns the module's entry in the results file."""
        return {
            "name": self.name,
            "source": self.source,
            "target": self.target,
            "optimize": self.optimize,
            "defines": list(self.defines),
        }


def run(command: Sequence[str | Path]) -> str:
    """Returns the output of a command. Raises `BuildError` if it fails."""
    line = [str(part) for part in command]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"the command failed: {shlex.join(line)}\n{done.stdout}{done.stderr}")
    return done.stdout


def find_glslang() -> list[str]:
    """Returns glslang's command: from GLSLANG, from the project's folder, or from PATH."""
    if "GLSLANG" in os.environ:
        return shlex.split(os.environ["GLSLANG"])
    prefix = ROOT / ".glslang"
    if (prefix / "run").exists():
        return [str(prefix / "run"), str(prefix / "bin" / "glslang")]
    if program := shutil.which("glslang") or shutil.which("glslangValidator"):
        return [program]
    raise BuildError("glslang is not installed: run `make glslang`, or set GLSLANG")


def find_optimizer() -> list[str]:
    """Returns spirv-opt's command: from SPIRV_OPT, from this environment, or from PATH."""
    if "SPIRV_OPT" in os.environ:
        return shlex.split(os.environ["SPIRV_OPT"])
    own = Path(sys.executable).parent / "spirv-opt"
    if program := str(own) if own.exists() else shutil.which("spirv-opt"):
        return [program]
    raise BuildError("spirv-opt is not installed: install SPIRV-Tools, or set SPIRV_OPT")


class Checkout:
    """A checkout of ggml (or llama.cpp's `ggml` folder) with a scratch folder for builds."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root = root
        self.shaders = root / SHADERS
        self.scratch = scratch
        if not (self.shaders / "vulkan-shaders-gen.cpp").exists():
            raise BuildError(
                f"{self.shaders} has no vulkan-shaders-gen.cpp: not a checkout of ggml"
            )
        scratch.mkdir(parents=True, exist_ok=True)
        self.glslang = find_glslang()
        self.optimizer = find_optimizer()

    def features(self) -> list[str]:
        """Returns ggml's feature tests that the compiler passes."""
        output = self.scratch / "feature.spv"
        passed: list[str] = []
        for test, name in FEATURES.items():
            source = self.shaders / "feature-tests" / f"{test}.comp"
            line = [*self.glslang, "-V", "--target-env", "vulkan1.3", source, "-o", output]
            try:
                run(line)
            except (BuildError, OSError):
                continue
            passed.append(f"GGML_VULKAN_{name}_GLSLC_SUPPORT")
        return passed

    def modules(self) -> list[Module]:
        """Returns every module that ggml's generator compiles, by name."""
        recorder = self.scratch / "glslc"
        recorder.write_text(RECORDER)
        recorder.chmod(0o755)
        generator = self.scratch / "generator"
        defines = [f"-D{name}" for name in self.features()]
        source = self.shaders / "vulkan-shaders-gen.cpp"
        run(["g++", "-std=c++17", "-O0", "-pthread", *defines, source, "-o", generator])
        output = self.scratch / "modules"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        for shader in sorted(self.shaders.glob("*.comp")):
            where = ["--output-dir", output, "--target-hpp", output / "x.hpp"]
            target = ["--target-cpp", self.scratch / "x.cpp"]
            line = [generator, "--glslc", recorder, "--source", shader, *where, *target]
            subprocess.run([str(part) for part in line], capture_output=True, check=False)
        return [_module(file) for file in sorted(output.glob("*.arguments"))]

    def compile(
        self, module: Module, options: Sequence[str] = (), source: Path | None = None
    ) -> bytes:
        """Returns a module's binary, cached on disk. `source` replaces the shader's file."""
        path = source or module.path
        line = [*self.glslang, "-V", "--target-env", module.target, *options]
        line += ["-S", "comp", f"-P{PREAMBLE}", f"-I{self.shaders}", *module.defines, str(path)]
        key = hashlib.sha256(repr((line, module.optimize, self._stamp(path))).encode()).hexdigest()
        output = self.scratch / "binaries" / f"{module.name}-{key[:16]}.spv"
        if not output.exists():
            output.parent.mkdir(exist_ok=True)
            plain = output.with_suffix(f".{os.getpid()}")
            run([*line, "-o", plain])
            if module.optimize:
                self._optimize(plain, module.target)
            plain.rename(output)
        return output.read_bytes()

    def _optimize(self, file: Path, target: str) -> None:
        """Optimizes a file, unless spirv-opt is too old for one of its capabilities."""
        try:
            run([*self.optimizer, "-O", f"--target-env={target}", file, "-o", file])
        except BuildError as error:
            if "Invalid capability" not in str(error):
                raise

    def _stamp(self, path: Path) -> list[float]:
        return [path.stat().st_mtime, *(p.stat().st_mtime for p in self.shaders.glob("*.glsl"))]


def _module(file: Path) -> Module:
    name = file.name.removesuffix(".spv.arguments")
    line = file.read_text().splitlines()
    [target] = [part.partition("=")[2] for part in line if part.startswith("--target-env")]
    [path] = [part for part in line if part.endswith(".comp")]
    defines = tuple(part for part in line if part.startswith("-D"))
    return Module(name, Path(path), target, "-O" in line, defines)
