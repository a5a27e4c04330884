"""
Fetches Mesa's lavapipe, a Vulkan driver for CPUs, and Khronos' validation layer.

`PREFIX/run PROGRAM` starts a program of the machine (the virtual environment's Python, for
example) with that driver (see scripts/debian.py). With VVL=1 in the environment, `run` enables the
layer for every program, with its checks of shaders.

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

# Debian removes old versions from sid, so reproducible tests use backports.
DEFAULT_SUITE = "trixie-backports"
PACKAGES = ["mesa-vulkan-drivers", "libvulkan1", "libstdc++6"]
LAYER_PACKAGE = "vulkan-validationlayers"
DRIVER = "libvulkan_lvp.so"
LAYER = "libVkLayer_khronos_validation.so"
# Libraries that the machine's Python may also load: they must match the C library.
C_LIBRARY = """libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2
libnss_files.so.2 libcrypt.so.1 libgcc_s.so.1 libstdc++.so.6 libz.so.1""".split()

LAYER_SETTINGS = """khronos_validation.gpuav_enable = true
khronos_validation.gpuav_shader_instrumentation = true
khronos_validation.gpuav_shared_memory_data_race = true
khronos_validation.gpuav_shader_sanitizer = true
khronos_validation.gpuav_safe_mode = true
"""


def lay_out(unpacked: Path, prefix: Path, layer: bool) -> None:
    """Copies the needed files of `unpacked` into `prefix`, and writes `run` and the manifests."""
    _, loader = debian.machine()
    libraries = debian.libraries_of(unpacked)
    roots = ["libvulkan.so.1", DRIVER, *([LAYER] if layer else [])]
    missing = [name for name in [*roots, loader] if name not in libraries]
    if missing:
        raise debian.Unavailable(f"the packages do not contain {', '.join(missing)}")
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
    source = next(unpacked.rglob("VkLayer_khronos_validation.json"))
    description = json.loads(source.read_text())
    description["layer"]["library_path"] = f"../lib/{LAYER}"
    (prefix / "layers").mkdir()
    (prefix / "layers" / source.name).write_text(json.dumps(description))
    (prefix / "layers/vk_layer_settings.txt").write_text(LAYER_SETTINGS)


def fetch(arguments: argparse.Namespace, prefix: Path) -> None:
    """Makes `prefix` with lavapipe."""
    layer = not arguments.no_layer
    packages = PACKAGES + ([LAYER_PACKAGE] if layer else [])
    debian.fetch(
        arguments.suite, packages, prefix, lambda unpacked, into: lay_out(unpacked, into, layer)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch the lavapipe Vulkan driver, without root.")
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="Debian suite (%(default)s)")
    parser.add_argument("--no-layer", action="store_true", help="without the validation layer")
    return debian.main("lavapipe", parser, fetch, ("run", "layers"), debian.write_run)


if __name__ == "__main__":
    sys.exit(main())
