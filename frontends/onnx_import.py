"""
`.onnx` to `linalg` on tensors through torch-mlir, with what torch-mlir loses put back.

Weights stay arrays: they leave the graph before it becomes text and return as arguments. Names,
unsigned types and the node behind every operation come from the ONNX file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.universe import Universe
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.culprit import crashing_node
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import FLOATS, Array, ImportedModel, Node, Value, annotate
from xdsl_spirv.frontends.onnx_checks import check_nodes
from xdsl_spirv.frontends.quantized_nodes import expand_quantized
from xdsl_spirv.frontends.torch_mlir_process import TIMEOUT, TorchMLIR
from xdsl_spirv.frontends.wide_sums import widen_sums
from xdsl_spirv.upstream.caching_parser import CachingParser
from xdsl_spirv.upstream.collection import without_collection

LIFT = 1024
"""Bytes from which an initializer becomes an argument. Smaller ones are mostly shapes, axes and
scales, which torch-mlir has to see."""


@dataclass
class Lowered:
    """
    What torch-mlir made of a model: text and arrays, which any process can make a model of.

    `interface` and `locations` are as the worker writes them (`torch_mlir_worker`).
    """

    text: str
    interface: dict[str, Any]
    locations: list[str]
    weights: Mapping[str, Array]
    inputs: list[Value]
    sizes: Mapping[str, list[str]]
    """What the open dimensions of inputs are called."""

    @without_collection()
    def model(self) -> ImportedModel:
        """Parse it; raises `FrontendError` for what xDSL cannot read."""
        module = parse_linalg(self.text)
        locate(module, self.locations)
        return _assembled(module, self.interface, self.inputs, self.weights, self.sizes)


def import_onnx(
    model: str | os.PathLike[str] | Any,
    dims: Mapping[str, int | None] | None = None,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, Array] | None = None,
    dynamic: bool = False,
    simplify: bool = True,
    timeout: float = TIMEOUT,
    worker: TorchMLIR | None = None,
    find_crashes: bool = True,
) -> ImportedModel:
    """
    Import an ONNX file, or a `ModelProto`.

    `dims` gives open input dimensions their sizes by name (`batch`, or `x.0` for the first of the
    input `x`), `shapes` by whole inputs; those whose size is None stay open, and with `dynamic`
    all others do too. `constants` gives inputs
    their values, as those need that shapes depend on. A `worker` may serve many imports; without
    one a process is started for this one. `find_crashes` looks for the node where torch-mlir dies
    without a word.

    Raises `FrontendError` for a file that is none, for open dimensions, and for what torch-mlir
    refuses, naming the node.
    """
    with ExitStack() as stack:
        return lower_onnx(
            model,
            dims,
            shapes=shapes,
            constants=constants,
            dynamic=dynamic,
            simplify=simplify,
            worker=worker or stack.enter_context(TorchMLIR(timeout)),
            find_crashes=find_crashes,
        ).model()


def lower_onnx(
    model: str | os.PathLike[str] | Any,
    dims: Mapping[str, int | None] | None = None,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, Array] | None = None,
    dynamic: bool = False,
    simplify: bool = True,
    worker: TorchMLIR,
    find_crashes: bool = True,
) -> Lowered:
    """The first half of `import_onnx`: everything that needs onnx and torch-mlir."""
    if isinstance(model, str | os.PathLike):
        proto = onnx_file.read_model(model)
    else:
        proto = model
        onnx_file.check_model(proto, "the model")
    onnx_file.fix_inputs(proto, constants or {})
    onnx_file.fix_dimensions(proto, dims or {}, shapes)
    if not dynamic:
        kept = [name for name, size in (dims or {}).items() if size is None]
        onnx_file.refuse_open_dimensions(proto, kept)
    inputs = [value_of(value) for value in onnx_file.inputs_of(proto)]
    onnx_file.name_nodes(proto)
    check_nodes(proto)
    proto = widen_sums(expand_quantized(proto))
    return _lowered(proto, inputs, simplify, worker, find_crashes)


def value_of(value: Any) -> Value:
    """An input or output of the file."""
    return Value(value.name, onnx_file.element_type(value), onnx_file.shape_of(value))


def _with_node(error: FrontendError, proto: Any, worker: TorchMLIR) -> FrontendError:
    """A crash, with the node that it comes from if that can be found."""
    node = crashing_node(proto, worker)
    if node is None:
        return error
    place = f"node {node.name!r}, operator {node.op_type}, {error.place}"
    return FrontendError(error.cause, place, error.remedy, error.kind)


def _work(job: dict[str, Any], folder: Path, worker: TorchMLIR) -> None:
    """Run a job, once more for each operator that torch-mlir lacks and ONNX defines by others."""
    expand: list[tuple[str, str]] = []
    first: FrontendError | None = None
    while True:
        try:
            return worker.run(job | {"expand": expand}, folder)
        except FrontendError as error:
            first = first or error
            found = [each for each in _functions_at_fault(error, folder) if each not in expand]
            if not found:
                raise first from None
            expand += found
            for name in ("error.json", "signal"):
                (folder / name).unlink(missing_ok=True)


def _functions_at_fault(error: FrontendError, folder: Path) -> list[tuple[str, str]]:
    """
    Domain and name of the operator that an error is about, if ONNX defines it by others.

    If the error names none, all such operators of the model.
    """
    path = folder / "interface.json"
    kinds = (
        {name: kind for name, kind, *_ in json.loads(path.read_text())["nodes"]}
        if (path.exists())
        else {}
    )
    named = kinds.get(error.node or "", error.operator)
    found: list[tuple[str, str]] = []
    for operator in [named] if named is not None else dict.fromkeys(kinds.values()):
        domain = onnx_file.function_domain(operator)
        if domain is not None:
            found.append((domain, operator))
    return found


def _lowered(
    proto: Any, inputs: list[Value], simplify: bool, worker: TorchMLIR, find_crashes: bool
) -> Lowered:
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-onnx-") as name:
        folder = Path(name, "out")
        path = Path(name, "model.onnx")
        onnx_file.save_model(proto, path)
        try:
            _work({"model": str(path), "simplify": simplify, "lift": LIFT}, folder, worker)
        except FrontendError as error:
            if error.kind == "crash" and find_crashes:
                raise _with_node(error, proto, worker) from None
            raise
        return Lowered(
            (folder / "module.mlir").read_text(),
            json.loads((folder / "interface.json").read_text()),
            json.loads((folder / "locations.json").read_text()),
            _weights(folder / "weights.safetensors"),
            inputs,
            {v.name: onnx_file.names_of(v) for v in onnx_file.inputs_of(proto)},
        )


def _weights(path: Path) -> dict[str, Array]:
    from safetensors.numpy import load_file

    return load_file(path)


def parse_linalg(text: str) -> ModuleOp:
    """
    MLIR's generic form as torch-mlir prints it; raises `FrontendError` for what xDSL cannot read.
    """
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    # xDSL does not know the flags of a truncation; none is the only value that occurs.
    text = text.replace("<{overflowFlags = #arith.overflow<none>}>", "")
    text = text.replace("overflowFlags = #arith.overflow<none>, ", "")
    text = text.replace(", overflowFlags = #arith.overflow<none>", "")
    try:
        module = CachingParser(ctx, text, "the imported model").parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        first = str(error).strip().splitlines()
        cause = next((x.strip(" ^") for x in reversed(first) if x.strip(" ^~")), str(error))
        raise FrontendError(
            f"xDSL cannot read what torch-mlir made of the model: {cause}",
            "the imported model",
            "report it with the model",
            "parse",
        ) from error
    return module


def locate(module: ModuleOp, names: list[str]) -> None:
    """Give every operation the name of its node, in the order of the text."""
    for op, name in zip(module.walk(), names, strict=True):
        if name:
            op.location = NameLoc(StringAttr(name), NoneAttr())


def _assembled(
    module: ModuleOp,
    interface: Any,
    inputs: list[Value],
    weights: Mapping[str, Array],
    sizes: Mapping[str, list[str]],
) -> ImportedModel:
    """The module with its names and types, and the weights in the order of the arguments."""
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    declared = {value.name: value for value in inputs}
    block = function.body.block
    given = [*interface["inputs"], *interface["weights"]]
    arguments = [_value(e, a.type) for e, a in zip(given, block.args, strict=True)]
    made = zip(interface["outputs"], function.function_type.outputs, strict=True)
    results = [_value(entry, type) for entry, type in made]
    annotate(function, arguments, results, sizes)
    if "floats" in interface:
        function.attributes[FLOATS] = StringAttr(interface["floats"])
    count = len(interface["inputs"])
    missing = [name for name in declared if name not in {a.name for a in arguments}]
    if missing:
        raise FrontendError(f"the input {missing[0]!r} was lost by the importer", "", "report it")
    return ImportedModel(
        module,
        {value.name: weights[value.name] for value in arguments[count:]},
        arguments[:count],
        results,
        [Node(name, kind, tuple(i), tuple(o)) for name, kind, i, o in interface["nodes"]],
    )


def _value(entry: Any, type: Attribute) -> Value:
    """What the worker says of an argument or result, of the shape that torch-mlir gave it."""
    assert isinstance(type, TensorType)
    name = entry["name"]
    return Value(name, onnx_file.type_name(entry["type"], name), tuple(type.get_shape()))
