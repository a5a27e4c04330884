"""All lanes of a subgroup load the words of packed weights together, in every block format."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.parser import Parser

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.schedule import Schedule
from xdsl_spirv.frontends.blocks import FORMATS, dequantize
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.values import F32, Tensor
from xdsl_spirv.interpreter import reference
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run

SHARED = (
    "#schedule.rows<rows = 1, columns = 4, lanes = 1, steps = 1, within = 8, subgroups = [1, 1]>"
)
DEFAULT = (
    "#schedule.rows<rows = 1, columns = 1, lanes = 1, steps = 1, within = 8, subgroups = [1, 8]>"
)
N, K = 6, 256


def parsed(schedule: str) -> Attribute:
    context = Context()
    context.load_dialect(Schedule)
    return Parser(context, schedule).parse_attribute()


def module_of(
    name: str,
    planes: dict[str, Array],
    multiplied: bool,
    n: int = N,
    schedule: str | None = SHARED,
    k: int = K,
) -> ModuleOp:
    """
    Returns a product of one row and packed weights of the format `name`. If not `multiplied`,
    returns the weights as floats.
    """
    entry = Block()
    b = TensorBuilder(entry)
    tensors = {plane: Tensor.of(array) for plane, array in planes.items()}
    x = Tensor(F32, [1, k])
    for t in (*tensors.values(), *([x] if multiplied else [])):
        t.value = entry.insert_arg(t.type, len(entry.args))
    result = dequantize(b, FORMATS[name], tensors, F32)
    if multiplied:
        result = b.contract(x, [0, 2], result, [1, 2], [1, n], 3, F32)
    value = b.value(result)
    if multiplied and schedule:
        assert isinstance(value.owner, Operation)
        value.owner.attributes["schedule"] = parsed(schedule)
    entry.add_op(ReturnOp(value))
    type = FunctionType.from_lists([a.type for a in entry.args], [value.type])
    return ModuleOp([FuncOp("main", type, Region(entry))])


@pytest.mark.parametrize("schedule", [SHARED, DEFAULT])
@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_1", "Q8_0", "Q4_K", "Q6_K"])
def test_every_lane_reads_its_elements(name: str, schedule: str) -> None:
    format, rng = FORMATS[name], np.random.default_rng(3)
    assert format.block is not None
    count = N * K // format.size
    blocks = rng.integers(0, 256, (count, format.block.itemsize), np.uint8).view(format.block)
    for field in format.block.names or ():
        if format.block[field] == np.dtype("<f2"):
            blocks[field] = rng.normal(size=(count, 1)).astype("<f2")
    planes = format.planes_of(blocks.view(np.uint8), N)
    (weights,) = reference(module_of(name, planes, False), list(planes.values()))
    x = rng.normal(size=(1, K)).astype(np.float32)
    program = compile_module(module_of(name, planes, True, N, schedule), "lavapipe")
    assert program.layers[0].schedule == schedule
    names = [buffer.name for buffer in program.manifest.inputs]
    inputs = dict(zip(names, (*planes.values(), x), strict=True))
    (result,) = run(program, inputs, checks=Checks.all(stop=True)).values()
    wide = weights.reshape(N, K).astype(np.float64)
    allowed = 2e-6 * (abs(x) @ abs(wide).T)
    assert (abs(result - x @ wide.T) <= allowed + 1e-6).all()


@pytest.mark.parametrize(
    ("name", "k", "n", "columns"),
    [
        ("Q4_1", K, 128, 1),  # too few columns
        ("Q4_1", K, 256, 2),
        ("Q8_0", K, 256, 2),
        ("Q4_1", 576, 384, 4),
        ("Q8_0", 576, 384, 2),  # an element is a byte: the code of four columns is too long
        ("Q4_1", 576, 392, 1),  # subgroups of several columns would end behind the last column
        ("Q4_1", 1536, 384, 1),
    ],
)
def test_subgroups_on_a_cpu_share_words_of_one_row(name: str, k: int, n: int, columns: int) -> None:
    """Subgroups share words of weights if the code is short and no lane is idle."""
    format = FORMATS[name]
    sizes = {key: (n, k // format.size, *format.sizes(key)) for key in format.planes}
    planes = {
        key: np.zeros(sizes[key], plane.element.dtype) for key, plane in format.planes.items()
    }
    program = compile_module(module_of(name, planes, True, n, None, k), "lavapipe")
    assert program.layers[0].schedule == DEFAULT.replace("columns = 1", f"columns = {columns}")
    (code,) = program.code.values()
    loads = [line for line in code.text.splitlines() if "spirv.Load" in line]
    assert loads
    assert not any("f16" in line for line in loads)
