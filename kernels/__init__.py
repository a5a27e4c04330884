"""
Kernels written in Python.

    from xdsl_spirv import kernels as k

    @k.kernel(workgroup=64)
    def scale(x=k.buffer(k.f32, read_only=True), y=k.buffer(k.f32), n=k.push(k.u32)):
        i = k.global_id()
        with k.when(i < n):
            y[i] = x[i] * 2.0

    scale.launch(2, x, y, 100)["y"]

The decorator runs the function once. Operations on its parameters become a module of the `spirv`
dialect (`scale.module`, `scale.text`, `scale.binary`). Python's `for`, `if` and functions run
while the kernel is traced, and so determine its operations. `k.range`, `k.when` and `k.otherwise`
are loops and branches of the kernel. Types are inferred: a Python number gets the type of the
other operand. Operands of different types are an error, and are not converted.
"""

from xdsl_spirv.kernels.control import otherwise, range, when
from xdsl_spirv.kernels.functions import (
    absolute,
    atomic_add,
    atomic_max,
    atomic_min,
    barrier,
    bitcast,
    clamp,
    cosine,
    dot_4x8,
    exp,
    floor,
    fma,
    global_id,
    inverse_sqrt,
    lane,
    local_id,
    log,
    maximum,
    minimum,
    select,
    sine,
    sqrt,
    subgroup_add,
    subgroup_broadcast,
    subgroup_id,
    subgroup_max,
    subgroup_min,
    subgroup_rotate,
    subgroup_shuffle,
    subgroup_shuffle_xor,
    subgroup_size,
    tanh,
    workgroup_count,
    workgroup_id,
)
from xdsl_spirv.kernels.kernel import Kernel, kernel
from xdsl_spirv.kernels.launch import Launched, check, launch, prove
from xdsl_spirv.kernels.matrices import filled_matrix, load_matrix, multiply_add, store_matrix
from xdsl_spirv.kernels.memory import (
    Memory,
    Variable,
    buffer,
    push,
    shared,
    specialization,
    variable,
)
from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.kernels.types import (
    bf16,
    boolean,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    vector,
)
from xdsl_spirv.kernels.values import Value, constant

__all__ = [
    "Kernel",
    "KernelError",
    "Launched",
    "Memory",
    "Value",
    "Variable",
    "absolute",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "barrier",
    "bf16",
    "bitcast",
    "boolean",
    "buffer",
    "check",
    "clamp",
    "constant",
    "cosine",
    "dot_4x8",
    "exp",
    "f16",
    "f32",
    "f64",
    "filled_matrix",
    "floor",
    "fma",
    "global_id",
    "i8",
    "i16",
    "i32",
    "i64",
    "inverse_sqrt",
    "kernel",
    "lane",
    "launch",
    "load_matrix",
    "local_id",
    "log",
    "maximum",
    "minimum",
    "multiply_add",
    "otherwise",
    "prove",
    "push",
    "range",
    "select",
    "shared",
    "sine",
    "specialization",
    "sqrt",
    "store_matrix",
    "subgroup_add",
    "subgroup_broadcast",
    "subgroup_id",
    "subgroup_max",
    "subgroup_min",
    "subgroup_rotate",
    "subgroup_shuffle",
    "subgroup_shuffle_xor",
    "subgroup_size",
    "tanh",
    "u8",
    "u16",
    "u32",
    "u64",
    "variable",
    "vector",
    "when",
    "workgroup_count",
    "workgroup_id",
]
