"""Matrices move through tensor layouts and views as in the extensions' pseudocode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

POINTER = "!spirv.ptr<f32, StorageBuffer>"


class State:
    """The parameters of a layout and a view as the extension initializes and changes them."""

    def __init__(
        self, rank: int, mode: str = "Undefined", view: tuple[bool, list[int]] | None = None
    ):
        self.mode = mode
        self.block = [1] * rank
        self.dims = self.stride = self.offset = self.span = [0] * rank
        self.clamp = 0
        self.view = view
        self.view_dims: list[int] = []
        self.view_stride: list[int] = []
        self.clip = (0, 1 << 32, 0, 1 << 32)

    def set_dimension(self, dims: list[int]) -> None:
        self.dims, self.span, self.offset = dims, dims, [0] * len(dims)
        self.stride = [1] * len(dims)
        for d in range(len(dims) - 2, -1, -1):
            self.stride[d] = self.stride[d + 1] * -(-dims[d + 1] // self.block[d + 1])

    def set_view_dimension(self, dims: list[int]) -> None:
        self.view_dims, self.view_stride = dims, [1] * len(dims)
        for d in range(len(dims) - 2, -1, -1):
            self.view_stride[d] = self.view_stride[d + 1] * dims[d + 1]

    def element(self, row: int, column: int, columns: int) -> Any:
        """Returns the index of the element or block, the offset in the block, and bounds flags."""
        index = row * columns + column
        if self.view is not None:
            top, rows, left, width = self.clip
            if not (top <= row < top + rows and left <= column < left + width):
                return "clipped"
            index = (row - top) * min(columns, width) + column - left
            own, order = self.view
            dims = self.view_dims if own else self.span
            at = [0] * len(dims)
            for d in reversed(order):
                at[d], index = index % dims[d], index // dims[d]
            stride = self.view_stride
            if not own:
                stride = [int(np.prod(self.span[d + 1 :])) for d in range(len(self.span))]
            index = sum(a * s for a, s in zip(at, stride, strict=True))
        coordinates: list[int] = []
        for span in reversed(self.span):
            coordinates.insert(0, index % span)
            index //= span
        element, inside = 0, []
        for d, coordinate in enumerate(coordinates):
            c, n = coordinate + self.offset[d], self.dims[d]
            if not 0 <= c < n:
                if self.mode == "Constant":
                    return "outside"
                if self.mode == "ClampToEdge":
                    c = min(max(c, 0), n - 1)
                elif self.mode == "Repeat":
                    c %= n
                elif self.mode == "RepeatMirrored":
                    c %= 2 * n - 2
                    c = 2 * n - 2 - c if c >= n else c
            inside.append(c % self.block[d])
            element += c // self.block[d] * self.stride[d]
        return element, inside


class Tensors:
    """A writer of instructions of a layout and a view, which also updates a `State`."""

    def __init__(self, kernel: Kernel, state: State):
        self.kernel, self.state = kernel, state
        rank = len(state.block)
        self.layout_type = f"!spirv.NV.tensor_layout<{rank}, {state.mode}>"
        self.layout = kernel.op(f"spirv.NV.CreateTensorLayout : {self.layout_type}")
        self.view, self.view_type = "", ""
        if state.view is not None:
            own, order = state.view
            dims = ", ".join(map(str, order))
            self.view_type = f"!spirv.NV.tensor_view<{len(order)}, {str(own).lower()}, {dims}>"
            self.view = kernel.op(f"spirv.NV.CreateTensorView : {self.view_type}")

    def change(self, name: str, numbers: Sequence[int], view: bool = False) -> None:
        """Adds one instruction that changes the layout or the view."""
        values = ", ".join(self.kernel.constant(n) for n in numbers)
        old, type = (self.view, self.view_type) if view else (self.layout, self.layout_type)
        types = ", ".join([type, *["i32"] * len(numbers)])
        new = self.kernel.op(f"spirv.NV.Tensor{name} {old}[{values}] : {types}")
        if view:
            self.view = new
        else:
            self.layout = new

    def dimension(self, dims: list[int]) -> None:
        self.state.set_dimension(dims)
        self.change("LayoutSetDimension", dims)

    def slice(self, offset: list[int], span: list[int]) -> None:
        old = self.state.offset
        self.state.offset = [o + n for o, n in zip(old, offset, strict=True)]
        self.state.span = span
        self.change("LayoutSlice", [n for pair in zip(offset, span, strict=True) for n in pair])

    def move(
        self, pointer: str, matrix: str, type: str, store: bool = False, decode: str = ""
    ) -> str:
        """Adds a load of a cooperative matrix and returns its name, or adds a store."""
        view = f" view({self.view})" if self.view else ""
        types = ", ".join([POINTER, type, self.layout_type, *([self.view_type] if view else [])])
        text = f"{pointer}, {matrix}, {self.layout}{view}{decode} : {types}"
        if store:
            self.kernel(f"spirv.NV.CooperativeMatrixStoreTensor {text}")
            return ""
        return self.kernel.op(f"spirv.NV.CooperativeMatrixLoadTensor {text}")


def matrix_type(rows: int, columns: int, scope: str = "Subgroup") -> str:
    return f"!spirv.coopmatrix<{rows}x{columns}xf32, {scope}, MatrixAcc>"


def loaded(
    kernel: Kernel, tensors: Tensors, source: int, rows: int, columns: int, **options: Any
) -> Array:
    """
    Adds a load of a tensor into a matrix whose elements are 9.0, and runs the kernel. Returns the
    loaded matrix.
    """
    out = kernel.buffer("f32", np.zeros(rows * columns, np.float32))
    type = matrix_type(rows, columns)
    before = kernel.op(
        f"spirv.CompositeConstruct {kernel.constant('9.0', 'f32')} : (f32) -> {type}"
    )
    found = tensors.move(kernel.pointer(source, "%zero"), before, type)
    stride = kernel.constant(columns)
    kernel(
        f"spirv.KHR.CooperativeMatrixStore {kernel.pointer(out, '%zero')}, {found}, {stride}, "
        f"<RowMajor> : {POINTER}, {type}, i32"
    )
    return kernel.run(**options)[out].reshape(rows, columns)


def expected(state: State, data: Any, rows: int, columns: int) -> Array:
    """Returns the expected matrix, computed element by element."""
    result = np.zeros((rows, columns), np.float32)
    for row in range(rows):
        for column in range(columns):
            where = state.element(row, column, columns)
            if isinstance(where, str):
                value = 9.0 if where == "clipped" else state.clamp
            else:
                value = data[where[0]]
            result[row, column] = value
    return result


@pytest.mark.parametrize("mode", ["Constant", "ClampToEdge", "Repeat", "RepeatMirrored"])
@pytest.mark.parametrize("offset", [[2, 3], [-3, -1], [9, 12]])
def test_a_slice_over_the_edges(
    kernel: Kernel, rng: np.random.Generator, mode: str, offset: list[int]
) -> None:
    data = rng.standard_normal(11 * 13).astype(np.float32)
    source = kernel.buffer("f32", data)
    tensors = Tensors(kernel, State(2, mode))
    tensors.dimension([11, 13])
    tensors.slice(offset, [8, 4])
    assert (loaded(kernel, tensors, source, 8, 4) == expected(tensors.state, data, 8, 4)).all()


def test_elements_outside_of_robust_memory_are_zero(kernel: Kernel) -> None:
    """The layout is 8 x 8, but the buffer has five rows."""
    source = kernel.buffer("f32", np.arange(1, 41, dtype=np.float32))
    tensors = Tensors(kernel, State(2))
    tensors.dimension([8, 8])
    found = loaded(kernel, tensors, source, 8, 8, robust=True)
    assert found.reshape(-1).tolist() == [*range(1, 41), *[0] * 24]


def test_a_slice_of_five_dimensions_with_strides_and_a_slice_of_it(
    kernel: Kernel, rng: np.random.Generator
) -> None:
    data = rng.standard_normal(4000).astype(np.float32)
    source = kernel.buffer("f32", data)
    tensors = Tensors(kernel, State(5, "Constant"))
    tensors.dimension([2, 3, 4, 5, 6])
    tensors.state.stride = [900, 300, 60, 8, 1]
    tensors.change("LayoutSetStride", tensors.state.stride)
    tensors.slice([0, 0, 1, 1, 0], [2, 3, 3, 4, 6])
    tensors.slice([0, 1, 0, 0, 2], [1, 2, 2, 2, 4])
    assert (loaded(kernel, tensors, source, 8, 4) == expected(tensors.state, data, 8, 4)).all()


def test_a_layout_in_a_variable(kernel: Kernel, rng: np.random.Generator) -> None:
    """glslang stores layouts in Function variables."""
    data = rng.standard_normal(11 * 13).astype(np.float32)
    source = kernel.buffer("f32", data)
    tensors = Tensors(kernel, State(2, "Constant"))
    tensors.dimension([11, 13])
    tensors.slice([2, 3], [8, 4])
    type = tensors.layout_type
    variable = kernel.op(f"spirv.Variable : !spirv.ptr<{type}, Function>")
    kernel(f'spirv.Store "Function" {variable}, {tensors.layout} : {type}')
    tensors.layout = kernel.op(f'spirv.Load "Function" {variable} : {type}')
    assert (loaded(kernel, tensors, source, 8, 4) == expected(tensors.state, data, 8, 4)).all()


def test_a_layout_that_is_not_set_is_refused(kernel: Kernel) -> None:
    tensors = Tensors(kernel, State(2, "Constant"))
    type = tensors.layout_type
    variable = kernel.op(f"spirv.Variable : !spirv.ptr<{type}, Function>")
    tensors.layout = kernel.op(f'spirv.Load "Function" {variable} : {type}')
    source = kernel.buffer("f32", np.zeros(32, np.float32))
    with pytest.raises(InterpreterError, match="read before it is set"):
        loaded(kernel, tensors, source, 8, 4)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("clip", [None, (1, 3, 2, 5), (2, 100, 0, 4)])
def test_a_view_permutes_and_clips(
    kernel: Kernel, rng: np.random.Generator, own: bool, clip: Any
) -> None:
    data = rng.standard_normal(16 * 16).astype(np.float32)
    source = kernel.buffer("f32", data)
    tensors = Tensors(kernel, State(2, "Constant", (own, [1, 0])))
    tensors.dimension([16, 16])
    tensors.slice([3, 5], [4, 8])
    if own:
        tensors.state.set_view_dimension([8, 4])
        tensors.change("ViewSetDimension", [8, 4], view=True)
        tensors.state.view_stride = [2, 8]
        tensors.change("ViewSetStride", [2, 8], view=True)
    if clip is not None:
        tensors.state.clip = clip
        text = ", ".join(kernel.constant(n) for n in clip)
        tensors.view = kernel.op(
            f"spirv.NV.TensorViewSetClip {tensors.view}[{text}] : "
            f"{tensors.view_type}, i32, i32, i32, i32"
        )
    assert (loaded(kernel, tensors, source, 4, 8) == expected(tensors.state, data, 4, 8)).all()


def test_a_store_changes_no_other_elements(kernel: Kernel, rng: np.random.Generator) -> None:
    """A transposed store drops elements outside of the tensor."""
    data = rng.standard_normal((8, 8)).astype(np.float32)
    source = kernel.buffer("f32", data.reshape(-1))
    target = kernel.buffer("f32", np.full(100, -1, np.float32))
    type, stride = matrix_type(8, 8), kernel.constant(8)
    start = kernel.pointer(source, "%zero")
    matrix = kernel.op(
        f"spirv.KHR.CooperativeMatrixLoad {start}, {stride}, <RowMajor> : {POINTER}, i32 -> {type}"
    )
    tensors = Tensors(kernel, State(2, "Repeat", (False, [1, 0])))
    tensors.dimension([10, 10])
    tensors.slice([-2, 5], [8, 8])
    tensors.move(kernel.pointer(target, "%zero"), matrix, type, store=True)
    found = kernel.run()[target].reshape(10, 10)
    wanted = np.full((10, 10), -1, np.float32)
    wanted[0:6, 5:10] = data.T[2:8, 0:5]
    assert (found == wanted).all()


def test_a_decoded_block_format(kernel: Kernel, rng: np.random.Generator) -> None:
    """A block has a scale and 7 numbers of 8 bits, as quantized weights do."""
    rows, columns, size = 8, 14, 7
    packed = rng.integers(-8, 8, (rows, columns // size, 8)).astype(np.int8)
    source = kernel.buffer("f32", packed.reshape(-1).view(np.float32))
    block = "!spirv.struct<(!spirv.array<8 x i8, stride=1> [0]), Block>"
    pointer = f"!spirv.ptr<{block}, PhysicalStorageBuffer>"
    pair = "!spirv.array<2 x i32>"
    octet = "!spirv.ptr<i8, PhysicalStorageBuffer>"
    arguments = f"%p: {pointer}, %block: {pair}, %in: {pair}"
    kernel.functions.append(f"""spirv.func @decode({arguments}) -> f32 "None" {{
      %zero = spirv.Constant 0 : i32
      %one = spirv.Constant 1 : i32
      %column = spirv.CompositeExtract %in[1 : i32] : {pair}
      %at = spirv.IAdd %column, %one : i32
      %sp = spirv.AccessChain %p[%zero, %zero] : {pointer}, i32, i32 -> {octet}
      %s = spirv.Load "PhysicalStorageBuffer" %sp ["Aligned", 1] : i8
      %vp = spirv.AccessChain %p[%zero, %at] : {pointer}, i32, i32 -> {octet}
      %v = spirv.Load "PhysicalStorageBuffer" %vp ["Aligned", 1] : i8
      %sf = spirv.ConvertSToF %s : i8 to f32
      %vf = spirv.ConvertSToF %v : i8 to f32
      %r = spirv.FMul %sf, %vf : f32
      spirv.ReturnValue %r : f32
    }}""")
    out = kernel.buffer("f32", np.zeros(8 * 8, np.float32))
    state = State(2, "Constant")
    state.block = [1, size]
    tensors = Tensors(kernel, state)
    tensors.change("LayoutSetBlockSize", state.block)
    tensors.dimension([rows, columns])
    tensors.slice([1, 4], [8, 8])
    type, stride = matrix_type(8, 8), kernel.constant(8)
    nothing = kernel.op(
        f"spirv.CompositeConstruct {kernel.constant('0.0', 'f32')} : (f32) -> {type}"
    )
    found = tensors.move(kernel.pointer(source, "%zero"), nothing, type, decode=" decode(@decode)")
    kernel(
        f"spirv.KHR.CooperativeMatrixStore {kernel.pointer(out, '%zero')}, {found}, {stride}, "
        f"<RowMajor> : {POINTER}, {type}, i32"
    )
    wanted = np.zeros((8, 8), np.float32)
    numbers = packed[..., :1].astype(np.float32) * packed[..., 1:]
    wanted[:7] = numbers.reshape(rows, columns)[1:8, 4:12]
    assert (kernel.run()[out].reshape(8, 8) == wanted).all()


def test_a_decode_function_reads_shared_memory(kernel: Kernel, rng: np.random.Generator) -> None:
    """The race check attributes reads to all invocations of the scope."""
    data = rng.standard_normal(64).astype(np.float32)
    source = kernel.buffer("f32", data)
    shared = "!spirv.ptr<!spirv.array<32 x f32>, Workgroup>"
    element = "!spirv.ptr<f32, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @factors : {shared}")
    block = "!spirv.struct<(f32 [0]), Block>"
    pointer = f"!spirv.ptr<{block}, PhysicalStorageBuffer>"
    pair, single = "!spirv.array<2 x i32>", "!spirv.ptr<f32, PhysicalStorageBuffer>"
    kernel.functions.append(f"""
    spirv.func @decode(%p: {pointer}, %block: {pair}, %in: {pair}) -> f32 "None" {{
      %zero = spirv.Constant 0 : i32
      %row = spirv.CompositeExtract %block[0 : i32] : {pair}
      %factors = spirv.mlir.addressof @factors : {shared}
      %fp = spirv.AccessChain %factors[%row] : {shared}, i32 -> {element}
      %f = spirv.Load "Workgroup" %fp ["NonPrivatePointer"] : f32
      %vp = spirv.AccessChain %p[%zero] : {pointer}, i32 -> {single}
      %v = spirv.Load "PhysicalStorageBuffer" %vp ["Aligned", 4] : f32
      %r = spirv.FMul %f, %v : f32
      spirv.ReturnValue %r : f32
    }}""")
    factors = kernel.op(f"spirv.mlir.addressof @factors : {shared}")
    place = kernel.op(f"spirv.AccessChain {factors}[%id] : {shared}, i32 -> {element}")
    own = kernel.op("spirv.ConvertUToF %id : i32 to f32")
    kernel(f'spirv.Store "Workgroup" {place}, {own} ["NonPrivatePointer"] : f32')
    memory = "AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible"
    kernel(f"spirv.ControlBarrier <Workgroup>, <Workgroup>, <{memory}>")
    out = kernel.buffer("f32", np.zeros(64, np.float32))
    tensors = Tensors(kernel, State(2, "Constant"))
    tensors.dimension([8, 8])
    type, stride = matrix_type(8, 8), kernel.constant(8)
    zero = kernel.constant("0.0", "f32")
    nothing = kernel.op(f"spirv.CompositeConstruct {zero} : (f32) -> {type}")
    found = tensors.move(kernel.pointer(source, "%zero"), nothing, type, decode=" decode(@decode)")
    kernel(
        f"spirv.KHR.CooperativeMatrixStore {kernel.pointer(out, '%zero')}, {found}, {stride}, "
        f"<RowMajor> : {POINTER}, {type}, i32"
    )
    checks = Checks.all()
    result = kernel.run(checks=checks)[out].reshape(8, 8)
    assert (result == data.reshape(8, 8) * np.arange(8, dtype=np.float32)[:, None]).all()
    assert not list(checks.report), str(checks.report)
