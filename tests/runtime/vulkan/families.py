"""
Runs saved programs on a device in sequence, in a separate process because a driver may crash.

    families.py FOLDER     FOLDER/NAME/ are programs, FOLDER/NAME.npz their inputs; the results go
                           to FOLDER/NAME.out.npz

Prints the validation layer's messages for each program as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.device import open_device


def main(folder: Path) -> None:
    said: dict[str, list[str]] = {}
    device = open_device()
    with device:
        for path in sorted(each for each in folder.iterdir() if each.is_dir()):
            before = len(device.messages)
            program = Program.load(path)
            with np.load(f"{path}.npz") as stored:
                inputs = {name: stored[name] for name in stored.files}
            # Runs twice: contents that a run leaves in buffers must not affect the next run.
            results = [device.execute(program, inputs) for _ in range(2)][-1]
            np.savez(f"{path}.out.npz", allow_pickle=False, **results)
            device.drop(program)
            said[path.name] = device.messages[before:]
    print(json.dumps(said | {"at last": device.messages[sum(map(len, said.values())) :]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
