"""Numeric operators with the attributes of each opset give onnxruntime's results."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.runtime.execution import run

if TYPE_CHECKING:
    from onnx import ModelProto


Array = Any
"""An array. Tests do not need its type information."""

pytestmark = pytest.mark.skipif(
    find_spec("onnx") is None or find_spec("onnxruntime") is None,
    reason="onnx or onnxruntime is not installed",
)

GENERATOR = np.random.default_rng(5)


def normal(*shape: int, dtype: DTypeLike = np.float32) -> Array:
    return GENERATOR.standard_normal(shape).astype(dtype)


def integers(*values: Any) -> Array:
    return np.array(values, np.int64)


def model_of(
    operator: str,
    opset: int,
    inputs: list[Array | None],
    attributes: dict[str, Any],
    constant: tuple[int, ...],
    outputs: int = 1,
) -> tuple[ModelProto, dict[str, Array]]:
    """Returns a model of one node, and its inputs. `constant` lists the indices of weights."""
    onnx = import_module("onnx")
    helper = onnx.helper
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    arrays = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    weights = {f"x{i}" for i in constant}
    given = {n: x for n, x in arrays.items() if n not in weights}
    graph = helper.make_graph(
        [helper.make_node(operator, names, results, name="it", **attributes)],
        "graph",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in results],
        [onnx.numpy_helper.from_array(arrays[n], n) for n in sorted(weights & arrays.keys())],
    )
    version = 8 if opset < 21 else 11
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=version), given


def expected_of(model: ModelProto, inputs: dict[str, Array]) -> list[Array]:
    """Returns onnxruntime's results. Declares the results' types in the model."""
    helper, runtime = import_module("onnx.helper"), import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    data = model.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    results = session.run(None, inputs)
    for value, array in zip(model.graph.output, results, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, array.shape))
    return results


def assert_same(results: dict[str, Array], expected: list[Array]) -> None:
    for result, array in zip(results.values(), expected, strict=True):
        assert (result.dtype, result.shape) == (array.dtype, array.shape)
        if array.dtype.kind == "f":
            # The error of a sum is relative to its largest term.
            largest = np.nanmax(np.abs(array), initial=1, where=np.isfinite(array))
            np.testing.assert_allclose(result, array, rtol=1e-4, atol=1e-5 * largest)
        else:
            np.testing.assert_array_equal(result, array)


IMAGE, GRID = normal(2, 3, 4, 5), normal(2, 3, 6, 2) * 1.3
VOLUME, GRID_3 = normal(2, 2, 3, 4, 5), normal(2, 2, 3, 2, 3) * 1.3
REGIONS = np.array(
    [[0, 0, 5, 4], [1.3, 2.2, 7.9, 6.1], [-3, -2, 20, 30], [3, 3, 3, 3], [6, 5, 2, 1]], np.float32
)
REGIONS_OF = [normal(2, 3, 7, 9), REGIONS, integers(0, 1, 1, 0, 1)]
PARTS = {"output_height": 2, "output_width": 3, "spatial_scale": 0.9}
CUBE = normal(3, 4, 5)
PADS = integers(1, 0, 2, 2, 5, 1)
DEFORMED = [normal(2, 4, 6, 7), normal(6, 2, 3, 3), normal(2, 36, 3, 3), normal(6)]
SPREAD = {"group": 2, "offset_group": 2, "strides": [2, 2], "pads": [1, 0, 1, 0]}
WHOLE, POWERS = integers(0, 1, -1, 2, -3, 5), integers(3, 100, 101, 10, 3, -1)
PIXELS = GENERATOR.integers(0, 100, (1, 2, 5, 6))
IN_PLACES = GENERATOR.integers(-4, 4, (2, 2, 5))
CHANNELS = normal(2, 6, 3, 3)
SMALLER = np.array([1, 1, 0.6, 0.8], np.float32)

Row = tuple[str, int, list[Any], dict[str, Any], tuple[int, ...]]

ROWS: list[Row] = [
    *(
        ("GridSample", opset, inputs, {"mode": mode, "padding_mode": p, "align_corners": a}, ())
        for opset, modes, inputs in (
            (16, ("bilinear", "nearest", "bicubic"), [IMAGE, GRID]),
            (20, ("linear", "nearest"), [VOLUME, GRID_3]),
        )
        for mode in modes
        for p in ("zeros", "border", "reflection")
        for a in (0, 1)
    ),
    *(
        ("RoiAlign", opset, REGIONS_OF, PARTS | {"mode": m, "sampling_ratio": n}, ())
        for opset in (10, 16)
        for m in ("avg", "max")
        for n in (0, 2)
    ),
    *(
        (
            "AffineGrid",
            20,
            [normal(n, *theta, dtype=t), integers(n, 2, *size)],
            {"align_corners": a},
            (1,),
        )
        for n, t in ((1, np.float32), (2, np.float64))
        for theta, size in (((2, 3), (3, 4)), ((3, 4), (2, 3, 2)))
        for a in (0, 1)
    ),
    ("AffineGrid", 20, [normal(1, 2, 3), integers(1, 2, 1, 3)], {}, (1,)),
    ("Conv", 21, [normal(2, 1, 7), normal(1, 1, 1), normal(1)], {"strides": [3]}, (1, 2)),
    ("Pad", 21, [normal(3, 0), integers(0, 1, 0, 2), np.array(2.5, np.float32)], {}, (1,)),
    ("DeformConv", 19, [DEFORMED[0], normal(6, 4, 3, 3), normal(2, 18, 4, 5)], {}, ()),
    ("DeformConv", 22, [*DEFORMED, normal(2, 18, 3, 3)], SPREAD, ()),
    ("Col2Im", 18, [normal(1, 8, 4), integers(5, 6), integers(2, 2)],
     {"dilations": [2, 2], "strides": [2, 2]}, (1, 2)),
    ("Col2Im", 18, [normal(1, 9, 4), integers(6, 6), integers(3, 3)],
     {"pads": [1, 1, 1, 1], "strides": [4, 4]}, (1, 2)),
    ("MaxUnpool", 9, [normal(1, 2, 2, 2), integers([[[5, 7], [13, 15]], [[21, 16], [31, 28]]])],
     {"kernel_shape": [2, 2], "strides": [2, 2]}, ()),
    *(
        ("DFT", 20, [normal(3, 8, 4, c), np.array(n), np.array(1)], {"inverse": i}, (1, 2))
        for c in (1, 2)
        for n in (5, 9)
        for i in (0, 1)
    ),
    ("DFT", 20, [normal(3, 8, 1)], {"onesided": 1}, ()),
    ("DFT", 17, [normal(3, 8, 4, 1)], {"axis": 2}, ()),
    ("STFT", 17, [normal(2, 30, 1), np.array(4), normal(10), np.array(10)], {}, (1, 3)),
    ("STFT", 17, [normal(2, 30, 2), np.array(4), None, np.array(11)], {"onesided": 0}, (1, 3)),
    *(("Pad", 19, [CUBE, PADS], {"mode": m}, (1,)) for m in ("constant", "edge", "wrap")),
    ("Pad", 18, [CUBE, integers(1, 2, 2, 1), None, integers(-1, 0)], {"mode": "reflect"}, (1, 3)),
    ("Pad", 13, [CUBE, integers(-1, 0, 2, 2, -2, 1)], {"mode": "edge"}, (1,)),
    ("Pad", 13, [CUBE, PADS, np.array(2.5, np.float32)], {}, (1,)),
    ("Pad", 10, [CUBE], {"pads": [1, 0, -2, 2, 3, 1], "value": 1.5}, ()),
    ("CenterCropPad", 18, [CUBE, integers(4, 7)], {"axes": [-3, 1]}, (1,)),
    *(
        ("ScatterElements", 18, [CUBE, IN_PLACES, normal(2, 2, 5)], {"axis": 1, "reduction": r}, ())
        for r in ("add", "mul", "max", "min")
    ),
    ("TensorScatter", 24, [normal(3, 6, 5), normal(3, 2, 5), integers(0, 2, 5)],
     {"mode": "circular"}, ()),
    ("TensorScatter", 24, [normal(3, 6, 5), normal(3, 2, 5)], {}, ()),
    ("TensorScatter", 24, [normal(3, 6, 5), normal(3, 0, 5)], {}, ()),
    ("BitCast", 26, [normal(6)], {"to": 6}, ()),
    ("BitCast", 26, [integers(1, -2, 1 << 60)], {"to": 11}, ()),
    ("Trilu", 14, [CUBE, np.array(1)], {"upper": 0}, ()),
    *(
        (f"Cum{kind}", 26 if kind == "Prod" else 14, [normal(3, 4), np.array(1, np.int32)],
         {"exclusive": e, "reverse": r}, (1,))
        for kind in ("Sum", "Prod")
        for e in (0, 1)
        for r in (0, 1)
    ),
    ("Det", 22, [normal(2, 3, 5, 5)], {}, ()),
    ("Det", 11, [np.array([[0, 1], [1, 0]], np.float32)], {}, ()),
    ("Det", 11, [np.ones((3, 3), np.float32)], {}, ()),
    ("Einsum", 12, [normal(2, 3, 3)], {"equation": "...ii->...i"}, ()),
    ("Einsum", 12, [normal(3, 3, 2), normal(2, 4), normal(4, 5)],
     {"equation": "iij,jk,kl->il"}, ()),
    ("Einsum", 12, [normal(7, 2, 3, 4), normal(1, 2, 4, 5)],
     {"equation": "...ij,...jk->...ik"}, ()),
    ("Einsum", 12, [normal(2, 3, 4), normal(2, 3, 4)], {"equation": "b...,b..."}, ()),
    ("Pow", 13, [WHOLE.astype(np.int32), POWERS], {}, ()),
    ("Pow", 13, [WHOLE, POWERS.astype(np.float32)], {}, ()),
    ("Pow", 13, [integers(4, 9, 16, 7), np.array([0.5, 0.5, 1.5, 2.5], np.float32)], {}, ()),
    ("Mod", 13, [normal(9), normal(9)], {"fmod": 1}, ()),
    *(
        ("Resize", 18, [PIXELS.astype(kind), None, SMALLER], {"mode": m, "antialias": a}, (2,))
        for m, a, kind in (
            ("cubic", 1, np.float32),
            ("linear", 0, np.uint8),
            ("nearest", 0, np.float32),
        )
    ),
    *(
        ("Resize", 13, [IMAGE, None, SMALLER],
         {"coordinate_transformation_mode": c, "nearest_mode": "floor"}, (2,))
        for c in ("half_pixel", "pytorch_half_pixel", "asymmetric")
    ),
    # Position 14 of 29 is element 5 of 11, but with a rounded ratio element 4.
    *(
        ("Resize", 19, [normal(1, 1, 17, 11), None, None, integers(1, 1, 10, 29)],
         {"coordinate_transformation_mode": c, "nearest_mode": "floor"}, (3,))
        for c in ("align_corners", "half_pixel_symmetric")
    ),
    *(("Resize", 10, [IMAGE, SMALLER], {"mode": m}, (1,)) for m in ("nearest", "linear")),
    ("Upsample", 7, [IMAGE], {"mode": "linear", "scales": [1.0, 1.0, 2.5, 1.3]}, ()),
    ("GroupNormalization", 18, [CHANNELS, normal(2), normal(2)], {"num_groups": 2}, ()),
    ("GroupNormalization", 21, [CHANNELS, normal(6), normal(6)], {"num_groups": 2}, ()),
    *(("MeanVarianceNormalization", opset, [CHANNELS], {}, ()) for opset in (9, 13)),
    *(
        (f"Reduce{kind}", opset, [np.array([[1, 7, 2], [3, 4, 4]], np.int32)], {}, ())
        for kind in ("L2", "LogSum")
        for opset in (11, 18)
    ),
    *(
        (kind, opset, [CUBE], {"axis": axis}, ())
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (11, 13)
        for axis in (1, -2)
    ),
]  # fmt: skip


def title(row: Row) -> str:
    return f"{row[0]}-{row[1]}-" + "-".join(f"{k}={v}" for k, v in row[3].items())


@pytest.mark.parametrize("row", ROWS, ids=title)
def test_an_operator_gives_the_results_of_onnxruntime(row: Row):
    model, inputs = model_of(*row)
    expected = expected_of(model, inputs)
    assert_same(run_reference(import_onnx(model), inputs), expected)


COMPILED = ("GridSample", "RoiAlign", "DeformConv", "DFT", "Pad", "BitCast", "Det", "Pow")


@pytest.mark.parametrize("name", COMPILED)
def test_imported_nodes_compile(name: str):
    row = next(row for row in reversed(ROWS) if row[0] == name)
    model, inputs = model_of(*row)
    expected = expected_of(model, inputs)
    assert_same(run(compile_model(import_onnx(model), "lavapipe"), inputs), expected)


@pytest.mark.parametrize("opset", [7, 10, 13])
def test_the_mask_of_a_dropout_has_the_type_of_its_opset(opset: int):
    model, inputs = model_of("Dropout", opset, [normal(2, 3)], {}, (), 2)
    expected = expected_of(model, inputs)
    assert_same(run_reference(import_onnx(model), inputs), expected)


def test_a_remainder_has_the_sign_of_the_divisor():
    """Since opset 28 this holds for floats, too, but onnxruntime does not support opset 28."""
    x = np.array([-4.3, 7.2, 5, -7.2, 0, 3, -3, np.inf], np.float32)
    y = np.array([2.1, -3.4, 8, 3.4, -1, -np.inf, -np.inf, 2], np.float32)
    model, inputs = model_of("Mod", 28, [x, y], {}, ())
    with np.errstate(invalid="ignore"):
        assert_same(run_reference(import_onnx(declared(model, x)), inputs), [np.mod(x, y)])


def test_a_region_takes_the_greatest_element():
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    regions = np.array([[0, 0, 0, 3, 2], [0, 1, 1, 1, 1], [0, 9, 9, 9, 9]], np.float32)
    model, inputs = model_of("MaxRoiPool", 22, [x, regions], {"pooled_shape": [1, 2]}, ())
    expected = np.array([[9, 11], [5, 5], [0, 0]], np.float32).reshape(3, 1, 1, 2)
    assert_same(run_reference(import_onnx(declared(model, expected)), inputs), [expected])


CONSTANTS: list[Row] = [
    ("Softmax", 11, [CUBE], {"axis": 1}, (0,)),
    ("ReduceSumSquare", 11, [WHOLE.astype(np.int32)], {}, (0,)),
    ("BatchNormalization", 9, [CHANNELS, *(np.abs(normal(6)) for _ in range(4))], {}, (0,)),
    ("LpNormalization", 22, [CUBE], {"p": 1}, (0,)),
    ("GlobalMaxPool", 22, [CUBE], {}, (0,)),
    ("LRN", 13, [CHANNELS], {"size": 3}, (0,)),
    *(
        ("Slice", 13, [CUBE, *map(integers, (start, end, -1, -2))], {}, (0, 1, 2, 3, 4))
        for start, end in ((-9, -1000), (-2, -1000), (9, 0), (1, -4))
    ),
    ("MaxPool", 12, [CHANNELS], {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}, (0,)),
    *(
        ("Unique", 11, [np.array([[2, 1, 2], [3, 1, 3]], np.float32)], given, (0,))
        for given in ({}, {"sorted": 0}, {"axis": 1}, {"axis": 0, "sorted": 0})
    ),
]


@pytest.mark.parametrize("row", CONSTANTS, ids=title)
def test_operators_on_constants_give_the_results_of_onnxruntime(row: Row):
    model, inputs = model_of(*row, 4 if row[0] == "Unique" else 1)
    expected = expected_of(model, inputs)
    assert_same(run_reference(import_onnx(model), inputs), expected)


def test_shapes_by_data_are_refused_unless_it_is_constant():
    x = np.array([2, 1, 1, 3], np.float32)
    with pytest.raises(FrontendError, match="make the operand a constant"):
        import_onnx(declared(model_of("Unique", 11, [x], {}, ())[0], x))


def declared(model: ModelProto, like: Array) -> ModelProto:
    """Copies the type and shape of an array to the model's result."""
    helper: Any = import_module("onnx.helper")
    number = helper.np_dtype_to_tensor_dtype(like.dtype)
    name = model.graph.output[0].name
    value = helper.make_tensor_value_info(name, number, like.shape)
    model.graph.output[0].CopyFrom(value)
    return model


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Elu", {"alpha": 0.3}),
        ("Gelu", {}),
        ("HardSigmoid", {}),
        ("HardSwish", {}),
        ("LeakyRelu", {"alpha": 0.1}),
        ("Mish", {}),
        ("Selu", {}),
        ("Shrink", {"bias": 0.1}),
        ("Sigmoid", {}),
        ("Softplus", {}),
        ("Softsign", {}),
    ],
)
def test_functions_of_f16_are_rounded_once(operator: str, attributes: dict[str, Any]):
    """onnxruntime computes in f32. Near the midpoint of two f16 numbers, both numbers are right."""
    x = np.random.default_rng(3).normal(0, 3, 1000).astype(np.float16)
    model, inputs = model_of(operator, 22, [x], attributes, ())
    (expected,) = expected_of(model, inputs)
    (result,) = run_reference(import_onnx(model), inputs).values()
    assert result.dtype == expected.dtype
    assert np.mean(result != expected) <= 0.01


def test_constants_of_narrow_floats_keep_their_type():
    """A bfloat16 determinant stays bfloat16, although onnx's evaluator computes it in f64."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([[1.5, 2], [3, 0.25]], ml_dtypes.bfloat16)
    model, _ = model_of("Det", 22, [x], {}, (0,))
    number = import_module("onnx").TensorProto.BFLOAT16
    declared = import_module("onnx.helper").make_tensor_value_info("y0", number, ())
    model.graph.output[0].CopyFrom(declared)
    (result,) = run_reference(import_onnx(model), {}).values()
    assert result.dtype == x.dtype
    assert float(result) == -5.625
