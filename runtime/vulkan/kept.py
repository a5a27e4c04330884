"""
Keeps devices open between runs: a second run finds its device and its program ready.

A device is known by its name and by the environment's variables that choose and steer drivers. One
that was lost, that did not answer or that an interrupt ended is opened anew by the next run.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from xdsl_spirv.runtime.vulkan.worker import IsolatedDevice, open_isolated

KEPT = 2
"""Number of devices that stay open; beyond it the least recently used one is closed."""
STEERING = ("VK_", "XDSL_SPIRV_", "LP_", "MESA_", "GALLIUM_", "LD_LIBRARY_PATH")
"""Prefixes of the environment variables that loaders, layers and drivers read."""

_devices: OrderedDict[tuple[object, ...], IsolatedDevice] = OrderedDict()
_lock = threading.RLock()


@contextmanager
def kept_device(name: str | None = None, graphs: bool = False) -> Generator[IsolatedDevice]:
    """A device by its name, or the best one, for one run; raises what `open_isolated` does."""
    with _lock:
        steering = tuple(sorted(v for v in os.environ.items() if v[0].startswith(STEERING)))
        key = (os.getpid(), name, graphs, steering)
        device = _devices.pop(key, None)
        if device is None or not device.worker.alive:
            _close_beyond(KEPT - 1)
            device = open_isolated(name, graphs=graphs)
        _devices[key] = device
        yield device


def close_devices() -> None:
    """Close the devices that are kept."""
    with _lock:
        _close_beyond(0)


def _close_beyond(count: int) -> None:
    """Closes the oldest devices, except devices of a process that this one was forked from."""
    while len(_devices) > count:
        key, device = _devices.popitem(last=False)
        if key[0] == os.getpid():
            device.close()


atexit.register(close_devices)
