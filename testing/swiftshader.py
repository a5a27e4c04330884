"""
SwiftShader, a second Vulkan driver for CPUs: where its library is, and how a process takes it.

Chromium brings it along (Debian: `chromium-common`). It has subgroups of four, integers and floats
of 32 bits, and no cooperative matrices: what phones without matrix units have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "XDSL_SPIRV_SWIFTSHADER"
"""An environment variable that names its library."""

PLACES = (
    "/usr/lib/chromium/libvk_swiftshader.so",
    "/usr/lib/chromium-browser/libvk_swiftshader.so",
    "/opt/google/chrome/libvk_swiftshader.so",
)


def library() -> Path | None:
    """Its library on this machine, None if there is none."""
    named = os.environ.get(VARIABLE)
    places = [Path(place) for place in ([named] if named else PLACES)]
    return next((place for place in places if place.is_file()), None)


def environment(library: Path, folder: Path) -> Mapping[str, str]:
    """Variables by which Vulkan's loader finds this driver alone; its manifest goes to `folder`."""
    manifest = folder / "swiftshader.json"
    icd = {"library_path": str(library), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    return {
        "VK_DRIVER_FILES": str(manifest),
        "VK_ICD_FILENAMES": str(manifest),
        "VK_LOADER_LAYERS_DISABLE": "~implicit~",
        "XDSL_SPIRV_CACHE": "0",
    }
