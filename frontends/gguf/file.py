"""
Reads the metadata and the tensors of a GGUF file.

Tensors are memory-mapped, so that only the importer's copy of a weight is in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdsl_spirv.frontends.blocks import FORMATS
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.metadata import Header, header
from xdsl_spirv.frontends.onnx.values import BF16, F16, F32, Array

DENSE = {element.name.upper(): element for element in (F32, F16, BF16)}
"""Tensor formats without blocks."""

TYPES = dict(
    enumerate(
        "F32 F16 Q4_0 Q4_1 Q4_2 Q4_3 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS"
        " IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 Q4_0_4_4"
        " Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 IQ4_NL_4_4 IQ4_NL_4_8 IQ4_NL_8_8 MXFP4 NVFP4 Q1_0"
        " Q2_0".split()
    )
)
"""Names of the tensor formats, indexed by ggml's type numbers."""

ALIGNMENT = 32
"""Default alignment of tensors, in bytes."""
MOST_DIMENSIONS = 4
"""Maximum number of dimensions in ggml."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file: its rows as bytes in a block format. Columns are the last dimension."""

    name: str
    format: str
    shape: tuple[int, ...]
    data: Array

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} of {self.format}"

    def numbers(self) -> Array:
        """Returns the elements of a tensor whose format has no blocks."""
        return self.data.view(DENSE[self.format].dtype).reshape(self.shape)


@dataclass(frozen=True)
class File:
    """Metadata and tensors of a GGUF file; `place` names the file in errors."""

    place: str
    values: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]


def read_file(path: str | os.PathLike[str]) -> File:
    """
    Reads a GGUF file.

    Raises `FrontendError` if the file is missing, truncated or malformed, or has a tensor in an
    unknown format.
    """
    with header(path) as start:
        values = start.values()
        listed = [_read_listed_tensor(start) for _ in range(start.tensors)]
        end = start.offset
    place = os.fspath(path)
    alignment = values.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise FrontendError(
            f"general.alignment is {alignment}, but must be a positive number",
            place,
            "download or convert the file again",
        )
    data = np.memmap(path, np.uint8, "r")
    first = -(-end // alignment) * alignment
    tensors: dict[str, StoredTensor] = {}
    for name, sizes, number, offset in listed:
        if name in tensors:
            raise _refusal(place, f"the tensor {name!r} is listed twice")
        tensors[name] = _store_tensor(place, name, sizes, number, data[first + offset :])
        if offset % alignment:
            raise _refusal(
                place,
                f"the tensor {name!r} begins at {offset}, which is not a multiple of {alignment}",
            )
    _check_overlaps(place, {name: offset for name, *_, offset in listed}, tensors)
    return File(place, values, tensors)


def _check_overlaps(
    place: str, offsets: Mapping[str, int], tensors: Mapping[str, StoredTensor]
) -> None:
    """Raises `FrontendError` if two tensors overlap in the file."""
    end, before = 0, ""
    for name in sorted(offsets, key=lambda name: (offsets[name], tensors[name].data.nbytes)):
        if offsets[name] < end:
            raise _refusal(place, f"the tensor {name!r} begins within the tensor {before!r}")
        end, before = offsets[name] + tensors[name].data.nbytes, name


def _read_listed_tensor(start: Header) -> tuple[str, tuple[int, ...], int, int]:
    """Reads the header entry of a tensor: name, sizes, format number, and data offset."""
    name = start.string()
    (rank,) = start.numbers("I", 1)
    if rank > MOST_DIMENSIONS:
        raise _refusal(
            start.place,
            f"the tensor {name!r} has {rank} dimensions, more than {MOST_DIMENSIONS}",
        )
    # The file lists the columns first.
    sizes = start.numbers("Q", rank)[::-1]
    (number,) = start.numbers("I", 1)
    (offset,) = start.numbers("Q", 1)
    return name, sizes, number, offset


def _store_tensor(
    place: str, name: str, sizes: tuple[int, ...], number: int, data: Array
) -> StoredTensor:
    """Makes a tensor whose bytes are at the start of `data`."""
    format = TYPES.get(number, f"type {number}")
    if format in FORMATS:
        block = FORMATS[format].block
        assert block is not None
        elements, size = FORMATS[format].size, block.itemsize
    elif format in DENSE:
        elements, size = 1, DENSE[format].dtype.itemsize
    else:
        raise FrontendError(
            f"the tensor {name!r} has the unsupported format {format}",
            place,
            f"use a file with tensors of {', '.join((*DENSE, *FORMATS))}",
        )
    columns = sizes[-1] if sizes else 1
    if columns % elements:
        raise _refusal(
            place,
            f"the tensor {name!r} has {columns} columns, which is not a multiple of the block size "
            f"{elements}",
        )
    size *= math.prod(sizes) // elements
    if len(data) < size:
        raise FrontendError(
            f"the file ends within the tensor {name!r}: {size - len(data):,} bytes are missing",
            place,
            "download it again",
        )
    return StoredTensor(name, format, sizes, data[:size])


def _refusal(place: str, cause: str) -> FrontendError:
    return FrontendError(cause, place, "download or convert the file again")
