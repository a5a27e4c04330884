"""
Mesa's lavapipe, a Vulkan driver on the CPU, and Khronos' validation layer, as scripts/debian.py has
it: `PREFIX/run PROGRAM` starts a program of the machine (the virtual environment's Python, say)
with that driver. The layer is there for who asks for it; VVL=1 in front of PREFIX/run turns it on
for everyone, with its checks of what shaders do.

    scripts/fetch_lavapipe.py               into .lavapipe, from trixie-backports
    scripts/fetch_lavapipe.py --suite sid   the newest
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import debian

# Debian keeps no old sid, so a test run that should be the same tomorrow takes backports.
DEFAULT_SUITE = "trixie-backports"
PACKAGES = ["mesa-vulkan-drivers", "libvulkan1", "libstdc++6"]
LAYER_PACKAGE = "vulkan-validationlayers"
DRIVER = "libvulkan_lvp.so"
LAYER = "libVkLayer_khronos_validation.so"
# What a Python of the machine may load besides: it must come from the same C library.
C_LIBRARY = """libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2
libnss_files.so.2 libcrypt.so.1 libgcc_s.so.1 libstdc++.so.6 libz.so.1""".split()

LAYER_SETTINGS = """khronos_validation.gpuav_enable = true
khronos_validation.gpuav_shader_instrumentation = true
khronos_validation.gpuav_shared_memory_data_race = true
khronos_validation.gpuav_shader_sanitizer = true
khronos_validation.gpuav_safe_mode = true
"""


def lay_out(unpacked: Path, prefix: Path, layer: bool) -> None:
    """Copy what is needed of `unpacked` into `prefix` and write `run` and the manifests."""
    _, loader = debian.machine()
    libraries = debian.libraries_of(unpacked)
    roots = ["libvulkan.so.1", DRIVER, *([LAYER] if layer else [])]
    missing = [name for name in [*roots, loader] if name not in libraries]
    if missing:
        raise debian.Unavailable(f"the packages hold no {', '.join(missing)}")
    names = debian.closure(roots, libraries, libraries[loader]) | set(C_LIBRARY) & libraries.keys()
    (prefix / "lib").mkdir(parents=True)
    for name in sorted(names | {loader}):
        shutil.copyfile(libraries[name], prefix / "lib" / name)
    icd = {"api_version": "1.4.335", "library_path": f"./lib/{DRIVER}"}
    manifest = {"file_format_version": "1.0.1", "ICD": icd}
    (prefix / "lavapipe.json").write_text(json.dumps(manifest))
    if layer:
        _add_layer(unpacked, prefix)
    debian.write_run(prefix)
    probe = "import ctypes; ctypes.CDLL('libvulkan.so.1')"
    debian.command(prefix / "run", sys.executable, "-c", probe)


def _add_layer(unpacked: Path, prefix: Path) -> None:
    """The validation layer's manifest and settings."""
    source = next(unpacked.rglob("VkLayer_khronos_validation.json"))
    description = json.loads(source.read_text())
    description["layer"]["library_path"] = f"../lib/{LAYER}"
    (prefix / "layers").mkdir()
    (prefix / "layers" / source.name).write_text(json.dumps(description))
    (prefix / "layers/vk_layer_settings.txt").write_text(LAYER_SETTINGS)


def fetch(arguments: argparse.Namespace, prefix: Path) -> None:
    """Make `prefix` hold lavapipe."""
    layer = not arguments.no_layer
    packages = PACKAGES + ([LAYER_PACKAGE] if layer else [])
    debian.fetch(
        arguments.suite, packages, prefix, lambda unpacked, into: lay_out(unpacked, into, layer)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch the lavapipe Vulkan driver, without root.")
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="Debian suite (%(default)s)")
    parser.add_argument("--no-layer", action="store_true", help="without the validation layer")
    return debian.main("lavapipe", parser, fetch, ("run", "layers"))


if __name__ == "__main__":
    sys.exit(main())
