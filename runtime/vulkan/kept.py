"""
Keeps devices open between runs, so that the next run finds its device and its program ready.

A device is identified by its name and by the environment variables that select and configure
drivers. If a device was lost, did not answer, or was interrupted, the next run opens it again.
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
"""Maximum number of open devices. The least recently used ones are closed."""
STEERING = ("VK_", "XDSL_SPIRV_", "LP_", "MESA_", "GALLIUM_", "LD_LIBRARY_PATH")
"""Prefixes of the environment variables that configure loaders, layers and drivers."""

_devices: OrderedDict[tuple[object, ...], IsolatedDevice] = OrderedDict()
_lock = threading.RLock()


@contextmanager
def kept_device(name: str | None = None, graphs: bool = False) -> Generator[IsolatedDevice]:
    """Yields the named or the best device, for one run. Raises the errors of `open_isolated`."""
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
    """Closes all open devices."""
    with _lock:
        _close_beyond(0)


def _close_beyond(count: int) -> None:
    """
    Closes the oldest devices beyond `count`. A forked process does not close its parent's devices.
    """
    while len(_devices) > count:
        key, device = _devices.popitem(last=False)
        if key[0] == os.getpid():
            device.close()


atexit.register(close_devices)
