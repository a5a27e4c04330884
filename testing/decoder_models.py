"""
Small decoder models in ONNX in the forms of exporters, with random weights in f32, f16 or 4 bits.

`grouped` is the form of onnxruntime-genai's model builder (`GroupQueryAttention` with rotation,
packed projections, `SkipSimplifiedLayerNormalization`). `standard` has the same structure with
ONNX's operators of opset 23 (`Attention`, `RotaryEmbedding`, `RMSNormalization`). `plain` is the
form of transformers' exporters: it concatenates the past, computes masks by comparisons, and uses a
softmax.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

MICROSOFT = "com.microsoft"
BLOCK = 32
"""Number of columns that share a scale in 4-bit weights."""


@dataclass
class Decoder:
    """The sizes of a decoder, and the form of its model."""

    form: str = "grouped"
    dtype: Any = np.float32
    bits: int = 0
    blocks: int = 1
    width: int = 64
    heads: int = 4
    shared: int = 2
    hidden: int = 64
    vocabulary: int = 48
    longest: int = 64
    window: int = -1
    size_inputs: bool = False
    """True if lengths are inputs of the model. Otherwise the model derives them from a mask."""
    nodes: list[Any] = field(default_factory=list[Any])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])

    def __post_init__(self):
        self.generator = np.random.default_rng(self.blocks + self.width)

    @cached_property
    def onnx(self) -> Any:
        """The package onnx, imported without type information."""
        return import_module("onnx")

    @property
    def head(self) -> int:
        return self.width // self.heads

    def model(self) -> Any:
        """Returns the model with dynamic numbers of new and past tokens."""
        helper, kind = (
            self.onnx.helper,
            self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype)),
        )
        integer = self.onnx.TensorProto.INT64
        value = helper.make_tensor_value_info
        inputs = [value("input_ids", integer, ["batch_size", "sequence_length"])]
        if self.size_inputs:
            inputs += [value("seqlens_k", 6, [1]), value("total_sequence_length", 6, [])]
        else:
            inputs += [value("attention_mask", integer, ["batch_size", "total_sequence_length"])]
        if self.form == "standard":
            inputs += [value("position_ids", integer, ["batch_size", "sequence_length"])]
        outputs = [value("logits", kind, ["batch_size", "sequence_length", self.vocabulary])]
        for block in range(self.blocks):
            for part in ("key", "value"):
                sizes = ["batch_size", self.shared, "past_sequence_length", self.head]
                inputs.append(value(f"past_key_values.{block}.{part}", kind, sizes))
                sizes = ["batch_size", self.shared, "total_sequence_length", self.head]
                outputs.append(value(f"present.{block}.{part}", kind, sizes))
        self._write()
        tools = self.onnx.numpy_helper
        weights = [tools.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, weights)
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    # Nodes

    def node(self, kind: str, inputs: list[str], output: str | list[str], **given: Any) -> str:
        outputs = [output] if isinstance(output, str) else output
        domain = given.pop("domain", "")
        node = self.onnx.helper.make_node(
            kind, inputs, outputs, name=f"/{outputs[0]}/{kind}", domain=domain, **given
        )
        self.nodes.append(node)
        return outputs[0]

    def constant(self, name: str, array: Array) -> str:
        self.constants[name] = array
        return name

    def weight(self, name: str, *shape: int) -> str:
        array = self.generator.standard_normal(shape) / shape[0] ** 0.5
        return self.constant(name, array.astype(self.dtype))

    def product(self, x: str, name: str, rows: int, columns: int) -> str:
        """Appends a product with weights: a `MatMul`, or a `MatMulNBits` for 4-bit weights."""
        if not self.bits:
            return self.node("MatMul", [x, self.weight(f"{name}.weight", rows, columns)], name)
        blocks = rows // BLOCK
        packed = self.generator.integers(0, 256, (columns, blocks, BLOCK * self.bits // 8))
        scales = self.generator.uniform(0.005, 0.02, (columns * blocks,)).astype(self.dtype)
        inputs = [
            x,
            self.constant(f"{name}.q", packed.astype(np.uint8)),
            self.constant(f"{name}.scales", scales),
        ]
        sizes = {"K": rows, "N": columns, "bits": self.bits, "block_size": BLOCK}
        return self.node("MatMulNBits", inputs, name, domain=MICROSOFT, **sizes)

    def normalized(self, x: str, name: str) -> str:
        scale = self.constant(f"{name}.scale", np.ones(self.width, self.dtype))
        if self.form == "standard":
            return self.node("RMSNormalization", [x, scale], name, epsilon=1e-6)
        given = {"epsilon": 1e-6, "axis": -1, "stash_type": 1}
        return self.node("SimplifiedLayerNormalization", [x, scale], name, **given)

    def added(self, x: str, more: str, name: str) -> tuple[str, str]:
        """
        Appends nodes that add two values and normalize the sum. Returns the names of the normalized
        sum and of the sum.
        """
        if self.form != "grouped":
            total = self.node("Add", [x, more], f"{name}.sum")
            return self.normalized(total, name), total
        scale = self.constant(f"{name}.scale", np.ones(self.width, self.dtype))
        outputs = [name, "", "", f"{name}.sum"]
        self.node(
            "SkipSimplifiedLayerNormalization", [x, more, scale], outputs, epsilon=1e-6,
            domain=MICROSOFT,
        )  # fmt: skip
        return name, f"{name}.sum"

    def _write(self) -> None:
        angles = np.arange(self.longest)[:, None] * 10000.0 ** -np.linspace(0, 1, self.head // 2)
        self.constant("cos_cache", np.cos(angles).astype(self.dtype))
        self.constant("sin_cache", np.sin(angles).astype(self.dtype))
        self._lengths()
        table = self.weight("embedding", self.vocabulary, self.width)
        x = self.node("Gather", [table, "input_ids"], "embedded")
        inner = self.normalized(x, "norm")
        for block in range(self.blocks):
            name = f"block.{block}"
            attended = self._attended(inner, block)
            more = self.product(attended, f"{name}.o", self.width, self.width)
            inner, x = self.added(x, more, f"{name}.norm")
            gate = self.product(inner, f"{name}.gate", self.width, self.hidden)
            up = self.product(inner, f"{name}.up", self.width, self.hidden)
            sigmoid = self.node("Sigmoid", [gate], f"{name}.sigmoid")
            silu = self.node("Mul", [gate, sigmoid], f"{name}.silu")
            gated = self.node("Mul", [silu, up], f"{name}.gated")
            down = self.product(gated, f"{name}.down", self.hidden, self.width)
            inner, x = self.added(x, down, f"{name}.next")
        self.product(inner, "logits", self.width, self.vocabulary)

    def _lengths(self) -> None:
        if self.size_inputs or self.form != "grouped":
            return
        one = self.constant("one", np.array([1]))
        self.node("ReduceSum", ["attention_mask", one], "seen", keepdims=0)
        self.node("Cast", [self.node("Sub", ["seen", one], "last")], "seqlens_k", to=6)
        shape = self.node("Shape", ["attention_mask"], "shape")
        index = self.constant("index", np.array(1))
        total = self.node("Gather", [shape, index], "total")
        self.node("Cast", [total], "total_sequence_length", to=6)

    def _attended(self, x: str, block: int) -> str:
        name, columns = f"block.{block}", self.width + 2 * self.shared * self.head
        packed = self.product(x, f"{name}.qkv", self.width, columns)
        past = [f"past_key_values.{block}.{part}" for part in ("key", "value")]
        present = [f"present.{block}.{part}" for part in ("key", "value")]
        if self.form == "grouped":
            inputs = [packed, "", "", *past, "seqlens_k", "total_sequence_length"]
            inputs += ["cos_cache", "sin_cache"]
            return self.node(
                "GroupQueryAttention", inputs, [f"{name}.attended", *present], domain=MICROSOFT,
                num_heads=self.heads, kv_num_heads=self.shared, do_rotary=1,
                local_window_size=self.window,
            )  # fmt: skip
        widths = [self.width, self.shared * self.head, self.shared * self.head]
        sizes = self.constant(f"{name}.widths", np.array(widths))
        parts = [f"{name}.{part}" for part in ("q", "k", "v")]
        self.node("Split", [packed, sizes], parts, axis=-1)
        if self.form == "plain":
            return self._plainly_attended(name, parts, past, present)
        for part, heads in zip(parts[:2], (self.heads, self.shared), strict=True):
            inputs = [part, "cos_cache", "sin_cache", "position_ids"]
            self.node("RotaryEmbedding", inputs, f"{part}.rotated", num_heads=heads)
        return self.node(
            "Attention", [f"{parts[0]}.rotated", f"{parts[1]}.rotated", parts[2], "", *past],
            [f"{name}.attended", *present], is_causal=1,
            q_num_heads=self.heads, kv_num_heads=self.shared,
        )  # fmt: skip

    def _plainly_attended(
        self, name: str, parts: list[str], past: list[str], present: list[str]
    ) -> str:
        heads = {parts[0]: self.heads, parts[1]: self.shared, parts[2]: self.shared}
        turned: list[str] = []
        for part, count in heads.items():
            shape = self.constant(f"{part}.shape", np.array([0, 0, count, self.head]))
            apart = self.node("Reshape", [part, shape], f"{part}.apart")
            turned.append(self.node("Transpose", [apart], f"{part}.heads", perm=[0, 2, 1, 3]))
        spread: list[str] = []
        for new, before, after in zip(turned[1:], past, present, strict=True):
            self.node("Concat", [before, new], after, axis=2)
            axis = self.constant(f"{after}.axis", np.array([2]))
            wide = self.node("Unsqueeze", [after, axis], f"{after}.wide")
            times = self.constant(
                f"{after}.times", np.array([1, 1, self.heads // self.shared, 1, 1])
            )
            tiled = self.node("Tile", [wide, times], f"{after}.tiled")
            shape = self.constant(f"{after}.shape", np.array([0, self.heads, -1, self.head]))
            spread.append(self.node("Reshape", [tiled, shape], f"{after}.spread"))
        keys = self.node("Transpose", [spread[0]], f"{name}.kt", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [turned[0], keys], f"{name}.scores")
        masked = self.node("Where", [self._mask(name), scores, self._least()], f"{name}.masked")
        shares = self.node("Softmax", [masked], f"{name}.shares", axis=-1)
        result = self.node("MatMul", [shares, spread[1]], f"{name}.result")
        together = self.node("Transpose", [result], f"{name}.together", perm=[0, 2, 1, 3])
        shape = self.constant(f"{name}.flat", np.array([0, 0, self.width]))
        return self.node("Reshape", [together, shape], f"{name}.attended")

    def _least(self) -> str:
        return self.constant("least", np.array(np.finfo(self.dtype).min, self.dtype))

    def _mask(self, name: str) -> str:
        """
        Appends nodes that compute the attention mask, and returns the name of their result.

        A query sees a key that is not later than itself, if `attention_mask` is 1 for that key.
        """
        if any("visible" in node.output for node in self.nodes):
            return "visible"
        zero, one = self.constant("zero", np.array(0)), self.constant("unit", np.array(1))
        lengths = []
        for of, axis in (("input_ids", one), ("attention_mask", one)):
            shape = self.node("Shape", [of], f"{of}.shape")
            lengths.append(self.node("Gather", [shape, axis], f"{of}.length"))
        before = self.node("Sub", [lengths[1], lengths[0]], "before")
        rows = self.node("Range", [before, lengths[1], one], "rows")
        columns = self.node("Range", [zero, lengths[1], one], "columns")
        upright = self.node("Unsqueeze", [rows, self.constant("last", np.array([1]))], "upright")
        causal = self.node("LessOrEqual", [columns, upright], "causal")
        seen = self.node("Cast", ["attention_mask"], "seen", to=9)
        axes = self.constant("axes", np.array([1, 2]))
        return self.node("And", [causal, self.node("Unsqueeze", [seen, axes], "wide")], "visible")
