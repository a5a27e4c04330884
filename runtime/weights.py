"""
Weights of a program as a safetensors file.
"""

from __future__ import annotations

from pathlib import Path

from xdsl_spirv.runtime.elements import NAMES_OF_CODES, Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError


def save_weights(path: Path, weights: dict[str, Array]) -> None:
    """Write a safetensors file. Raises `OSError`."""
    import numpy as np
    from safetensors.numpy import save

    contiguous = {name: np.asarray(array, order="C") for name, array in weights.items()}
    path.write_bytes(save(contiguous))


def load_weights(path: Path, what: str = "weight") -> dict[str, Array]:
    """Read a safetensors file; raises `ProgramError` if it is none or has an unknown type."""
    import numpy as np
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(path.read_bytes())
    except OSError as error:
        raise ProgramError(f"cannot read the {what}s: {error.strerror}", str(path)) from error
    except SafetensorError as error:
        raise ProgramError(f"not a safetensors file: {error}", str(path)) from error
    weights: dict[str, Array] = {}
    for name, tensor in tensors:
        code = str(tensor["dtype"])
        if code not in NAMES_OF_CODES:
            raise ProgramError(f"the {what} {name!r} has the unknown type {code}", str(path))
        flat = np.frombuffer(tensor["data"], dtype_of(NAMES_OF_CODES[code]))
        weights[name] = flat.reshape(tensor["shape"])
    return weights
