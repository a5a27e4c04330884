"""Converts Triton's elementwise operations to operations on scalars."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerType,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.frontends.triton.writing import Writer

FLOATS = (BFloat16Type, Float16Type, Float32Type, Float64Type)

LIBRARY: dict[str, type[Operation]] = {
    "abs": math.AbsFOp, "acos": math.AcosOp, "acosh": math.AcoshOp, "asin": math.AsinOp,
    "asinh": math.AsinhOp, "atan": math.AtanOp, "atan2": math.Atan2Op, "atanh": math.AtanhOp,
    "cbrt": math.CbrtOp, "ceil": math.CeilOp, "copysign": math.CopySignOp, "cos": math.CosOp,
    "cosh": math.CoshOp, "erf": math.ErfOp, "exp": math.ExpOp, "exp2": math.Exp2Op,
    "expm1": math.ExpM1Op, "fabs": math.AbsFOp, "fadd_rn": arith.AddfOp,
    "fdiv_rn": arith.DivfOp, "fdivide": arith.DivfOp, "floor": math.FloorOp, "fma": math.FmaOp,
    "fmul_rn": arith.MulfOp, "fsqrt_rn": math.SqrtOp, "log": math.LogOp,
    "log10": math.Log10Op, "log1p": math.Log1pOp, "log2": math.Log2Op,
    "nearbyint": math.RoundEvenOp, "pow": math.PowFOp, "powi": math.FPowIOp,
    "rint": math.RoundEvenOp, "round": math.RoundOp, "rsqrt": math.RsqrtOp, "sin": math.SinOp,
    "sinh": math.SinhOp, "sqrt": math.SqrtOp, "tan": math.TanOp, "tanh": math.TanhOp,
    "trunc": math.TruncOp,
}  # fmt: skip
"""Functions of device libraries (`__nv_tanhf`, `__ocml_tanh_f32`), by name without prefix."""

CLASSES = {"finite": "olt", "isfinited": "olt", "isinf": "oeq", "isinfd": "oeq", "isnan": "uno"}
"""Device functions that are 1 if the magnitude of a float compares thus with infinity, else 0."""


def check_element(writer: Writer, type: Attribute) -> None:
    """Raises `FrontendError` for element types that tiles do not support."""
    if isinstance(type, AnyFloat) and not isinstance(type, FLOATS):
        writer.refuse(f"elements of {type} are not supported", "convert the data before the kernel")


def compute(writer: Writer, op: Operation, values: Sequence[SSAValue], type: Attribute) -> SSAValue:
    """Appends an elementwise operation on scalars. Raises `FrontendError` for other operations."""
    check_element(writer, type)
    for value in values:
        check_element(writer, value.type)
    given, name = {**op.attributes, **op.properties}, op.name
    match name:
        case "tt.precise_sqrt":
            return writer.add(math.SqrtOp(values[0]))
        case "tt.precise_divf":
            return writer.add(arith.DivfOp(values[0], values[1]))
        case "tt.bitcast":
            same = values[0].type == type
            return values[0] if same else writer.add(arith.BitcastOp(values[0], type))
        case "tt.fp_to_fp":
            if given.get("rounding", StringAttr("rtne")) != StringAttr("rtne"):
                writer.refuse(
                    "only rounding to nearest is supported", "leave fp_downcast_rounding out"
                )
            return _convert(writer, values[0], type)
        case "tt.mulhiui" if type == i32:
            a, b = (writer.add(arith.ExtUIOp(value, i64)) for value in values)
            product = writer.add(arith.MuliOp(a, b))
            high = writer.add(arith.ShRUIOp(product, writer.constant(32, i64)))
            return writer.add(arith.TruncIOp(high, i32))
        case "tt.clampf":
            if given["propagateNan"] != StringAttr("none"):
                writer.refuse("a clamp that keeps NaN is not supported", "leave propagate_nan out")
            low = writer.add(arith.MaxnumfOp(values[0], values[1]))
            return writer.add(arith.MinnumfOp(low, values[2]))
        case "tt.extern_elementwise":
            return _call(writer, given["symbol"], values, type)
        case _ if name.startswith(("arith.", "math.")):
            return writer.add(
                op.create(operands=values, result_types=[type], properties=op.properties)
            )
        case _:
            writer.refuse(f"{name} is not supported")


def _convert(writer: Writer, value: SSAValue, type: Attribute) -> SSAValue:
    """Converts a float to another type, with rounding to nearest."""
    wide, narrow = _width(value.type), _width(type)
    if wide == narrow:
        return value
    cast = arith.ExtFOp if wide < narrow else arith.TruncFOp
    return writer.add(cast(value, type))  # pyright: ignore[reportArgumentType]


def _width(type: Attribute) -> int:
    assert isinstance(type, AnyFloat | IntegerType)
    return type.bitwidth


def _call(
    writer: Writer, symbol: Attribute, values: Sequence[SSAValue], type: Attribute
) -> SSAValue:
    """Appends the operation of a device library's function. Returns its result."""
    assert isinstance(symbol, StringAttr)
    full = symbol.data.removeprefix("__nv_").removeprefix("fast_").removeprefix("__ocml_")
    full = full.removesuffix("_f32").removesuffix("_f64")
    for name in (full, full.removesuffix("f")):
        if name in LIBRARY:
            return writer.add(LIBRARY[name](*values))
        if name in CLASSES:
            infinity = writer.add(arith.ConstantOp(FloatAttr(float("inf"), values[0].type)))  # pyright: ignore
            magnitude = writer.add(math.AbsFOp(values[0]))
            found = writer.add(arith.CmpfOp(magnitude, infinity, CLASSES[name]))
            return writer.add(arith.ExtUIOp(found, type))  # pyright: ignore[reportArgumentType]
    writer.refuse(f"the device library function {symbol.data} is not supported")
