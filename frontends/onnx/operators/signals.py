"""Imports Fourier transforms as contractions with constant matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of, integers
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import Tensor, sum_element

LONGEST = 4096
"""Maximum length of a transform, because its matrices have length^2 elements."""


def transformed(
    b: Nodes, x: Tensor, axis: int, length: int, *, inverse: bool, onesided: bool
) -> Tensor:
    """
    Computes the Fourier transform of the first `length` elements along an axis, padded with zeros.

    The last dimension of operand and result holds real and imaginary part, or has size 1 for real
    numbers. The inverse of a one-sided spectrum is real.
    """
    size, components = x.sizes[axis], x.sizes[-1]
    if not isinstance(size, int) or length > LONGEST or length < 1:
        b.refuse(
            f"a transform of {size} elements cannot have length {length}",
            f"give a known size, and a length of 1 to {LONGEST}",
        )
    back = inverse and onesided
    taken = min(size, length // 2 + 1 if back else length)
    kept = length // 2 + 1 if onesided and not inverse else length
    matrix = _matrix(taken, kept, length, inverse, onesided)[: 1 if components == 1 else 2]
    matrix = np.ascontiguousarray(matrix[..., : 1 if back else 2])
    part = b.part(x, axis, 0, taken)
    sizes: list[Size] = [kept if i == axis else s for i, s in enumerate(x.sizes)]
    sizes[-1] = matrix.shape[-1]
    # The inner loops iterate over the elements and their components.
    last, loops = x.rank - 1, x.rank + 2
    source = [x.rank if i == axis else loops - 1 if i == last else i for i in range(x.rank)]
    weights = Tensor.of(matrix.astype(sum_element(x.element).dtype))
    return b.contract(part, source, weights, [loops - 1, x.rank, axis, last], sizes, loops)


def _matrix(taken: int, kept: int, length: int, inverse: bool, onesided: bool) -> Any:
    """
    Returns the matrix of a transform, with the shape 2 x `taken` x `kept` x 2.

    The first and the last dimension select real or imaginary part, of the operand and of the
    result.
    """
    turns = np.outer(np.arange(taken), np.arange(kept)) % length
    angles = 2 * np.pi / length * turns * (1 if inverse else -1)
    cosine, sine = np.cos(angles), np.sin(angles)
    matrix = np.array([[cosine, sine], [-sine, cosine]]).transpose(0, 2, 3, 1)
    if not inverse:
        return matrix
    if onesided:
        # Frequencies that have a conjugate in the full spectrum count twice.
        number = np.arange(taken)
        single = (number == 0) | (2 * number == length)
        matrix = matrix * np.where(single, 1, 2)[:, None, None]
        matrix[1, single] = 0
    return matrix / length


def _length(b: Nodes, given: Tensor | None, default: Size, what: str) -> int:
    size = default if given is None else integers(b, given, what)[0]
    if not isinstance(size, int):
        b.refuse(f"{what} is a dynamic size", "give the size")
    return size


def _dft(
    b: Nodes, x: Tensor, length: Tensor | None, axis: int, inverse: int, onesided: int
) -> Tensor:
    along = axis_of(b, axis, x.rank)
    components = x.sizes[-1]
    if along == x.rank - 1 or components not in (1, 2):
        b.refuse(
            f"axis {axis} of {x} cannot be transformed",
            "use an axis before the last one, which must have size 1 or 2",
        )
    if onesided and not inverse and components != 1:
        b.refuse("onesided is set, but the numbers are complex", "set onesided to 0")
    default = x.sizes[along]
    if inverse and onesided:
        default = (default - 1) * 2
    count = _length(b, length, default, "dft_length")
    return transformed(b, x, along, count, inverse=bool(inverse), onesided=bool(onesided))


@operator("DFT", since=20)
def dft(
    b: Nodes,
    x: Tensor,
    dft_length: Tensor | None = None,
    axis: Tensor | None = None,
    /,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    along = -2 if axis is None else integers(b, axis, "axis")[0]
    return _dft(b, x, dft_length, along, inverse, onesided)


@operator("DFT", since=17)
def dft_17(
    b: Nodes,
    x: Tensor,
    dft_length: Tensor | None = None,
    /,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    return _dft(b, x, dft_length, axis, inverse, onesided)


@operator("STFT")
def stft(
    b: Nodes,
    signal: Tensor,
    frame_step: Tensor,
    window: Tensor | None = None,
    frame_length: Tensor | None = None,
    /,
    *,
    onesided: int = 1,
) -> Tensor:
    """Imports STFT: cuts the signal into frames, applies the window, and transforms the frames."""
    step = integers(b, frame_step, "frame_step")[0]
    default = signal.sizes[1] if window is None else window.sizes[0]
    length = _length(b, frame_length, default, "frame_length")
    count = (signal.sizes[1] - length) // step + 1
    sizes = [signal.sizes[0], count, length, signal.sizes[2]]
    if onesided and sizes[3] != 1:
        b.refuse("onesided is set, but the numbers are complex", "set onesided to 0")
    source = Reader(b, signal)

    def body(s: Scalars, *weight: Number) -> Number:
        place = s.index(1) * step + s.index(2)
        value = source.read(s, [s.index(0), place, s.index(3)])
        return value * weight[0] if weight else value

    frames = b.mapped(body, [] if window is None else [(window, [2])], sizes, signal.element)
    return transformed(b, frames, 2, length, inverse=False, onesided=bool(onesided))
