"""
Imports StableHLO, as JAX writes it, as `linalg` on tensors: jaxlib reads it, and each operation has
a function.
"""

from xdsl_spirv.frontends.stablehlo import control, operations
from xdsl_spirv.frontends.stablehlo.importer import import_module_of

__all__ = ["control", "import_module_of", "operations"]
