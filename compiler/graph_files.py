"""
Runs graph programs, and stores them as a folder or as a VGF file for Arm's tools.

The folder has `graph.spv`, `constants.npz` (arrays of OpGraphConstantARM by their ids) and
`graph.json` (names of inputs and outputs, in the order of the variables' bindings). VGF files are
written and read by Arm's library.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.interpreter.graphs import numpy_type, run_graph
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.given import VARIABLE, bind_buffers, unknown_device
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.runtime.replacing import FolderKind
from xdsl_spirv.runtime.vulkan.work import TENSOR_FORMATS, GraphWork, Tensor
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.programs import Executor

Array: TypeAlias = np.ndarray[Any, Any]

SPIRV, CONSTANTS, NAMES = "graph.spv", "constants.npz", "graph.json"
GRAPH_FOLDER = FolderKind("graph program", NAMES)
VGF = ".vgf"
"""The ending of a path that names a VGF file and not a folder."""

TENSOR_ARM = 1000460000
"""VK_DESCRIPTOR_TYPE_TENSOR_ARM."""

VULKAN_HEADER = 309
"""First version of the Vulkan header with VK_ARM_tensors."""


@dataclass
class GraphProgram:
    """A graph's module, the arrays of its constants by id, and the names of inputs and outputs."""

    graph: spv.GraphOp
    constants: dict[int, Array]
    inputs: list[str]
    outputs: list[str]
    wide: frozenset[str] = frozenset()
    """Inputs that are i64 in the model and i32 in the graph, since TOSA has no i64 tensors."""

    @property
    def module(self) -> ModuleOp:
        module = self.graph.parent_op()
        assert isinstance(module, ModuleOp)  # graphs are top-level operations
        return module

    @property
    def buffers(self) -> list[Buffer]:
        """Returns the inputs as buffer records."""
        types = cast("Sequence[TensorArmType]", self.graph.function_type.inputs.data)
        pairs = zip(self.inputs, types, strict=True)
        return [
            Buffer(name, "input", "i64" if name in self.wide else str(t.element_type), t.extents)
            for name, t in pairs
        ]

    def narrow(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """
        Converts inputs to the graph's types. Raises `ProgramError` for numbers beyond 32 bits.
        """
        narrow = {name: given[name].astype(np.int32) for name in self.wide}
        for name, array in narrow.items():
            if (array != given[name]).any():
                raise ProgramError(
                    f"the input {name!r} has numbers beyond 32 bits",
                    "a graph takes i64 as i32",
                    "compile the model to kernels",
                )
        return {**given, **narrow}

    @cached_property
    def work(self) -> GraphWork:
        """The graph for a device: SPIR-V bytes, tensors of inputs and outputs, constants."""
        ops = list(self.module.body.block.ops)
        (entry,) = (op for op in ops if isinstance(op, spv.GraphEntryPointOp))
        variables = {op.sym_name.data: op for op in ops if isinstance(op, spv.GlobalVariableOp)}
        bound = [variables[name.string_value()] for name in entry.interface]
        kind = self.graph.function_type
        types = cast("Sequence[TensorArmType]", [*kind.inputs, *kind.outputs])
        tensors: list[Tensor] = []
        for op, type_ in zip(bound, types, strict=True):
            place = [p.value.data if p else 0 for p in (op.descriptor_set, op.binding)]
            tensors.append(Tensor(numpy_type(type_.element_type).name, type_.extents, *place))
        count = len(self.inputs)
        name = entry.attributes.get("entry_name")
        return GraphWork(
            encode(self.module),
            name.data if isinstance(name, StringAttr) else entry.fn.string_value(),
            dict(zip(self.inputs, tensors[:count], strict=True)),
            dict(zip(self.outputs, tensors[count:], strict=True)),
            {k: (Tensor(a.dtype.name, a.shape), a.tobytes()) for k, a in self.constants.items()},
        )

    def run(self, inputs: Mapping[str, Any], device: str = "interpreter") -> dict[str, Array]:
        """
        Runs the graph and returns the outputs by name.

        `device` is `interpreter`, `vulkan` or `vulkan:N`. A Vulkan device needs VK_ARM_data_graph
        or Arm's emulation layers, and runs in a separate process. Raises `ProgramError` for inputs
        that do not fit, and the device's own errors.
        """
        given = bind_buffers(self.buffers, inputs)
        if device == "interpreter":
            narrow = self.narrow(given)
            arrays = [narrow[name] for name in self.inputs]
            results = run_graph(self.graph, arrays, self.constants)
            return dict(zip(self.outputs, results, strict=True))
        if device.partition(":")[0] != "vulkan":
            raise unknown_device(device)
        from xdsl_spirv.runtime.vulkan.kept import kept_device

        with kept_device(device, graphs=True) as opened:
            return self.run_opened(opened, given)

    def run_opened(self, opened: Executor[Any], given: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph like `run`, on an open device. `given` are the inputs."""
        narrow = self.narrow(given)
        done = opened.execute_graph(self.work, {n: a.tobytes() for n, a in narrow.items()})
        return {
            name: np.frombuffer(done[name], tensor.element).reshape(tensor.extents)
            for name, tensor in self.work.outputs.items()
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph as a folder, or as a VGF file if `path` ends in .vgf."""
        save(self, os.fspath(path))

    def __call__(self, *arrays: Any, device: str | None = None, **named: Any) -> Any:
        """
        Runs the graph on arrays by position or by name. Returns the result, or a tuple of several.

        `device` is as in `run`. The default is the environment variable XDSL_SPIRV_DEVICE, or else
        the interpreter.
        """
        given = dict(zip(self.inputs, arrays, strict=False)) | named
        name = device or os.environ.get(VARIABLE) or "interpreter"
        results = tuple(self.run(given, name).values())
        return results[0] if len(results) == 1 else results


def save(program: GraphProgram, path: str) -> None:
    """
    Writes a program as a folder, or as a VGF file if `path` ends in .vgf.

    Raises `ProgramError` if a folder contains something other than a graph program.
    """
    binary = encode(program.module, names=True)
    if path.endswith(VGF):
        write_atomically(path, _vgf_of(program, binary))
        return
    with GRAPH_FOLDER.replacing(path) as new:
        (new / SPIRV).write_bytes(binary)
        arrays: dict[str, Any] = {str(k): array for k, array in program.constants.items()}
        np.savez(new / CONSTANTS, **arrays)
        names = {
            "inputs": program.inputs, "outputs": program.outputs, "wide": sorted(program.wide)
        }  # fmt: skip
        (new / NAMES).write_text(json.dumps(names, indent=1) + "\n")


def load(path: str) -> GraphProgram:
    """Reads a graph program that `save` wrote. Raises `ProgramError` if it cannot be read."""
    try:
        if path.endswith(VGF):
            return _read_vgf(Path(path).read_bytes(), path)
        folder = Path(path)
        names: dict[str, list[str]] = json.loads((folder / NAMES).read_text())
        with np.load(folder / CONSTANTS) as arrays:
            constants = {int(key): arrays[key] for key in arrays}
        module = decode((folder / SPIRV).read_bytes())
        return GraphProgram(
            _graph_in(module), constants, names["inputs"], names["outputs"],
            frozenset(names["wide"]),
        )  # fmt: skip
    except (OSError, ValueError, LookupError, RecursionError, SPIRVDecodeError) as error:
        raise ProgramError(
            f"the graph cannot be read: {error}", path, "compile the model again"
        ) from error


def _graph_in(module: ModuleOp) -> spv.GraphOp:
    graphs = [op for op in module.body.block.ops if isinstance(op, spv.GraphOp)]
    if len(graphs) != 1:
        raise ValueError(f"the module has {len(graphs)} graphs, but must have one")
    return graphs[0]


def _library(path: str) -> Any:
    try:
        import vgfpy
    except ImportError as error:
        raise ProgramError(
            "VGF files need Arm's library", path, "install the extra: pip install 'xdsl-spirv[vgf]'"
        ) from error
    return vgfpy


def _vgf_of(program: GraphProgram, binary: bytes) -> bytes:
    vgf = _library("a VGF file")
    encoder = vgf.CreateEncoder(VULKAN_HEADER)
    words = np.frombuffer(binary, "<u4").tolist()
    module = encoder.AddModule(vgf.ModuleType.Graph, "main", "main", words)
    types = program.graph.function_type
    slots: list[Any] = []
    for binding, type_ in enumerate((*types.inputs, *types.outputs)):
        assert isinstance(type_, TensorArmType)
        is_input = binding < len(types.inputs)
        add = encoder.AddInputResource if is_input else encoder.AddOutputResource
        form = TENSOR_FORMATS[numpy_type(type_.element_type).name]
        slots.append(encoder.AddBindingSlot(binding, add(TENSOR_ARM, form, type_.extents, [])))
    constants: list[Any] = []
    for _, array in sorted(program.constants.items()):
        resource = encoder.AddConstantResource(TENSOR_FORMATS[array.dtype.name], array.shape, [])
        constants.append(encoder.AddConstant(resource, np.ascontiguousarray(array)))
    inputs, outputs = slots[: len(types.inputs)], slots[len(types.inputs) :]
    descriptors = [encoder.AddDescriptorSetInfo(slots, 0)]
    encoder.AddSegmentInfo(module, "main", descriptors, inputs, outputs, constants)
    encoder.AddModelSequenceInputsOutputs(inputs, program.inputs, outputs, program.outputs)
    encoder.Finish()
    stream = io.BytesIO()
    if not encoder.WriteTo(stream):
        raise ProgramError("Arm's library cannot write the VGF file", "", "write a folder instead")
    return stream.getvalue()


def _read_vgf(data: bytes, path: str) -> GraphProgram:
    vgf = _library(path)
    header = vgf.CreateHeaderDecoder(data, vgf.HeaderSize(), len(data))
    if header is None or not header.IsValid() or not header.CheckVersion():
        raise ProgramError(
            "the file is not a VGF file of a known version", path, "give another file"
        )

    # The library's decoders refer to these bytes, which must stay alive.
    tables = {
        name: data[start : start + size]
        for name in ("ModuleTable", "ModelSequenceTable", "ModelResourceTable", "Constants")
        for start in [getattr(header, f"Get{name}Offset")()]
        for size in [getattr(header, f"Get{name}Size")()]
    }
    modules, sequence, resources, arrays = (
        create(table, len(table))
        for create, table in zip(
            (
                vgf.CreateModuleTableDecoder,
                vgf.CreateModelSequenceTableDecoder,
                vgf.CreateModelResourceTableDecoder,
                vgf.CreateConstantDecoder,
            ),
            tables.values(),
            strict=True,
        )
    )
    if sequence.modelSequenceTableSize() != 1 or not modules.hasSPIRVCode(0):
        raise ProgramError(
            f"the VGF file has {sequence.modelSequenceTableSize()} segments", path,
            "use a file with one segment that has a SPIR-V module",
        )  # fmt: skip
    indexes = list(sequence.getSegmentConstantIndexes(0) or ())
    ids = {index: index for index in indexes}
    ids |= {
        b.constantIndex: b.graphConstantId for b in sequence.getSegmentConstantBindings(0) or ()
    }
    dtypes = {form: np.dtype(name) for name, form in TENSOR_FORMATS.items()}
    constants: dict[int, np.ndarray[Any, Any]] = {}
    for index, number in ids.items():
        resource = arrays.getConstantMrtIndex(index)
        dtype = dtypes[resources.getVkFormat(resource)]
        shape = list(resources.getTensorShape(resource))
        constants[number] = np.frombuffer(arrays.getConstant(index), dtype).reshape(shape).copy()
    handles = (
        sequence.getModelSequenceInputNamesHandle(),
        sequence.getModelSequenceOutputNamesHandle(),
    )
    inputs, outputs = (
        [sequence.getName(h, k) for k in range(sequence.getNamesSize(h))] for h in handles
    )
    module = decode(np.array(modules.getSPIRVModuleCode(0), np.uint32).tobytes())
    return GraphProgram(_graph_in(module), constants, inputs, outputs)
