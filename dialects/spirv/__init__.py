"""
The `spirv` dialect: SPIR-V for compute, in MLIR's textual syntax.

A family of instructions is one module here; the dialect is what the modules declare.
"""

from importlib import import_module

from xdsl.ir import Dialect

from xdsl_spirv.dialects.spirv.constants import SPIRVConstants
from xdsl_spirv.upstream import dense_literals, fixed_bodies, signatures, string_literals
from xdsl_spirv.upstream.declarations import attributes_of, operations_of

MODULES = tuple(
    import_module(f"{__name__}.{name}")
    for name in (
        "attributes types types_declared abi "
        "module function structure constants memory branches control_flow exits arithmetic logic "
        "bit conversion composite group atomic barrier glsl glsl_forms cooperative_matrix "
        "dot_product rotate pointer untyped_pointer replicated hints subgroup cooperative_matrix_2 "
        "cooperative_matrix_tensor tensor_addressing cooperative_vector vendor tensor_arm kernel "
        "opencl raw"
    ).split()
)

OPERATIONS = operations_of(MODULES)

ATTRIBUTES = attributes_of(MODULES)

signatures.remember(OPERATIONS)

# A constant in the generic syntax is read by xDSL's own parser.
dense_literals.install()
string_literals.install()
fixed_bodies.install()

SPIRV = Dialect("spirv", OPERATIONS, ATTRIBUTES, [SPIRVConstants()])
