"""
The `spirv` dialect: SPIR-V for compute, in MLIR's textual syntax.

A family of instructions is one module here, which lists its operations in `OPERATIONS` (and types
or attributes of its own, if any, in `ATTRIBUTES`); the dialect is their concatenation.
"""

from xdsl.ir import Attribute, Dialect, Operation

from xdsl_spirv.dialects import dense_literals, string_literals
from xdsl_spirv.dialects.spirv import (
    abi,
    arithmetic,
    atomic,
    attributes,
    barrier,
    bit,
    branches,
    composite,
    constants,
    control_flow,
    conversion,
    cooperative_matrix,
    cooperative_matrix_2,
    cooperative_matrix_tensor,
    cooperative_vector,
    dot_product,
    exits,
    function,
    glsl,
    group,
    hints,
    kernel,
    logic,
    memory,
    module,
    opencl,
    pointer,
    raw,
    replicated,
    rotate,
    signatures,
    structure,
    subgroup,
    tensor_addressing,
    tensor_arm,
    types,
    types_declared,
    untyped_pointer,
    vendor,
)

FAMILIES = (
    module,
    function,
    structure,
    constants,
    memory,
    branches,
    control_flow,
    exits,
    arithmetic,
    logic,
    bit,
    conversion,
    composite,
    group,
    atomic,
    barrier,
    glsl,
    cooperative_matrix,
    dot_product,
    rotate,
    pointer,
    untyped_pointer,
    replicated,
    hints,
    subgroup,
    cooperative_matrix_2,
    cooperative_matrix_tensor,
    tensor_addressing,
    cooperative_vector,
    vendor,
    tensor_arm,
    kernel,
    opencl,
    raw,
)

OPERATIONS: list[type[Operation]] = [op for family in FAMILIES for op in family.OPERATIONS]

ATTRIBUTES: list[type[Attribute]] = [
    *attributes.ATTRIBUTES,
    *types.ATTRIBUTES,
    *types_declared.ATTRIBUTES,
    *abi.ATTRIBUTES,
    *raw.ATTRIBUTES,
]

signatures.remember(OPERATIONS)

# A constant in the generic syntax is read by xDSL's own parser.
dense_literals.install()
string_literals.install()

SPIRV = Dialect("spirv", OPERATIONS, ATTRIBUTES)
