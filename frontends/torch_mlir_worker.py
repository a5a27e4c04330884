"""
The process that runs torch-mlir: ONNX files in, `linalg` on tensors and weights out.

It is a process of its own because torch-mlir ends it on some inputs. Where it can, it forks for
every job, so that a crash costs no new start of the packages. It reads jobs, one JSON object a
line, from standard input: `{"model": PATH, "out": DIR, "simplify": true, "lift": BYTES}`, and
perhaps `"expand": [[DOMAIN, OPERATOR]]`. Into DIR go `module.mlir` (MLIR's generic form),
`interface.json`, `weights.safetensors`, or `error.json`; `stage` says how far it came, which is all
that is left of a crash. It imports neither xDSL nor numpy beyond what onnx does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError

OPSET = 17
"""Older models are converted: torch-mlir has not learnt all of their operators' forms."""

GRAPH = "main"

ROUNDS = 8
"""So often is a model simplified after branches were taken: what they leave may decide others."""

PIPELINES = (
    "builtin.module(torch-onnx-to-torch-backend-pipeline)",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline)",
    "builtin.module(func.func(canonicalize,cse,linalg-generalize-named-ops,canonicalize,cse))",
)


class Stage:
    """Which step is being done, on disk before it begins."""

    def __init__(self, folder: Path):
        self._path = folder / "stage"
        self.name = ""

    def enter(self, name: str) -> None:
        self.name = name
        self._path.write_text(name)


PACKAGES = (
    "onnx",
    "onnx.version_converter",
    "onnxsim",
    "safetensors.numpy",
    "torch_mlir.ir",
    "torch_mlir.extras.onnx_importer",
    "torch_mlir.passmanager",
    "torch_mlir.dialects.torch",
)
"""What jobs use, read before the first one so that forks share it."""


def main() -> None:
    """Do the jobs of standard input."""
    can_fork = hasattr(os, "fork")
    if can_fork:
        for name in PACKAGES:
            package(name)
    # Without a buffer: a fork must not inherit lines that this process will read.
    for line in iter(open(0, "rb", buffering=0).readline, b""):
        job = json.loads(line)
        folder = Path(job["out"])
        folder.mkdir(parents=True, exist_ok=True)
        if can_fork:
            do_in_a_fork(job, folder)
        else:
            do_one(job, folder)
        print(job["out"], flush=True)


def do_in_a_fork(job: dict[str, Any], folder: Path) -> None:
    """One job in a child; `signal` holds the number of the one that killed it."""
    child = os.fork()
    if child == 0:
        try:
            do_one(job, folder)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        (folder / "signal").write_text(str(os.WTERMSIG(status)))


def do_one(job: dict[str, Any], folder: Path) -> None:
    """One job; an exception becomes `error.json`."""
    stage = Stage(folder)
    try:
        do(job, folder, stage)
    except FrontendError as error:
        (folder / "error.json").write_text(json.dumps({"refused": vars(error)}))
    except Exception as error:
        report = {"stage": stage.name, "text": str(error), "trace": traceback.format_exc()}
        (folder / "error.json").write_text(json.dumps(report))
    stage.enter("done")


def package(name: str) -> Any:
    """A package that is optional and has no usable types."""
    return import_module(name)


def do(job: dict[str, Any], folder: Path, stage: Stage) -> None:
    """One job; raises whatever the tools raise."""
    onnx = package("onnx")
    stage.enter("reading")
    model = onnx.load(job["model"])
    stage.enter("opset conversion")
    model = convert(model)
    declared = element_types(model)
    stage.enter("rewriting")
    model = expanded(model, job.get("expand", []))
    model = package("xdsl_spirv.frontends.onnx_narrow").carry_as_bytes(model)
    branches = package("xdsl_spirv.frontends.onnx_branches")
    if job["simplify"]:
        stage.enter("onnxsim")
        model = branches.simplified(model)
    rules = package("xdsl_spirv.frontends.onnx_rules")
    stage.enter("rewriting")
    for number in range(ROUNDS):
        # What onnxsim takes out of a branch it has not folded yet.
        again = rules.decompose(model) or (not number and branches.has_graphs(model.graph))
        if not again or not job["simplify"]:
            break
        stage.enter("onnxsim")
        # Its optimizations would put some operators together again.
        model = branches.simplified(model, optimize=False)
        stage.enter("rewriting")
        if not branches.has_graphs(model.graph):
            break
    package("xdsl_spirv.frontends.onnx_refusals").refuse(model)
    package("xdsl_spirv.frontends.onnx_unsigned").carry_with_sign(model)
    package("xdsl_spirv.frontends.onnx_file").name_nodes(model)
    stage.enter("shape inference")
    # Without the weights, which it would copy twice; they are of known types.
    weights = lift(model, job["lift"])
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.graph.name = GRAPH
    stage.enter("saving weights")
    save(folder / "weights.safetensors", weights)
    found = interface(model, list(weights), declared)
    (folder / "interface.json").write_text(json.dumps(found))
    module = lower(model, stage, job.get("expand", []))
    stage.enter("printing")
    (folder / "locations.json").write_text(json.dumps(locations(module)))
    (folder / "module.mlir").write_text(
        module.get_asm(print_generic_op_form=True, enable_debug_info=False)
    )


def convert(model: Any) -> Any:
    """The model in an opset that torch-mlir knows; raises `FrontendError` if nobody converts it."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        # Operators of other domains, which the rules write in terms of ONNX's own.
        model.opset_import.append(package("onnx.helper").make_opsetid("", OPSET))
    return package("xdsl_spirv.frontends.onnx_old").converted(model, OPSET)


def element_types(model: Any) -> dict[str, int]:
    """The types of inputs and outputs as the file has them."""
    values = (*model.graph.input, *model.graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}


def expanded(model: Any, operators: list[list[str]]) -> Any:
    """
    The model without some operators: they are replaced by what ONNX defines them as.

    torch-mlir could do it too, but then nothing would fold the shapes that the definitions compute.
    """
    names = {tuple(each) for each in operators}
    if any(n.op_type == "SoftmaxCrossEntropyLoss" and len(n.input) > 2 for n in model.graph.node):
        # torch-mlir divides the mean by something else than the weights' sum.
        names.add(("", "SoftmaxCrossEntropyLoss"))
    if names:
        try:
            model = package("onnx.inliner").inline_selected_functions(
                model, sorted(names), inline_schema_functions=True
            )
        except Exception:
            # A value of unknown type: torch-mlir's importer is asked to do it.
            pass
    package("xdsl_spirv.frontends.onnx_file").name_nodes(model)
    return model


def lift(model: Any, limit: int) -> dict[str, Any]:
    """Turn the initializers of `limit` bytes and more into inputs, and return their values."""
    from onnx import helper, numpy_helper

    graph = model.graph
    constants = [
        n for n in graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"
    ]
    for node in constants:
        node.attribute[0].t.name = node.output[0]
        graph.initializer.append(node.attribute[0].t)
        graph.node.remove(node)
    keep_outputs(graph)
    weights: dict[str, Any] = {}
    kept: list[Any] = []
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == object:
            kept.append(tensor)
            continue
        if array.nbytes < limit:
            # torch-mlir reads float16 in the raw form only.
            kept.append(numpy_helper.from_array(array, tensor.name))
            continue
        weights[tensor.name] = array
    # An old file lists its initializers among the inputs; those that stay constant are none.
    stay = {tensor.name for tensor in kept}
    given = [v for v in graph.input if v.name not in stay and v.name not in weights]
    for tensor in graph.initializer:
        if tensor.name in weights:
            shape = list(tensor.dims)
            given.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(kept)
    graph.input.extend(given)
    return weights


def keep_outputs(graph: Any) -> None:
    """A constant that is an output is one by way of a node: arguments and results are two."""
    helper = package("onnx.helper")
    outputs = {value.name for value in graph.output}
    for tensor in graph.initializer:
        if tensor.name in outputs:
            name, tensor.name = tensor.name, f"{tensor.name}.value"
            for node in graph.node:
                node.input[:] = [tensor.name if each == name else each for each in node.input]
            graph.node.append(helper.make_node("Identity", [tensor.name], [name], name=name))


def save(path: Path, weights: dict[str, Any]) -> None:
    """A safetensors file."""
    import numpy as np

    package("safetensors.numpy").save_file(
        {name: np.ascontiguousarray(array) for name, array in weights.items()}, path
    )


def interface(model: Any, weights: list[str], declared: dict[str, int]) -> dict[str, Any]:
    """
    Inputs, weights and outputs in the function's order, and the nodes; types as `declared`.

    `floats` is the widest float that the model itself computes in.
    """

    def values(of: Any) -> list[Any]:
        return [
            {
                "name": value.name,
                "type": declared.get(value.name) or value.type.tensor_type.elem_type,
                "shape": [
                    field.dim_value if field.HasField("dim_value") else -1
                    for field in value.type.tensor_type.shape.dim
                ],
            }
            for value in of
        ]

    onnx = package("onnx")
    types = package("xdsl_spirv.frontends.onnx_file").types_in(model.graph)
    return {
        "inputs": [v for v in values(model.graph.input) if v["name"] not in weights],
        "weights": [v for v in values(model.graph.input) if v["name"] in weights],
        "outputs": values(model.graph.output),
        "floats": "f64" if onnx.TensorProto.DOUBLE in types else "f32",
        "nodes": [[n.name, n.op_type, list(n.input), list(n.output)] for n in model.graph.node],
    }


def lower(model: Any, stage: Stage, expand: list[list[str]]) -> Any:
    """The model as an operation of MLIR that holds `linalg` on tensors."""
    stage.enter("torch-mlir import")
    context = package("torch_mlir.ir").Context()
    onnx_importer = package("torch_mlir.extras.onnx_importer")
    manager = package("torch_mlir.passmanager").PassManager
    package("torch_mlir.dialects.torch").register_dialect(context)
    config = onnx_importer.Config()
    lists = config.function_expansion_allowlists_by_domain
    for domain, operator in expand:
        lists[domain] = {*lists.get(domain, ()), operator}
    info = onnx_importer.ModelInfo(model, config=config)
    module = info.create_module(context=context)
    operation = getattr(module, "operation", module)
    onnx_importer.NodeImporter.define_function(info.main_graph, operation).import_all()
    for pipeline in PIPELINES:
        stage.enter(pipeline)
        with context:
            manager.parse(pipeline).run(operation)
    return operation


def locations(operation: Any) -> list[str]:
    """The ONNX node behind every operation, outer before inner, in the order of the text."""
    found: list[str] = []

    def visit(op: Any) -> None:
        found.append(node_of(op.location))
        for region in op.regions:
            for block in region:
                for inner in block:
                    visit(inner.operation)

    visit(operation)
    return found


def node_of(location: Any) -> str:
    """The node's name in a location; of several the first."""
    text = str(location)
    start = text.find('"')
    if start < 0:
        return ""
    end = text.find('"', start + 1)
    return text[start + 1 : end]


if __name__ == "__main__":
    main()
