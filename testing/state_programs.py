"""A program with two functions that share a state, and its results in numpy."""

from __future__ import annotations

import numpy as np

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program

MAPS = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(m, n, k) -> (m, k)>
#column = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>
"""


def scores(name: str, rows: str, capacity: int = 32, first: str = "dense<0.0>") -> str:
    """
    Returns a function that appends exp(x w) to a cache, and returns the product of x and the cache.
    """
    x, n, e = (f"tensor<{rows}x8xf32>", "%n", "%n") if rows == "?" else ("", rows, "")
    x, both = x or f"tensor<{rows}x8xf32>", f"{e}, %total" if e else "%total"
    k, s = f"tensor<{capacity}x8xf32>", f"tensor<{rows}x?xf32>"
    return f"""
func.func @{name}(%x: {x} {{program.name = "x", program.sizes = ["n", ""]}},
    %past: index {{program.name = "past"}}, %w: tensor<8x8xf32> {{program.name = "w"}},
    %k: {k} {{program.name = "k", program.state = 1 : i64, program.value = {first} : {k}}})
    -> ({s}, {k}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {x}
  %z = arith.constant 0.0 : f32
  %e0 = tensor.empty({e}) : {x}
  %i0 = linalg.fill ins(%z : f32) outs(%e0 : {x}) -> {x}
  %new = linalg.matmul ins(%x, %w : {x}, tensor<8x8xf32>) outs(%i0 : {x}) -> {x}
  %y = linalg.exp ins(%new : {x}) outs(%e0 : {x}) -> {x}
  %k1 = tensor.insert_slice %y into %k[%past, 0] [{n}, 8] [1, 1] : {x} into {k}
  %total = arith.addi %past, %n : index
  %keys = tensor.extract_slice %k1[0, 0] [%total, 8] [1, 1] : {k} to tensor<?x8xf32>
  %e = tensor.empty({both}) : {s}
  %i = linalg.fill ins(%z : f32) outs(%e : {s}) -> {s}
  %s = linalg.matmul indexing_maps = [#row, #column, #result]
      ins(%x, %keys : {x}, tensor<?x8xf32>) outs(%i : {s}) -> {s}
  return %s, %k1 : {s}, {k}
}}"""


WEIGHT = np.random.default_rng(5).uniform(-1, 1, (8, 8)).astype("f4")
FUNCTIONS = ("prefill", "decode")


def compiled(
    capacity: int = 32,
    weight: Array = WEIGHT,
    first: str = "dense<0.0>",
    target: str = "lavapipe",
) -> Program:
    functions = (scores(n, r, capacity, first) for n, r in zip(FUNCTIONS, "?1", strict=True))
    module = parse_text(MAPS + "\n".join(functions))
    return compile_module(module, target, weights={"w": weight}, functions=FUNCTIONS)


def rows(n: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, (n, 8)).astype("f4")


def expected(cache: Array, x: Array, past: int) -> Array:
    cache[past : past + len(x)] = np.exp(x @ WEIGHT)
    return x @ cache[: past + len(x)].T
