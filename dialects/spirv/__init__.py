"""
The `spirv` dialect: SPIR-V for compute, in MLIR's textual syntax.

A family of instructions is one module here, which lists its operations in `OPERATIONS` (and
attributes of its own, if any, in `ATTRIBUTES`); the dialect is their concatenation.
"""

from importlib import import_module
from importlib.util import find_spec

from xdsl.ir import Attribute, Dialect, Operation

from xdsl_spirv.dialects import dense_literals

_FAMILIES = (
    "attributes",
    "types",
    "abi",
    "module",
    "function",
    "structure",
    "constants",
    "memory",
    "branches",
    "control_flow",
    "arithmetic",
    "logic",
    "bit",
    "conversion",
    "composite",
    "group",
    "atomic",
    "barrier",
    "glsl",
    "cooperative_matrix",
    "dot_product",
    "rotate",
)

OPERATIONS: list[type[Operation]] = []
ATTRIBUTES: list[type[Attribute]] = []
for _family in _FAMILIES:
    _name = f"xdsl_spirv.dialects.spirv.{_family}"
    if find_spec(_name) is None:
        continue
    _module = import_module(_name)
    OPERATIONS.extend(getattr(_module, "OPERATIONS", []))
    ATTRIBUTES.extend(getattr(_module, "ATTRIBUTES", []))

# A constant in the generic syntax is read by xDSL's own parser.
dense_literals.install()

SPIRV = Dialect("spirv", OPERATIONS, ATTRIBUTES)
