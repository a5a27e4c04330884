"""
Finds SwiftShader, a Vulkan driver for CPUs, and makes a process use it.

Chromium contains SwiftShader (Debian: `chromium-common`). Like phones without matrix units, it has
no cooperative matrices. Its subgroups have four invocations, and its only types have 32 bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "XDSL_SPIRV_SWIFTSHADER"
"""Environment variable with the path of SwiftShader's library."""

PLACES = (
    "/usr/lib/chromium/libvk_swiftshader.so",
    "/usr/lib/chromium-browser/libvk_swiftshader.so",
    "/opt/google/chrome/libvk_swiftshader.so",
)


def library() -> Path | None:
    """Returns the path of SwiftShader's library, or None if it is not installed."""
    named = os.environ.get(VARIABLE)
    places = [Path(place) for place in ([named] if named else PLACES)]
    return next((place for place in places if place.is_file()), None)


def environment(library: Path, folder: Path) -> Mapping[str, str]:
    """
    Returns environment variables that select this driver. Writes the driver's manifest to `folder`.
    """
    manifest = folder / "swiftshader.json"
    icd = {"library_path": str(library), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    return {
        "VK_DRIVER_FILES": str(manifest),
        "VK_ICD_FILENAMES": str(manifest),
        "VK_LOADER_LAYERS_DISABLE": "~implicit~",
        "XDSL_SPIRV_CACHE": "0",
    }
