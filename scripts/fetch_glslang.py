"""
Fetches recent glslang and SPIRV-Tools from Debian sid (see scripts/debian.py).

    scripts/fetch_glslang.py            into .glslang; `.glslang/run .glslang/bin/glslang x.comp`

The serialization tests compile their shaders with glslang. They use this spirv-val where PyPI's is
too old for an extension.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import debian

SUITE = "sid"
PACKAGES = ["glslang-tools", "spirv-tools"]
PROGRAMS = ["glslang", "spirv-val"]


def lay_out(unpacked: Path, prefix: Path) -> None:
    """Copies the programs and the libraries they load into `prefix`, and writes `run`."""
    _, loader = debian.machine()
    libraries = debian.libraries_of(unpacked)
    programs = {name: unpacked / "usr" / "bin" / name for name in PROGRAMS}
    missing = [name for name, path in programs.items() if not path.exists()]
    if loader not in libraries or missing:
        raise debian.Unavailable(f"{' and '.join(PACKAGES)} of {SUITE} do not contain {PROGRAMS}")
    names = debian.closure(PROGRAMS, {**libraries, **programs}, libraries[loader])
    for folder in ("bin", "lib"):
        (prefix / folder).mkdir(parents=True)
    for name, path in programs.items():
        shutil.copyfile(path.resolve(), prefix / "bin" / name)
        (prefix / "bin" / name).chmod(0o755)
    for name in sorted((names | {loader}) - set(PROGRAMS)):
        shutil.copyfile(libraries[name], prefix / "lib" / name)
    debian.write_run(prefix)
    for name in PROGRAMS:
        debian.command(prefix / "run", prefix / "bin" / name, "--version")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch Khronos' tools, without root.")
    return debian.main(
        "glslang",
        parser,
        lambda _, prefix: debian.fetch(SUITE, PACKAGES, prefix, lay_out),
        renew=debian.write_run,
    )


if __name__ == "__main__":
    sys.exit(main())
