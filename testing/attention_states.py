"""
Decoder attention with keys and values in a state (KV cache) that is partly filled.

Queries have the shape (key-value heads, query heads per key-value head, rows, head size). New keys
and values are written after the earlier ones. The mask is causal, optionally with a sliding
`window`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

KINDS: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}

_MAXIMUM = "%m = arith.maximumf %t, %a : f32\nlinalg.yield %m : f32"
_SUM = "%m = arith.addf %t, %a : f32\nlinalg.yield %m : f32"
_POWER = """%below = arith.subf %b, %a : f32
  %power = math.exp %below : f32
  linalg.yield %power : f32"""


def _product(type: str) -> str:
    widened, a, b = "", "%a", "%b"
    if type != "f32":
        widened = "".join(f"{x}w = arith.extf {x} : {type} to f32\n" for x in (a, b))
        a, b = "%aw", "%bw"
    return f"""{widened}%ab = arith.mulf {a}, {b} : f32
  %z = arith.addf %t, %ab : f32
  linalg.yield %z : f32"""


def _step(
    name: str,
    type: str,
    out: str,
    maps: str | None,
    inputs: tuple[tuple[str, str], ...],
    body: str,
) -> str:
    """
    Returns the text of a `linalg.generic`. If `maps` is None, returns a fill with the value `body`.

    `maps` names the loops by letters: first all loops, then the loops of each operand, as in
    `mn:m,mn`.
    """
    if maps is None:
        return f"%{name} = linalg.fill ins(%{body} : f32) outs({out} : {type}) -> {type}\n  "
    loops, _, places = maps.partition(":")
    of = ", ".join(
        f"affine_map<({', '.join(loops)}) -> ({', '.join(place)})>" for place in places.split(",")
    )
    result = places.split(",")[-1]
    kinds = ", ".join('"parallel"' if loop in result else '"reduction"' for loop in loops)
    values, types = (", ".join(part) for part in zip(*inputs, strict=True))
    values = ", ".join(f"%{value}" for value in values.split(", "))
    given = [(f"%{letter}", kind) for letter, (_, kind) in zip("ab", inputs, strict=False)]
    arguments = ", ".join(
        f"{argument}: {kind.rpartition('x')[2].removesuffix('>')}"
        for argument, kind in (*given, ("%t", type))
    )
    return f"""%{name} = linalg.generic {{indexing_maps = [{of}], iterator_types = [{kinds}]}}
      ins({values} : {types}) outs({out} : {type}) {{
  ^bb0({arguments}):
  {body}
  }} -> {type}
  """


@dataclass(frozen=True)
class StateAttention:
    """Sizes and options of one attention. `rows` is None for a dynamic number of rows."""

    heads: int
    """Number of heads of keys and values."""
    queries: int
    """Number of query heads that use the same head of keys and values."""
    head: int
    capacity: int
    rows: int | None = 1
    type: str = "f16"
    window: int | None = None
    filled: float = 0.0
    """Initial value of all elements of the states."""
    sink: bool = False
    """True if each query head has an additional score, whose value vector is zero."""

    @property
    def scale(self) -> float:
        return float(np.float32(self.head**-0.5))

    def text(self, name: str = "main", stream: tuple[int, int] | None = None) -> str:
        """
        Returns the function in the form that front ends emit.

        With `stream`, keys and values are inputs of dynamic length. After the attention, `stream`
        rows of a large buffer are summed, which removes keys and modified lines from the caches.
        """
        h, g, d, c, t = self.heads, self.queries, self.head, self.capacity, self.type
        n, count, one, both = "?", "%n", "%n", "%n, %total"
        if self.rows is not None:
            n, count, one, both = (*[str(self.rows)] * 2, "", "%total")
        q, new, rows = f"tensor<{h}x{g}x{n}x{d}x{t}>", f"tensor<{h}x{n}x{d}x{t}>", f"{h}x{g}x{n}"
        cache, keys = f"tensor<{h}x{c}x{d}x{t}>", f"tensor<{h}x?x{d}x{t}>"
        scores, narrow, sums = (f"tensor<{rows}{x}>" for x in ("x?xf32", f"x?x{t}", "xf32"))
        result = f"tensor<{rows}x{d}xf32>"
        argument = f"{cache} {{program.value = dense<{self.filled}> : {cache}, program.state ="
        whole, queries = "hgmn", "hgm"
        product = _product(t)
        narrowed = "%part = arith.divf %b, %a : f32\n"
        narrowed += (
            "linalg.yield %part : f32"
            if t == "f32"
            else (f"%r = arith.truncf %part : f32 to {t}\nlinalg.yield %r : {t}")
        )
        sink, top, total = (("sink", f"tensor<{h}x{g}xf32>"), "top", "sum")
        of_heads, of_rows = f"{queries}:{queries},hg,{queries}", f"{queries}:{queries},{queries},"
        most: tuple[Any, ...] = ()
        last: tuple[Any, ...] = ()
        if self.sink:
            top, total = "most", "weighed"
            most = (("most", sums, "%er", of_heads, (("top", sums), sink), _MAXIMUM),)
            last = (
                ("last", sums, "%er", of_heads, (("most", sums), sink), _POWER),
                ("weighed", sums, "%er", of_rows + queries, (("sum", sums), ("last", sums)), _SUM),
            )
            most, last = (
                tuple((*step[:-1], step[-1].replace("%t", "%b")) for step in steps)
                for steps in (most, last)
            )
        steps: tuple[Any, ...] = (
            ("zs", scores, "%es", None, (), "zero"),
            ("s", scores, "%zs", "hgmnd:hgmd,hnd,hgmn", (("q", q), ("ks", keys)), product),
            ("x", scores, "%es", f"{whole}:{whole},{whole}", (("s", scores),), self._masked()),
            ("lows", sums, "%er", None, (), "low"),
            ("top", sums, "%lows", f"{whole}:{whole},{queries}", (("x", scores),), _MAXIMUM),
            *most,
            (
                "e", scores, "%es", f"{whole}:{queries},{whole},{whole}",
                ((top, sums), ("x", scores)), _POWER,
            ),
            ("zr", sums, "%er", None, (), "zero"),
            ("sum", sums, "%zr", f"{whole}:{whole},{queries}", (("e", scores),), _SUM),
            *last,
            (
                "p", narrow, "%en", f"{whole}:{queries},{whole},{whole}",
                ((total, sums), ("e", scores)), narrowed,
            ),
            ("zo", result, "%eo", None, (), "zero"),
            ("y", result, "%zo", "hgmdn:hgmn,hnd,hgmd", (("p", narrow), ("vs", keys)), product),
        )  # fmt: skip
        body = f"""%zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %es = tensor.empty({both}) : {scores}
  %en = tensor.empty({both}) : {narrow}
  %er = tensor.empty({one}) : {sums}
  %eo = tensor.empty({one}) : {result}
  {"".join(_step(*step) for step in steps)}"""
        if stream is not None:
            x, sums = f"tensor<{stream[0]}x{stream[1]}xf32>", f"tensor<{stream[0]}xf32>"
            step = _step("zx", sums, "%ex", None, (), "zero")
            step += _step("r", sums, "%zx", "ij:ij,i", (("stream", x),), _SUM)
            return f"""
func.func @{name}(%q: {q}, %ks: {keys}, %vs: {keys}, %stream: {x}) -> ({result}, {sums}) {{
  %c1 = arith.constant 1 : index
  %n = arith.constant {self.rows} : index
  %total = tensor.dim %ks, %c1 : {keys}
  %past = arith.subi %total, %n : index
  {body}
  %ex = tensor.empty() : {sums}
  {step}
  return %y, %r : {result}, {sums}
}}"""
        given = f' %sink: {sink[1]} {{program.name = "sink"}},' if self.sink else ""
        place = f"[0, %past, 0] [{h}, {count}, {d}] [1, 1, 1] : {new} into {cache}"
        filled = f"[0, 0, 0] [{h}, %total, {d}] [1, 1, 1] : {cache} to {keys}"
        return f"""
func.func @{name}(%q: {q} {{program.name = "q", program.sizes = ["", "", "n", ""]}},
    %new_k: {new} {{program.name = "new_k", program.sizes = ["", "n", ""]}},
    %new_v: {new} {{program.name = "new_v", program.sizes = ["", "n", ""]}},
    %past: index {{program.name = "past"}},{given}
    %k: {argument} 1 : i64, program.name = "k"}},
    %v: {argument} 2 : i64, program.name = "v"}}) -> ({result}, {cache}, {cache}) {{
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : {q}
  %k1 = tensor.insert_slice %new_k into %k{place}
  %v1 = tensor.insert_slice %new_v into %v{place}
  %total = arith.addi %past, %n : index
  %ks = tensor.extract_slice %k1{filled}
  %vs = tensor.extract_slice %v1{filled}
  {body}
  return %y, %k1, %v1 : {result}, {cache}, {cache}
}}"""

    def _masked(self) -> str:
        hidden = "%hides = arith.cmpi sgt, %j, %at : index"
        if self.window is not None:
            hidden = f"""%late = arith.cmpi sgt, %j, %at : index
  %w = arith.constant {self.window} : index
  %first = arith.subi %at, %w : index
  %early = arith.cmpi sle, %j, %first : index
  %hides = arith.ori %late, %early : i1"""
        return f"""%scale = arith.constant {self.scale!r} : f32
  %scaled = arith.mulf %a, %scale : f32
  %i = linalg.index 2 : index
  %j = linalg.index 3 : index
  %at = arith.addi %i, %past : index
  {hidden}
  %seen = arith.select %hides, %low, %scaled : f32
  linalg.yield %seen : f32"""

    def inputs(self, generator: Any, rows: int) -> dict[str, Any]:
        shapes = {
            "q": (self.heads, self.queries, rows, self.head),
            "new_k": (self.heads, rows, self.head),
            "new_v": (self.heads, rows, self.head),
        }
        kind = KINDS[self.type]
        made = {n: generator.standard_normal(shape).astype(kind) for n, shape in shapes.items()}
        if self.sink:
            made["sink"] = generator.standard_normal((self.heads, self.queries)).astype("f4")
        return made

    def expected(self, q: Any, keys: Any, values: Any, past: int, sink: Any = -np.inf) -> Any:
        """Returns the result in binary64. `keys` and `values` are all rows written so far."""
        q, keys, values = (x.astype(np.float64) for x in (q, keys, values))
        scores = np.einsum("hgmd,hnd->hgmn", q, keys) * self.scale
        distance = np.arange(keys.shape[1]) - np.arange(q.shape[2])[:, None] - past
        hides = distance > 0
        if self.window is not None:
            hides |= distance <= -self.window
        scores = np.where(hides, -np.inf, scores)
        own = np.broadcast_to(np.asarray(sink, float)[..., None, None], (*scores.shape[:-1], 1))
        scores = np.concatenate([scores, own], -1)
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        powers = (powers / powers.sum(-1, keepdims=True))[..., :-1]
        return np.einsum("hgmn,hnd->hgmd", powers, values)
