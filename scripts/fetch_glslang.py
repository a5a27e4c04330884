"""
A glslang that knows today's extensions, from Debian sid, as scripts/debian.py has it.

    scripts/fetch_glslang.py            into .glslang; `.glslang/run .glslang/bin/glslang x.comp`

The serialization tests compile their shaders with it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import debian

SUITE = "sid"
PACKAGE = "glslang-tools"
PROGRAM = "glslang"


def lay_out(unpacked: Path, prefix: Path) -> None:
    """Copy the program and the libraries it loads into `prefix`, and write `run`."""
    _, loader = debian.machine()
    libraries = debian.libraries_of(unpacked)
    program = unpacked / "usr" / "bin" / PROGRAM
    if loader not in libraries or not program.exists():
        raise debian.Unavailable(f"{PACKAGE} of {SUITE} holds no {PROGRAM}")
    names = debian.closure([PROGRAM], {**libraries, PROGRAM: program}, libraries[loader])
    for folder in ("bin", "lib"):
        (prefix / folder).mkdir(parents=True)
    shutil.copyfile(program.resolve(), prefix / "bin" / PROGRAM)
    (prefix / "bin" / PROGRAM).chmod(0o755)
    for name in sorted((names | {loader}) - {PROGRAM}):
        shutil.copyfile(libraries[name], prefix / "lib" / name)
    debian.write_run(prefix)
    debian.command(prefix / "run", prefix / "bin" / PROGRAM, "--version")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch Khronos' GLSL compiler, without root.")
    return debian.main(
        "glslang", parser, lambda _, prefix: debian.fetch(SUITE, [PACKAGE], prefix, lay_out)
    )


if __name__ == "__main__":
    sys.exit(main())
