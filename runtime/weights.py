"""Reads and writes weights of a program as a safetensors file."""

from __future__ import annotations

from pathlib import Path

from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.elements import NAMES_OF_CODES, Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError


@stage("writing weights")
def save_weights(path: Path, weights: dict[str, Array]) -> None:
    """Writes a safetensors file. Raises `OSError`."""
    import numpy as np
    from safetensors.numpy import save

    contiguous = {name: np.asarray(array, order="C") for name, array in weights.items()}
    path.write_bytes(save(contiguous))


@stage("reading weights")
def load_weights(path: Path, what: str = "weight") -> dict[str, Array]:
    """Reads a safetensors file. Raises `ProgramError` for another format or an unknown type."""
    try:
        return weights_of(path.read_bytes(), str(path), what)
    except OSError as error:
        raise ProgramError(
            f"cannot read the {what}s: {error.strerror}", str(path), "give a .safetensors file"
        ) from error


def weights_of(data: bytes, place: str, what: str = "weight") -> dict[str, Array]:
    """Returns the tensors in a safetensors file's bytes. Raises the errors of `load_weights`."""
    import numpy as np
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(data)
    except SafetensorError as error:
        raise ProgramError(
            f"this is not a safetensors file: {error}", place, "give a .safetensors file"
        ) from error
    weights: dict[str, Array] = {}
    for name, tensor in tensors:
        code = str(tensor["dtype"])
        if code not in NAMES_OF_CODES:
            raise ProgramError(
                f"the {what} {name!r} has the unknown type {code}",
                place,
                f"use one of {', '.join(NAMES_OF_CODES)}",
            )
        flat = np.frombuffer(tensor["data"], dtype_of(NAMES_OF_CODES[code]))
        try:
            weights[name] = flat.reshape(tensor["shape"])
        except ValueError as error:
            raise ProgramError(
                f"the {what} {name!r} is damaged: {error}", place, "write the file again"
            ) from error
    return weights
