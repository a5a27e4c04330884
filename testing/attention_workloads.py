"""Attention in the form that front ends emit, of any size and type, for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    Generator: TypeAlias = np.random.Generator
    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:
    Generator = Array = Any

DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}

MASKS = ("none", "keys", "scores", "causal")
"""Kinds of masks: none, one value per key, one value per score, or computed from indices."""


@dataclass(frozen=True)
class AttentionWorkload:
    """
    softmax(scale * q k^T + mask) v for `batch` x `heads` matrices of `m` queries and `n` keys.

    `softmax` is the type in which the softmax is computed. With `transposed`, keys are d x n. With
    `split`, queries, keys and values are batch x sequence x heads x d. `written` is the order of
    the result's dimensions, such as bmeh (by default the order of the queries). With `sink` each
    head has an additional score, whose value vector is zero.
    """

    batch: int
    heads: int
    m: int
    n: int
    d: int
    e: int
    type: str = "f16"
    mask: str = "none"
    softmax: str = "f32"
    out: str = "f16"
    transposed: bool = False
    split: bool = False
    causal_offset: int = 0
    written: str = ""
    sink: bool = False

    @property
    def scale(self) -> float:
        """1 / sqrt(d), rounded to the type of the operands."""
        return float(np.asarray(self.d**-0.5).astype(DTYPES[self.type]))

    @property
    def flops(self) -> int:
        """Number of operations of both products, counting masked scores, too."""
        return 2 * self.batch * self.heads * self.m * self.n * (self.d + self.e)

    def shape(self, rows: int, columns: int) -> tuple[int, int, int, int]:
        if self.split:
            return self.batch, rows, self.heads, columns
        return self.batch, self.heads, rows, columns

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and element type of each input, by name."""
        keys = self.shape(self.n, self.d)
        if self.transposed:
            keys = (self.batch, self.heads, self.d, self.n)
        shapes: dict[str, tuple[tuple[int, ...], str]] = {
            "q": (self.shape(self.m, self.d), self.type),
            "k": (keys, self.type),
            "v": (self.shape(self.n, self.e), self.type),
        }
        if self.mask == "keys":
            shapes["mask"] = (self.batch, 1, 1, self.n), self.softmax
        elif self.mask == "scores":
            shapes["mask"] = (self.batch, 1, self.m, self.n), self.softmax
        if self.sink:
            shapes["sink"] = (self.heads,), self.softmax
        return shapes

    def inputs(self, rng: Generator) -> dict[str, Array]:
        """Returns normally distributed inputs. A mask hides about a third of the scores."""
        inputs: dict[str, Array] = {}
        for name, (shape, type) in self.shapes().items():
            values = rng.standard_normal(shape)
            if name == "mask":
                values = np.where(rng.random(shape) < 0.35, -np.inf, values)
            inputs[name] = values.astype(DTYPES[type])
        return inputs

    def text(self) -> str:
        """Returns the module with contractions, scale, mask and softmax."""
        return _text(self)


def _tensor(shape: tuple[int, ...], type: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{type}>"


def _map(loops: str, results: str) -> str:
    return f"affine_map<({', '.join(loops)}) -> ({', '.join(results)})>"


class _Writer:
    """Writes the lines of the function: operations on tensors with named results."""

    def __init__(self, batch: int, heads: int):
        self.lines: list[str] = []
        self.batch, self.heads = batch, heads

    def generic(
        self,
        result: str,
        inputs: list[tuple[str, str, str]],
        output: tuple[str, str, str],
        kinds: str,
        body: list[str],
        start: str | None = None,
    ) -> None:
        """Writes a `linalg.generic` on (name, type, map). `kinds` has one letter per loop."""
        name, type, map = output
        element = type[type.rindex("x") + 1 : -1]
        add = self.lines.append
        add(f"%{result}_e = tensor.empty() : {type}")
        outs = f"%{result}_e"
        if start is not None:
            add(f"%{result}_c = arith.constant {start} : {element}")
            fill = f"linalg.fill ins(%{result}_c : {element}) outs(%{result}_e : {type})"
            add(f"%{result}_i = {fill} -> {type}")
            outs = f"%{result}_i"
        maps = ", ".join([*(input_map for _, _, input_map in inputs), map])
        words = {"p": '"parallel"', "r": '"reduction"'}
        iterators = ", ".join(words[kind] for kind in kinds)
        ins = f"{', '.join(f'%{n}' for n, _, _ in inputs)} : {', '.join(t for _, t, _ in inputs)}"
        types = [t[t.rindex("x") + 1 : -1] for _, t, _ in inputs]
        arguments = ", ".join(f"%x{i} : {t}" for i, t in enumerate([*types, element]))
        loops = f"indexing_maps = [{maps}], iterator_types = [{iterators}]"
        add(f"%{result} = linalg.generic {{{loops}}}")
        add(f"  ins({ins}) outs({outs} : {type}) {{")
        add(f"^bb0({arguments}):")
        self.lines += body
        add(f"linalg.yield %y : {element}")
        add(f"}} -> {type}")
        assert name == result


def _text(w: AttentionWorkload) -> str:
    out = _Writer(w.batch, w.heads)
    shapes = w.shapes()
    types = {name: _tensor(*shape) for name, shape in shapes.items()}
    loops = ["b", "h", "m", "n", "d"]
    matrix = _tensor((w.batch, w.heads, w.m, w.n), "f32")
    soft = _tensor((w.batch, w.heads, w.m, w.n), w.softmax)
    order = "bmhd" if w.split else "bhmd"
    key = "bhdn" if w.transposed else order.replace("m", "n")

    def dims(letters: str, names: list[str]) -> str:
        return _map("".join(names), letters)

    product = [
        f"%l = arith.extf %x0 : {w.type} to f32",
        f"%r = arith.extf %x1 : {w.type} to f32",
        "%product = arith.mulf %l, %r : f32",
        "%y = arith.addf %x2, %product : f32",
    ]
    out.generic(
        "s",
        [("q", types["q"], dims(order, loops)), ("k", types["k"], dims(key, loops))],
        ("s", matrix, dims("bhmn", loops)),
        "ppppr",
        product,
        "0.0",
    )
    out.generic(
        "x",
        _score_operations(w, matrix, types),
        ("x", soft, _map("bhmn", "bhmn")),
        "pppp",
        _scale_and_mask(w),
    )
    _softmax(out, w, soft, types.get("sink", ""))
    loops = ["b", "h", "m", "e", "n"]
    value = order.replace("m", "n").replace("d", "e")
    narrow = _tensor((w.batch, w.heads, w.m, w.n), w.type)
    wide = _tensor((w.batch, w.heads, w.m, w.e), "f32")
    out.generic(
        "o",
        [("p", narrow, dims("bhmn", loops)), ("v", types["v"], dims(value, loops))],
        ("o", wide, dims("bhme", loops)),
        "ppppr",
        product,
        "0.0",
    )
    written = w.written or order.replace("d", "e")
    extents = {"b": w.batch, "h": w.heads, "m": w.m, "e": w.e}
    final = _tensor(tuple(extents[loop] for loop in written), w.out)
    body = [f"%y = arith.truncf %x0 : f32 to {w.out}"] if w.out != "f32" else []
    if w.split and not body:
        body = ["%zero = arith.constant -0.0 : f32", "%y = arith.addf %x0, %zero : f32"]
    if body:
        out.generic(
            "z",
            [("o", wide, _map("bhme", "bhme"))],
            ("z", final, _map("bhme", written)),
            "pppp",
            body,
        )
    last = "z" if body else "o"
    arguments = ", ".join(f"%{name} : {type}" for name, type in types.items())
    lines = "\n    ".join(out.lines)
    return (
        f"func.func @main({arguments}) -> {final} {{\n    {lines}\n"
        f"    func.return %{last} : {final}\n}}\n"
    )


def _score_operations(
    w: AttentionWorkload, matrix: str, types: dict[str, str]
) -> list[tuple[str, str, str]]:
    inputs = [("s", matrix, _map("bhmn", "bhmn"))]
    if w.mask == "keys":
        inputs.append(("mask", types["mask"], _map("bhmn", "b00n")))
    elif w.mask == "scores":
        inputs.append(("mask", types["mask"], _map("bhmn", "b0mn")))
    return inputs


def _scale_and_mask(w: AttentionWorkload) -> list[str]:
    t = w.softmax
    body = [] if t == "f32" else [f"%n = arith.truncf %x0 : f32 to {t}"]
    first = "x0" if t == "f32" else "n"
    body.append(f"%c = arith.constant {w.scale:.9e} : {t}")
    last = "y" if w.mask == "none" else "scaled"
    body.append(f"%{last} = arith.mulf %{first}, %c : {t}")
    if w.mask in ("keys", "scores"):
        body.append(f"%y = arith.addf %scaled, %x1 : {t}")
    elif w.mask == "causal":
        body += [
            "%i = linalg.index 2 : index",
            "%j = linalg.index 3 : index",
            f"%off = arith.constant {w.causal_offset} : index",
            "%limit = arith.addi %i, %off : index",
            "%beyond = arith.cmpi sgt, %j, %limit : index",
            f"%least = arith.constant {'0xFF800000' if t == 'f32' else '0xFC00'} : {t}",
            f"%y = arith.select %beyond, %least, %scaled : {t}",
        ]
    return body


def _softmax(out: _Writer, w: AttentionWorkload, soft: str, sink: str) -> None:
    t = w.softmax
    row = _tensor((w.batch, w.heads, w.m), t)
    low = "0xFF800000" if t == "f32" else ("0xFC00" if t == "f16" else "0xFF80")
    whole, rows = _map("bhmn", "bhmn"), _map("bhmn", "bhm")
    x = ("x", soft, whole)
    top = ["%y = arith.maximumf %x0, %x1 : " + t]
    out.generic("top", [x], ("top", row, rows), "pppr", top, low)
    most, alone = "most" if sink else "top", _map("bhm", "bhm")
    of_head = ("sink", sink, _map("bhm", "h"))
    if sink:
        body = [f"%y = arith.maximumf %x0, %x1 : {t}"]
        out.generic("most", [("top", row, alone), of_head], ("most", row, alone), "ppp", body)
    power = [f"%d = arith.subf %x0, %x1 : {t}", f"%y = math.exp %d : {t}"]
    out.generic("w", [x, (most, row, rows)], ("w", soft, whole), "pppp", power)
    add = [f"%y = arith.addf %x1, %x0 : {t}"]
    out.generic("sum", [("w", soft, whole)], ("sum", row, rows), "pppr", add, "0.0")
    if sink:
        ins = [("sum", row, alone), ("most", row, alone), of_head]
        body = [f"%d = arith.subf %x2, %x1 : {t}", f"%p = math.exp %d : {t}"]
        body.append(f"%y = arith.addf %x0, %p : {t}")
        out.generic("total", ins, ("total", row, alone), "ppp", body)
    body = [f"%y = arith.divf %x0, %x1 : {t}"]
    if t != w.type:
        body = [f"%part = arith.divf %x0, %x1 : {t}", f"%y = arith.truncf %part : {t} to {w.type}"]
    narrow = _tensor((w.batch, w.heads, w.m, w.n), w.type)
    ins = [("w", soft, whole), ("total" if sink else "sum", row, rows)]
    out.generic("p", ins, ("p", narrow, whole), "pppp", body)


def attention_workload(rng: Generator, type: str, largest: int = 40) -> AttentionWorkload:
    """Returns a random workload. Most sizes are not multiples of tile sizes."""

    def size(most: int) -> int:
        return int(rng.integers(1, most + 1))

    mask = str(rng.choice(MASKS))
    m = size(largest)
    n = m if mask == "causal" and rng.random() < 0.5 else size(largest)
    split = bool(rng.random() < 0.3)
    return AttentionWorkload(
        size(2),
        size(3),
        m,
        n,
        size(largest),
        size(largest),
        type,
        mask,
        "f32" if type == "bf16" or rng.random() < 0.6 else type,
        type if split else str(rng.choice([type, "f32"])),
        not split and bool(rng.random() < 0.5),
        split,
        int(rng.integers(0, 4)),
        sink=bool(rng.random() < 0.3),
    )
