"""Imports StableHLO modules, which jaxlib parses, as `linalg` on tensors."""

from xdsl_spirv.frontends.stablehlo import control, operations
from xdsl_spirv.frontends.stablehlo.importer import import_module_of

__all__ = ["control", "import_module_of", "operations"]
