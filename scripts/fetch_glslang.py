"""
A glslang that knows today's extensions, from Debian sid, without root.

    scripts/fetch_glslang.py            into .glslang; `.glslang/run .glslang/bin/glslang x.comp`

It is laid out as scripts/fetch_lavapipe.py lays out the driver. The serialization tests compile
their shaders with it. The prefix appears whole or not at all; `--if-missing` never fails: where
glslang cannot be had, `PREFIX/unavailable` holds the reason, and tests that need it skip with it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import fetch_lavapipe as debian

SUITE = "sid"
PACKAGE = "glslang-tools"
PROGRAM = "glslang"


def _lay_out(unpacked: Path, prefix: Path) -> None:
    """Copy the program and the libraries it loads into `prefix`, and write `run`."""
    triplet, loader = debian.LOADERS[platform.machine()]
    libraries = debian._libraries(unpacked)
    program = unpacked / "usr" / "bin" / PROGRAM
    if loader not in libraries or not program.exists():
        raise debian.Unavailable(f"{PACKAGE} of {SUITE} holds no {PROGRAM}")
    names = debian._closure([PROGRAM], {**libraries, PROGRAM: program}, libraries[loader])
    for folder in ("bin", "lib"):
        (prefix / folder).mkdir(parents=True)
    shutil.copyfile(program.resolve(), prefix / "bin" / PROGRAM)
    for name in sorted((names | {loader}) - {PROGRAM}):
        shutil.copyfile(libraries[name], prefix / "lib" / name)
    for path in (prefix / "bin" / PROGRAM, prefix / "lib" / loader):
        path.chmod(0o755)
    (prefix / "run").write_text(debian.RUN.format(triplet=triplet, loader=loader))
    (prefix / "run").chmod(0o755)


def fetch(prefix: Path) -> None:
    """Make `prefix` hold glslang. Raises `Unavailable` with the cause, leaving nothing behind."""
    if platform.system() != "Linux" or platform.machine() not in debian.LOADERS:
        raise debian.Unavailable(f"Debian's glslang runs on Linux, not {platform.system()}")
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise debian.Unavailable(f"this machine has no {program}")
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix=f"{prefix.name}-new-") as folder:
        unpacked = debian._download(SUITE, [PACKAGE], Path(folder, "apt"))
        made = Path(folder, "prefix")
        _lay_out(unpacked, made)
        debian._command(made / "run", made / "bin" / PROGRAM, "--version")
        shutil.rmtree(prefix, ignore_errors=True)
        os.rename(made, prefix)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch Khronos' GLSL compiler, without root.")
    parser.add_argument("--prefix", type=Path, default=debian.ROOT / ".glslang", help="where to")
    parser.add_argument("--if-missing", action="store_true", help="only if not there; never fail")
    arguments = parser.parse_args()
    prefix: Path = arguments.prefix.resolve()
    unavailable = prefix / "unavailable"
    if arguments.if_missing and ((prefix / "run").exists() or unavailable.exists()):
        return 0
    print(f"fetching glslang of {SUITE} into {prefix.name}", file=sys.stderr)
    try:
        fetch(prefix)
    except (debian.Unavailable, OSError, subprocess.TimeoutExpired) as error:
        print(f"no glslang: {error}", file=sys.stderr)
        if not arguments.if_missing:
            return 1
        prefix.mkdir(parents=True, exist_ok=True)
        unavailable.write_text(f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
