"""
Mesa's lavapipe, a Vulkan driver on the CPU, from a newer Debian than the machine's, without root.

The suite's packages are downloaded by apt-get into lists and a cache of their own and unpacked;
what is kept is the shared-library closure of the Vulkan loader and the driver. `PREFIX/run PROGRAM`
then starts a program of the machine (the virtual environment's Python, say) on that C library and
with that driver. The prefix may be moved.

    scripts/fetch_lavapipe.py                       into .lavapipe, from trixie-backports
    scripts/fetch_lavapipe.py --suite sid --layer   the newest, with the validation layer, which
                                                    VVL=1 in front of PREFIX/run turns on

The prefix appears whole or not at all. `--if-missing` (what `make test` uses) never fails: where
lavapipe cannot be had, `PREFIX/unavailable` holds the reason, and tests that need it skip with it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Debian keeps no old sid, so a test run that should be the same tomorrow takes backports.
DEFAULT_SUITE = "trixie-backports"
DEFAULT_ARCHIVE = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LOADERS = {
    "x86_64": ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "aarch64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}
PACKAGES = ["mesa-vulkan-drivers", "libvulkan1", "libstdc++6"]
LAYER_PACKAGE = "vulkan-validationlayers"
DRIVER = "libvulkan_lvp.so"
LAYER = "libVkLayer_khronos_validation.so"
# What a Python of the machine may load besides: it must come from the same C library.
C_LIBRARY = """libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2
libnss_files.so.2 libcrypt.so.1 libgcc_s.so.1 libstdc++.so.6 libz.so.1""".split()

RUN = """#!/bin/sh
# run PROGRAM ARGUMENTS...: a program of this machine on the driver and C library kept here.
here=$(cd "$(dirname "$0")" && pwd)
program=$1; shift
case $program in */*) ;; *) program=$(command -v "$program");; esac
export VK_DRIVER_FILES="$here/lavapipe.json" VK_ICD_FILENAMES="$here/lavapipe.json"
if [ -n "${{VVL:-}}" ] && [ -d "$here/layers" ]; then
  export VK_LAYER_PATH="$here/layers" VK_LAYER_SETTINGS_PATH="$here/layers"
  export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
fi
exec "$here/lib/{loader}" --argv0 "$program" \\
  --library-path "$here/lib:/usr/lib/{triplet}:/lib/{triplet}" "$(readlink -f "$program")" "$@"
"""
LAYER_SETTINGS = """khronos_validation.gpuav_enable = true
khronos_validation.gpuav_shader_instrumentation = true
khronos_validation.gpuav_shared_memory_data_race = true
khronos_validation.gpuav_shader_sanitizer = true
khronos_validation.gpuav_safe_mode = true
"""


class Unavailable(Exception):
    """Lavapipe cannot be had on this machine; the message says why."""


def _command(*arguments: str | Path) -> str:
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
    """The Debian archive that this machine's apt uses."""
    sources = [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]
    for file in sources:
        text = file.read_text(errors="replace") if file.is_file() else ""
        for uri in re.findall(r"^(?:URIs:|deb(?:\s+\[.*?\])?)\s+(\S+)", text, re.MULTILINE):
            if uri.rstrip("/").endswith("/debian"):
                return uri
    return DEFAULT_ARCHIVE


def _download(suite: str, packages: list[str], work: Path) -> Path:
    """Download `packages` and what they depend on, and unpack all of it; returns where to."""
    for folder in ("sources", "lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    base = suite.removesuffix("-backports")
    (work / "sources/lavapipe.sources").write_text(
        f"Types: deb\nURIs: {_archive()}\nSuites: {' '.join(dict.fromkeys([base, suite]))}\n"
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
    apt = ["apt-get", "-qq", "-y", *(f"-o{key}={value}" for key, value in options.items())]
    _command(*apt, "update", "--error-on=any")
    _command(*apt, "--download-only", "-t", suite, "install", *packages)
    unpacked = work / "unpacked"
    archives = sorted((work / "cache/archives").glob("*.deb"))
    if not archives:
        raise Unavailable(f"apt-get downloaded no package of {suite}")
    for archive in archives:
        _command("dpkg-deb", "-x", archive, unpacked)
    return unpacked


def _libraries(unpacked: Path) -> dict[str, Path]:
    """Every shared library of the unpacked packages by file name, links followed."""
    found: dict[str, Path] = {}
    for path in unpacked.rglob("*.so*"):
        target = path
        while target.is_symlink():
            link = target.readlink()
            # An absolute link means the packages' root, not this machine's.
            target = (
                unpacked / link.relative_to("/") if link.is_absolute() else target.parent / link
            )
        if target.is_file():
            found.setdefault(path.name, target)
    return found


def _closure(roots: list[str], libraries: dict[str, Path], loader: Path) -> set[str]:
    """The names of `roots` and of every library they load, as the loader itself finds them."""
    path = ":".join(sorted({str(p.parent) for p in libraries.values()}))
    names = set(roots)
    for root in roots:
        listed = _command(loader, "--library-path", path, "--list", libraries[root])
        names.update(re.findall(r"^\s*(\S+) => ", listed, re.MULTILINE))
    return names & libraries.keys()


def _lay_out(unpacked: Path, prefix: Path, layer: bool) -> None:
    """Copy what is needed of `unpacked` into `prefix` and write `run` and the manifests."""
    triplet, loader = LOADERS[platform.machine()]
    libraries = _libraries(unpacked)
    roots = ["libvulkan.so.1", DRIVER, *([LAYER] if layer else [])]
    missing = [name for name in [*roots, loader] if name not in libraries]
    if missing:
        raise Unavailable(f"the packages hold no {', '.join(missing)}")
    names = _closure(roots, libraries, libraries[loader]) | set(C_LIBRARY) & libraries.keys()
    (prefix / "lib").mkdir(parents=True)
    for name in sorted(names | {loader}):
        shutil.copyfile(libraries[name], prefix / "lib" / name)
    (prefix / "lib" / loader).chmod(0o755)
    icd = {"api_version": "1.4.335", "library_path": f"./lib/{DRIVER}"}
    manifest = {"file_format_version": "1.0.1", "ICD": icd}
    (prefix / "lavapipe.json").write_text(json.dumps(manifest))
    (prefix / "run").write_text(RUN.format(triplet=triplet, loader=loader))
    (prefix / "run").chmod(0o755)
    if not layer:
        return
    source = next(unpacked.rglob("VkLayer_khronos_validation.json"))
    description = json.loads(source.read_text())
    description["layer"]["library_path"] = f"../lib/{LAYER}"
    (prefix / "layers").mkdir()
    (prefix / "layers" / source.name).write_text(json.dumps(description))
    (prefix / "layers/vk_layer_settings.txt").write_text(LAYER_SETTINGS)


def fetch(suite: str, prefix: Path, layer: bool) -> None:
    """
    Make `prefix` hold lavapipe of a Debian `suite`, replacing what is there.

    Raises `Unavailable` with the cause, leaving nothing behind, if this machine cannot have it.
    """
    if platform.system() != "Linux" or platform.machine() not in LOADERS:
        raise Unavailable(f"Debian's lavapipe runs on Linux, not {platform.system()}")
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Unavailable(f"this machine has no {program}")
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix=f"{prefix.name}-new-") as folder:
        packages = PACKAGES + ([LAYER_PACKAGE] if layer else [])
        unpacked = _download(suite, packages, Path(folder, "apt"))
        made = Path(folder, "prefix")
        _lay_out(unpacked, made, layer)
        _command(made / "run", sys.executable, "-c", "import ctypes; ctypes.CDLL('libvulkan.so.1')")
        shutil.rmtree(prefix, ignore_errors=True)
        os.rename(made, prefix)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch the lavapipe Vulkan driver, without root.")
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="Debian suite (%(default)s)")
    parser.add_argument("--prefix", type=Path, default=ROOT / ".lavapipe", help="where to")
    parser.add_argument("--layer", action="store_true", help="also the Khronos validation layer")
    parser.add_argument("--if-missing", action="store_true", help="only if not there; never fail")
    arguments = parser.parse_args()
    prefix: Path = arguments.prefix.resolve()
    unavailable = prefix / "unavailable"
    if arguments.if_missing and ((prefix / "run").exists() or unavailable.exists()):
        return 0
    print(f"fetching lavapipe of {arguments.suite} into {prefix.name}", file=sys.stderr)
    try:
        fetch(arguments.suite, prefix, arguments.layer)
    except (Unavailable, OSError, subprocess.TimeoutExpired) as error:
        print(f"no lavapipe: {error}", file=sys.stderr)
        if not arguments.if_missing:
            return 1
        prefix.mkdir(parents=True, exist_ok=True)
        unavailable.write_text(f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
