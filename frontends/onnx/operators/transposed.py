"""Imports transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.shapes import reverse
from xdsl_spirv.frontends.onnx.operators.windows import (
    ConvAttributes,
    Window,
    kernel_of,
    padded,
    with_bias,
)
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.values import Tensor


@operator("ConvTranspose")
def conv_transpose(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    attributes: ConvAttributes,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> Tensor:
    """
    Imports ConvTranspose: multiplies each image element by the kernel, and sums overlapping
    products.

    Results whose positions have the same remainder modulo the stride form a phase, which is a
    convolution by every `stride`-th kernel element. A loop over phases avoids products with zeros.
    """
    kernel, group = kernel_of(b, w, attributes.kernel_shape), attributes.group
    rank = len(kernel)
    steps, apart = attributes.steps(rank), attributes.distances(rank)
    extra = list(output_padding or [0] * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, apart, strict=True)]
    low, high = attributes.padding(rank)[:rank], attributes.padding(rank)[rank:]
    image, auto_pad = x.sizes[2:], attributes.auto_pad
    wanted: list[Size] | None = None
    if output_shape is not None:
        wanted = list(output_shape[-rank:])
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [s * t for s, t in zip(image, steps, strict=True)]
    if wanted is not None:
        for i in range(rank):
            total = (image[i] - 1) * steps[i] + extra[i] + reach[i] - wanted[i]
            if not isinstance(total, int):
                b.refuse("output_shape has a dynamic size", "give static sizes, or pads")
            # Missing elements are added at the end.
            extra[i] += max(-total, 0)
            total = max(total, 0)
            less, more = total // 2, total - total // 2
            low[i], high[i] = (more, less) if auto_pad == "SAME_LOWER" else (less, more)
    if exact_quotient(w.sizes[0], group) is None:
        b.refuse(
            f"{w.sizes[0]} input channels do not divide into {group} groups",
            "use a multiple of group",
        )
    beyond = [e + r - p - q for e, r, p, q in zip(extra, reach, low, high, strict=True)]
    phases = [_Phases.derive(*axis) for axis in zip(kernel, apart, steps, low, beyond, strict=True)]
    for size, axis, rest in zip(image, phases, beyond, strict=True):
        if isinstance(size, int) and (size - 1) * axis.step + rest < 1:
            b.refuse(f"the result for an input of size {size} would be empty", "use less padding")
    sizes = [(s - 1) * t + rest for s, t, rest in zip(image, steps, beyond, strict=True)]
    return with_bias(b, _sum_of_phases(b, x, w, phases, group, sizes), bias)


@dataclass(frozen=True)
class _Phases:
    """
    One axis of a transposed convolution, whose results form `step` phases:

        result[step * q + a] = sum over t < taps of image[q + first + apart * t] * kernel[t, a]

    a is the number of the phase, q a position in the phase, and t an element of the kernel (tap).
    `first` is the image index of tap 0 for q = 0. `apart` is the distance in the image from one
    tap to the next. If phases are `shifted`, the image index is q + a + first + apart * t.

    The kernel is made from the weights in three steps: insert `spread` - 1 zeros between elements,
    add `before` zeros at the start and `behind` zeros at the end, and reverse the taps.
    """

    step: int
    taps: int
    apart: int
    first: int
    more: int
    """Number of elements of each phase of the result, minus (the image's size - 1)."""
    shifted: bool
    spread: int
    before: int
    behind: int

    @staticmethod
    def derive(size: int, apart: int, step: int, low: int, beyond: int) -> _Phases:
        more = -(-beyond // step)
        if step == 1:
            return _Phases(1, size, apart, low - apart * (size - 1), more, False, 1, 0, 0)
        whole, rest = divmod(low, step)
        # Two phases can be shifted by one element; more phases are padded with zeros.
        shifted = step == 2 and rest == 1
        before = step - rest if rest and not shifted else 0
        reach = (size - 1) * apart + 1
        taps = -(-(before + reach) // step)
        first = whole + (before > 0) - (taps - 1)
        behind = taps * step - before - reach
        return _Phases(step, taps, 1, first, more, shifted, apart, before, behind)


def _sum_of_phases(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    phases: Sequence[_Phases],
    group: int,
    sizes: Sequence[Size],
) -> Tensor:
    """Computes a transposed convolution without bias; `sizes` is the shape of the result."""
    (n, _, *image), (channels, m, *_) = x.sizes, w.sizes
    per_group = exact_quotient(channels, group)
    assert per_group is not None
    grouped, deep = group > 1, per_group != 1 or group == 1
    lead = [n, *[group] * grouped, *[m] * (m != 1 or deep)]
    counts = [size - 1 + axis.more for size, axis in zip(image, phases, strict=True)]
    result = list[Size](lead)
    places: list[tuple[int, int | None]] = []
    for axis, count in zip(phases, counts, strict=True):
        places.append((len(result), len(result) + 1 if axis.step > 1 else None))
        result += [count, axis.step] if axis.step > 1 else [count]
    taps = range(len(result) + deep, len(result) + deep + len(phases))
    walks: list[AffineExpr] = []
    kernel: list[int] = []
    before, behind = list[Size](), list[Size]()
    for axis, tap, (at, phase), count in zip(phases, taps, places, counts, strict=True):
        walk = AffineDimExpr(at) + AffineDimExpr(tap) * axis.apart
        walks.append(walk + AffineDimExpr(phase) if axis.shifted and phase is not None else walk)
        kernel += [tap] if phase is None else [tap, phase]
        before.append(-axis.first)
        last = axis.first + (axis.taps - 1) * axis.apart + axis.shifted
        behind.append(count + last - image[len(behind)])
    none = [0] * len(phases)
    nothing = list[Size](none)
    split = b.reshape(x, [n, group, per_group, *image]) if grouped and deep else x
    around = padded(b, split, Window(none, none, none, before, behind, nothing, []), 0)
    weights = b.reshape(
        _turned_kernel(b, w, phases),
        [
            *[group] * grouped,
            *[per_group] * deep,
            *[m] * (m != 1 or deep),
            *(n for axis in phases for n in ([axis.taps, axis.step][: 1 + (axis.step > 1)])),
        ],
    )
    channel = [len(result)] * deep
    made = [1 + grouped] * (m != 1 or deep)
    product = b.contract(
        around,
        [0, *[1] * grouped, *channel, *walks],
        weights,
        [*[1] * grouped, *channel, *made, *kernel],
        result,
        taps.stop,
    )
    filled = [count * axis.step for count, axis in zip(counts, phases, strict=True)]
    whole = b.reshape(product, [n, m * group, *filled])
    return b.slice(whole, [0] * x.rank, [n, m * group, *sizes])


def _turned_kernel(b: Nodes, w: Tensor, phases: Sequence[_Phases]) -> Tensor:
    """Returns the weights reordered by tap (kernel element of a phase) and phase."""
    spread = _with_zeros_between(b, w, [axis.spread for axis in phases])
    before, behind = ([0, 0, *(getattr(a, side) for a in phases)] for side in ("before", "behind"))
    whole = b.pad(spread, before, behind, 0)
    parts = [n for axis in phases for n in (axis.taps, axis.step)]
    split = b.reshape(whole, [*w.sizes[:2], *parts])
    turned = [
        axis
        for i, phase in enumerate(phases)
        for axis in ([2 + 2 * i, 3 + 2 * i] if phase.shifted else [2 + 2 * i])
    ]
    return reverse(b, split, [axis for axis in turned if split.sizes[axis] != 1])


def _with_zeros_between(b: Nodes, x: Tensor, steps: Sequence[int]) -> Tensor:
    if set(steps) == {1}:
        return x
    sizes = [*x.sizes[:2], *((s - 1) * t + 1 for s, t in zip(x.sizes[2:], steps, strict=True))]
    zeros = b.fill(0, sizes, x.element)
    value = b.insert_slice(x, zeros, [0] * x.rank, [1, 1, *steps])
    return Tensor(x.element, sizes, value)
