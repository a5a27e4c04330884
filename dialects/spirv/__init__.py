"""
The `spirv` dialect: SPIR-V for compute, in MLIR's textual syntax.

Each module of this package declares a family of instructions. A module is imported on first use:
when a parsed text contains one of its names, or by Python's `import`.
"""

from typing import TYPE_CHECKING, Any

from xdsl_spirv.upstream import (
    block_labels,
    dense_literals,
    fast_core,
    fast_text,
    kept_bodies,
    on_demand,
    signatures,
    string_literals,
)

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation

    OPERATIONS: list[type[Operation]]
    ATTRIBUTES: list[type[Attribute]]

# Operations are declared from here on.
signatures.install()
on_demand.install()
fast_core.install()

# xDSL's parser reads constants in the generic syntax.
dense_literals.install()
fast_text.install()
string_literals.install()
block_labels.install()
kept_bodies.install()


def operation_name(cls: str) -> str:
    """
    Returns the operation's name for a class name.

    >>> operation_name("IAddOp"), operation_name("GLExpOp")
    ('spirv.IAdd', 'spirv.GL.Exp')
    """
    stem = cls.removesuffix("Op")
    if stem.startswith("Tosa"):
        return f"spirv.Tosa.{stem[4:]}"
    return f"spirv.GL.{stem[2:]}" if stem.startswith("GL") else f"spirv.{stem}"


SPIRV = on_demand.DialectOfModules(
    "spirv",
    __name__,
    (
        "attributes types types_declared abi "
        "module function structure constants memory branches control_flow exits arithmetic logic "
        "bit conversion composite group atomic barrier glsl glsl_forms cooperative_matrix "
        "dot_product rotate pointer untyped_pointer replicated hints subgroup cooperative_matrix_2 "
        "cooperative_matrix_tensor tensor_addressing cooperative_vector vendor tensor_arm "
        "graph_arm tosa kernel "
        "opencl raw"
    ).split(),
    interfaces=["constants:SPIRVConstants"],
    operation_name=operation_name,
)


def __getattr__(name: str) -> Any:
    """Returns an operation or attribute by name. Imports its module at first use."""
    if name == "OPERATIONS":
        return list(SPIRV.operations)
    if name == "ATTRIBUTES":
        return list(SPIRV.attributes)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
