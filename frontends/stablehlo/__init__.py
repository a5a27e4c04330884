"""
StableHLO, as JAX writes it, to `linalg` on tensors: jaxlib reads it, an operation is a function.
"""

from xdsl_spirv.frontends.stablehlo import control, operations
from xdsl_spirv.frontends.stablehlo.importer import import_module_of

__all__ = ["control", "import_module_of", "operations"]
