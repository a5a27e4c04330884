"""
Stores the pipeline cache on disk, so that a driver compiles each kernel only once.

The cache `pipelines` has a file for each device and driver, named by their UUIDs. A digest
precedes the driver's bytes, because a driver may crash on damaged ones. If two processes write at
the same time, one of their files remains, complete.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.caches import cache_folder
from xdsl_spirv.serialization.files import write_atomically

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.physical import DeviceInfo

NAME = "pipelines"
DIGEST = hashlib.sha256().digest_size
LARGEST = 256 << 20
"""Maximum size of a stored cache in bytes."""


def path_for(info: DeviceInfo) -> Path | None:
    """Returns the cache file of a device and driver, or None if the cache is disabled."""
    base = cache_folder(NAME)
    if base is None:
        return None
    parts = [info.device_uuid, info.driver_uuid, info.cache_uuid, info.driver_version, info.name]
    return base / f"{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:32]}.bin"


def load(info: DeviceInfo) -> bytes:
    """Returns the stored cache of a device, empty if it is missing or damaged."""
    path = path_for(info)
    try:
        data = path.read_bytes() if path is not None else b""
    except OSError:
        return b""
    kept = data[DIGEST:]
    return kept if hashlib.sha256(kept).digest() == data[:DIGEST] else b""


def save(info: DeviceInfo, data: bytes) -> None:
    """Writes a cache. Ignores write errors (a full or read-only disk)."""
    path = path_for(info)
    if path is None or not data or len(data) > LARGEST:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(path), hashlib.sha256(data).digest() + data)
    except OSError:
        return
