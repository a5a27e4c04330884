"""
Installs programs and libraries of a newer Debian into a folder (prefix), without root.

apt-get downloads packages of a suite with separate lists and caches. `dpkg-deb` unpacks them. Only
the wanted files and the shared libraries that they load are kept. `PREFIX/run PROGRAM` starts a
program with the prefix's C library. A prefix can be moved, and is created completely or not at
all. With `--if-missing` (used by `make test`) nothing fails: if a prefix cannot be made,
`PREFIX/unavailable` contains the reason, and tests that need the prefix are skipped with it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = "DEBIAN_ARCHIVE"
"""Environment variable with the URI of a Debian archive, for machines whose apt has none."""

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LOADERS = {
    "x86_64": ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "aarch64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}

RUN = """#!/bin/sh
# run PROGRAM ARGUMENTS...: a program of this machine on the driver and C library kept here.
here=$(cd "$(dirname "$0")" && pwd)
program=$1; shift
case $program in */*) ;; *) program=$(command -v "$program");; esac
export VK_DRIVER_FILES="$here/lavapipe.json" VK_ICD_FILENAMES="$here/lavapipe.json"
# The machine's own implicit layers (a desktop has some) are of another C library.
export VK_LOADER_LAYERS_DISABLE='~implicit~'
[ ! -d "$here/layers" ] || export VK_LAYER_PATH="$here/layers"
# Large pages save glslang, which allocates tables for every shader, a third of its time.
export GLIBC_TUNABLES="${{GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}}"
if [ -n "${{VVL:-}}" ] && [ -d "$here/layers" ]; then
  export VK_LAYER_SETTINGS_PATH="$here/layers" VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
fi
exec "$here/lib/{loader}" --argv0 "$program" --library-path "$here/lib" \\
  "$(readlink -f "$program")" "$@"
"""
"""
The launcher of a prefix. The loader searches the machine's folders after the folders that the
program names, so that a Python loads its own library and not that of another Python.
"""


class Unavailable(Exception):
    """Raised if this machine cannot get the packages. The message is the reason."""


def command(*arguments: str | Path) -> str:
    done = subprocess.run(
        [str(a) for a in arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )
    if done.returncode:
        lines = [x for x in done.stderr.splitlines() if not x.startswith("W:")]
        cause = " / ".join(lines[-3:]) or f"exit status {done.returncode}"
        raise Unavailable(f"{Path(arguments[0]).name} failed: {cause}")
    return done.stdout


def _archive() -> str:
    if named := os.environ.get(ARCHIVE):
        return named
    sources = [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]
    for file in sources:
        text = file.read_text(errors="replace") if file.is_file() else ""
        for uri in re.findall(r"^(?:URIs:|deb(?:\s+\[.*?\])?)\s+(\S+)", text, re.MULTILINE):
            if uri.rstrip("/").endswith("/debian"):
                return uri
    raise Unavailable(
        f"this machine's apt names no Debian archive: set {ARCHIVE} to the URI of one"
    )


def _apt(suite: str, work: Path, kind: str = "deb", machine: str = "") -> list[str]:
    """
    Sets up `work` as a separate root for apt-get and a suite. Returns the command that uses it.
    `kind` is `deb` or `deb-src`.

    `machine` is Debian's name of another architecture to download packages for.
    """
    for folder in ("sources", "lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    base = suite.removesuffix("-backports")
    (work / "sources/suite.sources").write_text(
        f"Types: {kind}\nURIs: {_archive()}\nSuites: {' '.join(dict.fromkeys([base, suite]))}\n"
        f"Components: main\nSigned-By: {KEYRING}\n"
    )
    options = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": work / "sources",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": work,
        "Dir::State::Lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    if machine:
        options |= {"APT::Architecture": machine, "APT::Architectures": machine}
    apt = ["apt-get", "-qq", "-y", *(f"-o{key}={value}" for key, value in options.items())]
    command(*apt, "update", "--error-on=any")
    return apt


def download(suite: str, packages: list[str], work: Path, machine: str = "") -> Path:
    """
    Downloads `packages` of a suite with their dependencies, and unpacks them in `work`. Returns the
    folder.
    """
    apt = _apt(suite, work, machine=machine)
    command(*apt, "--download-only", "-t", suite, "install", *packages)
    unpacked = work / "unpacked"
    archives = sorted((work / "cache/archives").glob("*.deb"))
    if not archives:
        raise Unavailable(f"apt-get downloaded no package of {suite}")
    for archive in archives:
        command("dpkg-deb", "-x", archive, unpacked)
    return unpacked


def download_source(suite: str, package: str, work: Path) -> Path:
    """Downloads a source package and unpacks the upstream archive. Returns the folder."""
    apt = _apt(suite, work, "deb-src")
    command("env", "-C", work, *apt, "--download-only", "-t", suite, "source", package)
    archives = sorted(work.glob("*.orig.tar.*[!c]"))
    if not archives:
        raise Unavailable(f"apt-get downloaded no source of {package}")
    command("tar", "-xf", archives[0], "-C", work)
    return next(path for path in work.iterdir() if path.name.startswith(f"{package}-"))


def libraries_of(unpacked: Path) -> dict[str, Path]:
    """Returns every shared library of the unpacked packages by file name, links resolved."""
    libraries: dict[str, Path] = {}
    for path in unpacked.rglob("*.so*"):
        target = path
        while target.is_symlink():
            link = target.readlink()
            # An absolute link is relative to the packages' root, not to this machine's.
            target = (
                unpacked / link.relative_to("/") if link.is_absolute() else target.parent / link
            )
        if target.is_file():
            libraries.setdefault(path.name, target)
    return libraries


def closure(roots: list[str], libraries: dict[str, Path], *loader: Path) -> set[str]:
    """
    Returns the names of `roots` and of every library they load, as the dynamic loader resolves
    them.

    For another architecture, `loader` starts with an emulator of that architecture.
    """
    path = ":".join(sorted({str(p.parent) for p in libraries.values()}))
    names = set(roots)
    for root in roots:
        listed = command(*loader, "--library-path", path, "--list", libraries[root])
        names.update(re.findall(r"^\s*(\S+) => ", listed, re.MULTILINE))
    return names & libraries.keys()


def machine() -> tuple[str, str]:
    """Returns this machine's library folder and dynamic loader. Raises `Unavailable`."""
    if platform.system() != "Linux" or platform.machine() not in LOADERS:
        raise Unavailable(f"Debian's packages run on Linux, not {platform.system()}")
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Unavailable(f"this machine has no {program}")
    return LOADERS[platform.machine()]


def write_run(prefix: Path) -> None:
    """Writes `PREFIX/run`, which uses the libraries in `PREFIX/lib`."""
    _, loader = machine()
    (prefix / "lib" / loader).chmod(0o755)
    (prefix / "run").write_text(RUN.format(loader=loader))
    (prefix / "run").chmod(0o755)


def fetch(
    suite: str, packages: list[str], prefix: Path, lay_out: Callable[[Path, Path], None]
) -> None:
    """
    Replaces `prefix` by the folder that `lay_out(unpacked, staging)` makes from the unpacked
    packages.

    Raises `Unavailable` with the cause and creates nothing if this machine cannot get the
    packages.
    """
    machine()
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix=f"{prefix.name}-new-") as folder:
        staging = Path(folder, "prefix")
        lay_out(download(suite, packages, Path(folder, "apt")), staging)
        shutil.rmtree(prefix, ignore_errors=True)
        os.rename(staging, prefix)


def main(
    name: str,
    parser: argparse.ArgumentParser,
    make: Callable[[argparse.Namespace, Path], None],
    parts: tuple[str, ...] = ("run",),
    renew: Callable[[Path], None] = lambda prefix: None,
) -> int:
    """
    Runs the command line of a script that makes a prefix with `make(arguments, prefix)`.

    A prefix without one of the `parts` (made by an older script) is made again. For a prefix with
    all parts, `renew(prefix)` updates its launcher.
    """
    parser.add_argument("--prefix", type=Path, default=ROOT / f".{name}", help="where to")
    parser.add_argument("--if-missing", action="store_true", help="only if missing; never fail")
    arguments = parser.parse_args()
    prefix: Path = arguments.prefix.resolve()
    unavailable = prefix / "unavailable"
    whole = all((prefix / part).exists() for part in parts)
    if arguments.if_missing and (whole or unavailable.exists()):
        if whole:
            renew(prefix)
        return 0
    print(f"fetching {name} into {prefix.name}", file=sys.stderr)
    try:
        make(arguments, prefix)
    except (Unavailable, OSError, subprocess.TimeoutExpired) as error:
        print(f"no {name}: {error}", file=sys.stderr)
        if not arguments.if_missing:
            return 1
        prefix.mkdir(parents=True, exist_ok=True)
        unavailable.write_text(f"{error}\n")
    return 0
