"""Conversions of narrow types are exact: all codes, and f32 near the middle of two codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.frontends.onnx.nodes import number_of
from xdsl_spirv.frontends.onnx.values import ELEMENTS, NARROW
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = pytest.importorskip("onnx")
FLOATS = [e.name for e in NARROW if e.is_narrow_float and e.name != "f8E8M0FNU"]
INTEGERS = [e.name for e in NARROW if not e.is_narrow_float]


def cast(source: str, target: str, size: int, **attributes: Any) -> ModelProto:
    helper = onnx.helper
    node = helper.make_node("Cast", ["x"], ["y"], "cast", to=number_of(target), **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", number_of(source), [size])],
        [helper.make_tensor_value_info("y", number_of(target), [size])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)])


def converted(array: Array, source: str, target: str, **attributes: Any) -> Array:
    return run_reference(import_onnx(cast(source, target, array.size, **attributes)), {"x": array})[
        "y"
    ]


def codes(name: str) -> Array:
    element = ELEMENTS[name]
    return np.arange(1 << element.bits, dtype=np.uint8).view(element.dtype)


def decisive(name: str) -> Array:
    """Returns the numbers of a type, their midpoints, and some numbers out of range, as f32."""
    exact = codes(name).astype(np.float32)
    exact = np.sort(exact[np.isfinite(exact)])
    middles = (exact[1:] + exact[:-1]) / 2
    beyond = exact[-1] + (exact[-1] - exact[-2]) * np.array([0.5, 1, 1.5, 2, 100], np.float32)
    return np.concatenate([exact, middles, beyond, -beyond])


def numbers_around(name: str) -> Array:
    """Returns a type's numbers, midpoints, their f32 neighbours, and random f32 numbers."""
    points = decisive(name)
    steps = [np.nextafter(points, np.float32(end), dtype=np.float32) for end in (-np.inf, np.inf)]
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 1e38, 1e-38], np.float32)
    words = np.random.default_rng(0).integers(0, 1 << 32, 2000, np.uint32).view(np.float32)
    return np.concatenate([points, *steps, special, words])


def expected_codes(array: Array, name: str, saturate: bool) -> Array:
    """Returns codes by ONNX's rule, based on ml_dtypes, which does not saturate."""
    dtype = ELEMENTS[name].dtype
    info = ml_dtypes.finfo(dtype)
    limits = (float(info.min), float(info.max))
    with np.errstate(all="ignore"):
        return (np.clip(array, *limits) if saturate else array).astype(dtype).view(np.uint8)


@pytest.mark.parametrize("name", [e.name for e in NARROW])
def test_every_code_is_read_as_its_number(name: str) -> None:
    array = codes(name)
    np.testing.assert_array_equal(converted(array, name, "f32"), array.astype(np.float32))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", FLOATS)
def test_numbers_round_to_the_nearest_even_code(name: str, saturate: int) -> None:
    array = numbers_around(name)
    if name[1] != "8":
        # The type has no code for this number.
        array = array[~np.isnan(array)]
    result = converted(array, "f32", name, saturate=saturate)
    np.testing.assert_array_equal(
        result.view(np.uint8), expected_codes(array, name, bool(saturate))
    )


@pytest.mark.parametrize("name", FLOATS)
def test_doubles_are_rounded_once(name: str) -> None:
    """
    A double near the midpoint of two codes rounds like the next f32 on the same side of the
    midpoint.
    """
    points = decisive(name)
    for factor, end in ((1 + 2.0**-50, np.inf), (1 - 2.0**-50, 0.0)):
        result = converted(points.astype(np.float64) * factor, "f64", name)
        beside = np.nextafter(points, np.copysign(np.float32(end), points))
        np.testing.assert_array_equal(result.view(np.uint8), expected_codes(beside, name, True))


@pytest.mark.parametrize(
    ("round_mode", "saturate", "expected"),
    [
        ("up", 1, [0, 0, 0, 1, 127, 128, 128, 129, 254, 254, 255]),
        ("down", 1, [0, 0, 0, 0, 127, 127, 127, 128, 254, 254, 255]),
        ("nearest", 1, [0, 0, 0, 1, 127, 127, 128, 129, 254, 254, 255]),
        ("nearest", 0, [255, 255, 0, 1, 127, 127, 128, 129, 255, 255, 255]),
    ],
)
def test_powers_of_two(round_mode: str, saturate: int, expected: list[int]) -> None:
    tiny = 2.0**-127
    array = np.array(
        [0, tiny / 2, tiny, tiny * 1.75, 1, 1.25, 1.5, 3.5, 2.0**127 * 1.75, np.inf, np.nan],
        np.float32,
    )
    result = converted(array, "f32", "f8E8M0FNU", round_mode=round_mode, saturate=saturate)
    assert result.view(np.uint8).tolist() == expected


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("source", ["i8", "ui8", "i64", "f32"])
def test_integers_keep_their_low_bits(name: str, source: str) -> None:
    element, bits = ELEMENTS[name], ELEMENTS[name].bits
    array = np.arange(128 if source == "i8" else 256).astype(ELEMENTS[source].dtype)
    result = converted(array, source, name)
    low = np.arange(array.size, dtype=np.uint8) & ((1 << bits) - 1)
    np.testing.assert_array_equal(result, low.view(element.dtype))


def test_bits_above_a_code_are_ignored() -> None:
    array = np.arange(256, dtype=np.uint8).view(ml_dtypes.int4)
    np.testing.assert_array_equal(converted(array, "i4", "i32"), array.astype(np.int32))


@pytest.mark.parametrize("name", ["f8E4M3FN", "i4"])
def test_a_program_takes_and_gives_codes(name: str) -> None:
    """Buffers of narrow types contain one byte per element."""
    array = codes(name)
    program = compile_model(import_onnx(cast(name, "f32", array.size)), "lavapipe")
    np.testing.assert_array_equal(run(program, {"x": array})["y"], array.astype(np.float32))
    points = numbers_around("f8E4M3FN")[:300] if name[0] == "f" else np.arange(-8, 8, dtype="f4")
    back = compile_model(import_onnx(cast("f32", name, points.size)), "lavapipe")
    result = run(back, {"x": points})["y"]
    wanted = expected_codes(points, name, True) if name[0] == "f" else points.astype(array.dtype)
    np.testing.assert_array_equal(result.view(np.uint8), wanted.view(np.uint8))


def test_arithmetic_is_refused_by_name() -> None:
    model = cast("f8E5M2", "f8E5M2", 4)
    model.graph.node[0].CopyFrom(onnx.helper.make_node("Neg", ["x"], ["y"], "minus"))
    with pytest.raises(FrontendError, match=r"f8E5M2 can only be converted and copied.*'minus'"):
        import_onnx(model)
