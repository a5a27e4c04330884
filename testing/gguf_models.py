"""Small GGUF files of language models with random weights, written by PyPI's `gguf`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from xdsl_spirv.frontends.gguf.file import File, StoredTensor
from xdsl_spirv.frontends.gguf.parameters import Values, tensors_of

Array = np.ndarray[Any, np.dtype[Any]]

gguf: Any = import_module("gguf")
Type = gguf.GGMLQuantizationType
Pack = Callable[[np.random.Generator, tuple[int, int], Any], Array]
"""
Function from a random generator, sizes and a type to the bytes of a matrix, as an array (rows,
bytes).
"""

SUPER_BLOCKS = {
    Type.Q2_K: ((80, 82), 24),
    Type.Q3_K: ((108,), 75),
    Type.IQ4_NL: ((0,), 70),
    Type.IQ4_XS: ((0,), 1300),
    Type.Q4_K: ((0, 2), 256),
    Type.Q5_K: ((0, 2), 512),
    Type.Q6_K: ((208,), 1365),
}
"""
Formats that `gguf` cannot write. For each: the byte offsets of a block's f16 scales, and the
standard deviation of the weights that random bytes with a scale of 1 represent.
"""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, the types of its weights, and its optional parts."""

    architecture: str = "llama"
    blocks: int = 2
    width: int = 64
    hidden: int = 96
    heads: int = 4
    shared: int = 2
    head: int = 16
    turned: int = 16
    """Number of elements of a head to which rotary embeddings apply."""
    vocabulary: int = 80
    context: int = 64
    weights: Any = Type.F32
    embedding: Any = Type.F32
    tied: bool = True
    biases: bool = False
    """True if queries, keys and values have biases."""
    factors: bool = False
    """True if a tensor divides the frequencies of the rotary embeddings."""
    scaling: float = 0.0
    """Divisor of positions. If it is 0, the file does not state one."""


def write_model(
    path: str | os.PathLike[str],
    shape: Shape,
    seed: int = 0,
    values: Mapping[str, Any] | None = None,
) -> None:
    """Writes a model with this shape. `values` are further metadata by key."""
    draw = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, shape.architecture)
    _write_sizes(writer, shape)
    for key, value in (values or {"tokenizer.ggml.model": "no_vocab"}).items():
        add = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}
        add.get(value.__class__, writer.add_array)(key, value)
    for name, size in _matrices(shape).items():
        type = shape.embedding if name in ("token_embd", "output") else shape.weights
        data = _pack_weights(draw, size, type)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=type)
    for name, size in _vectors(shape).items():
        data = draw.normal(0 if name.endswith("bias") else 1, 0.25, size)
        if name == "rope_freqs.weight":
            data = draw.uniform(1, 8, size)
        writer.add_tensor(name, data.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_sizes(writer: Any, shape: Shape) -> None:
    writer.add_vocab_size(shape.vocabulary)
    writer.add_block_count(shape.blocks)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.shared)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.turned)
    writer.add_rope_freq_base(1000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    if shape.scaling:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(shape.scaling)


def _matrices(shape: Shape) -> Mapping[str, tuple[int, int]]:
    queries, keys = shape.heads * shape.head, shape.shared * shape.head
    matrices = {"token_embd": (shape.vocabulary, shape.width)}
    if not shape.tied:
        matrices["output"] = matrices["token_embd"]
    for block in range(shape.blocks):
        own = {
            "attn_q": (queries, shape.width),
            "attn_k": (keys, shape.width),
            "attn_v": (keys, shape.width),
            "attn_output": (shape.width, queries),
            "ffn_gate": (shape.hidden, shape.width),
            "ffn_up": (shape.hidden, shape.width),
            "ffn_down": (shape.width, shape.hidden),
        }
        matrices |= {f"blk.{block}.{name}": size for name, size in own.items()}
    return matrices


def _vectors(shape: Shape) -> Mapping[str, int]:
    vectors = {"output_norm.weight": shape.width}
    if shape.factors:
        vectors["rope_freqs.weight"] = shape.turned // 2
    for block in range(shape.blocks):
        own = {"attn_norm.weight": shape.width, "ffn_norm.weight": shape.width}
        if shape.biases:
            own["attn_q.bias"] = shape.heads * shape.head
            own |= {f"attn_{name}.bias": shape.shared * shape.head for name in "kv"}
        if shape.architecture == "qwen3":
            own |= {f"attn_{name}_norm.weight": shape.head for name in "qk"}
        vectors |= {f"blk.{block}.{name}": size for name, size in own.items()}
    return vectors


def _pack_weights(draw: np.random.Generator, size: tuple[int, int], type: Any) -> Array:
    """Packs normally distributed weights, or draws random blocks if `gguf` cannot pack the type."""
    rows, columns = size
    if type not in SUPER_BLOCKS and type != Type.NVFP4:
        weights = draw.normal(0, columns**-0.5, size).astype(np.float32)
        return gguf.quants.quantize(weights, type)
    elements, block = gguf.GGML_QUANT_SIZES[type]
    if type == Type.NVFP4:
        scales = draw.integers(8, 24, (rows, columns // elements, 4), np.uint8)
        codes = draw.integers(0, 256, (*scales.shape[:2], block - 4), np.uint8)
        return np.concatenate([scales, codes], -1).reshape(rows, -1)
    data = draw.integers(0, 256, (rows, columns // elements, block), np.uint8)
    places, deviation = SUPER_BLOCKS[type]
    for at in places:
        scales = draw.uniform(0.5, 1, data.shape[:2]) * columns**-0.5 / deviation
        data[..., at : at + 2] = scales.astype("<f2")[..., None].view(np.uint8)
    return data.reshape(rows, -1)


def write_declared(
    path: str | os.PathLike[str],
    architecture: str,
    values: Mapping[str, Any],
    types: Callable[[str], Any] = lambda name: Type.F32,
    optional: Callable[[str], bool] = lambda name: False,
    seed: int = 0,
    pack: Pack | None = None,
) -> None:
    """
    Writes a model of any architecture with the metadata `values` and all tensors that the
    architecture requires.

    Optional tensors are written if `optional` accepts their names. `types` returns the type of a
    matrix, and `pack` returns its bytes.
    """
    draw = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, architecture)
    whole = {f"{architecture}.{key}": value for key, value in values.items()}
    add = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }
    for key, value in {"tokenizer.ggml.model": "no_vocab", **whole}.items():
        add.get(value.__class__, writer.add_array)(key, value)
    embedding = (values["vocab_size"], values["embedding_length"])
    table = StoredTensor("token_embd.weight", "F32", embedding, np.zeros(0, np.uint8))
    # The reader requires at least one tensor for each block.
    tensors = {table.name: table, **{str(i): table for i in range(values["block_count"])}}
    named = {"general.architecture": architecture, **whole}
    needed, possible = tensors_of(Values.read(File("", named, tensors)).parameters())
    for name, size in {**needed, **{n: s for n, s in possible.items() if optional(n)}}.items():
        if len(size) > 1 and not name.endswith("bias"):
            type = types(name)
            rows, columns = math.prod(size[:-1]), size[-1]
            data = (pack or _pack_weights)(draw, (rows, columns), type)
            writer.add_tensor(name, data.reshape(*size[:-1], -1), raw_dtype=type)
            continue
        data = draw.normal(1 if "norm" in name else 0, 0.25, size)
        if name.startswith("rope_f"):
            data = draw.uniform(1, 8, size)
        writer.add_tensor(name, data.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_dequantized(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Writes a copy of a model file with all tensors dequantized to f32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith(("GGUF.", "general.architecture")):
            writer.add_key_value(name, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
