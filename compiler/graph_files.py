"""
Graph programs on disk: a folder of ours, or a VGF file, which Arm's tools run.

The folder has `graph.spv`, `constants.npz` (arrays of OpGraphConstantARM by their ids) and
`graph.json` (names of inputs and outputs, in the order of the variables' bindings). VGF files are
written and read by Arm's own library.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.compiler.graph_builder import GraphProgram
from xdsl_spirv.dialects.spirv.graph_arm import GraphOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.interpreter.graphs import numpy_type
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.work import TENSOR_FORMATS
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.files import beside, put_in_place, write_atomically
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError

SPIRV, CONSTANTS, NAMES = "graph.spv", "constants.npz", "graph.json"

TENSOR_ARM = 1000460000
"""VK_DESCRIPTOR_TYPE_TENSOR_ARM."""

VULKAN_HEADER = 309
"""The version of Vulkan's header that first has VK_ARM_tensors."""


def save(program: GraphProgram, path: str) -> None:
    """Writes a folder, or a VGF file where the name ends so."""
    binary = encode(program.module, names=True)
    if path.endswith(".vgf"):
        write_atomically(path, _vgf_of(program, binary))
        return
    target = Path(path).absolute()
    with beside(target) as new:
        (new / SPIRV).write_bytes(binary)
        arrays: dict[str, Any] = {str(k): array for k, array in program.constants.items()}
        np.savez(new / CONSTANTS, **arrays)
        names = {
            "inputs": program.inputs, "outputs": program.outputs, "wide": sorted(program.wide)
        }  # fmt: skip
        (new / NAMES).write_text(json.dumps(names, indent=1) + "\n")
        put_in_place(new, target)


def load(path: str) -> GraphProgram:
    """Reads a graph program that `save` wrote. Raises `ProgramError`."""
    try:
        if path.endswith(".vgf"):
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


def _graph_in(module: ModuleOp) -> GraphOp:
    graphs = [op for op in module.body.block.ops if isinstance(op, GraphOp)]
    if len(graphs) != 1:
        raise ValueError(f"its module has {len(graphs)} graphs")
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
        raise ProgramError("Arm's library does not write the VGF file", "", "write a folder")
    return stream.getvalue()


def _read_vgf(data: bytes, path: str) -> GraphProgram:
    vgf = _library(path)
    header = vgf.CreateHeaderDecoder(data, vgf.HeaderSize(), len(data))
    if header is None or not header.IsValid() or not header.CheckVersion():
        raise ProgramError("it is not a VGF file of a known version", path, "give another file")

    # The library's decoders point into these bytes and do not keep them.
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
            "only one segment, with a SPIR-V module, is run",
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
