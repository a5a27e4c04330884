"""
Collects all names of the `spirv` dialect's modules in one namespace, like Khronos' `spv`.

    spv.IAddOp(a, b)    spv.StorageClass.Workgroup    spv.size_in_bytes(type)

A module is imported when one of its names is first used.
"""

from typing import TYPE_CHECKING, Any

from xdsl_spirv.dialects.spirv import SPIRV

if TYPE_CHECKING:
    from xdsl_spirv.dialects.spirv.abi import *
    from xdsl_spirv.dialects.spirv.arithmetic import *
    from xdsl_spirv.dialects.spirv.atomic import *
    from xdsl_spirv.dialects.spirv.attributes import *
    from xdsl_spirv.dialects.spirv.barrier import *
    from xdsl_spirv.dialects.spirv.base import *
    from xdsl_spirv.dialects.spirv.bit import *
    from xdsl_spirv.dialects.spirv.branches import *
    from xdsl_spirv.dialects.spirv.composite import *
    from xdsl_spirv.dialects.spirv.constants import *
    from xdsl_spirv.dialects.spirv.constraints import *
    from xdsl_spirv.dialects.spirv.control_flow import *
    from xdsl_spirv.dialects.spirv.conversion import *
    from xdsl_spirv.dialects.spirv.cooperative_matrix import *
    from xdsl_spirv.dialects.spirv.cooperative_matrix_2 import *
    from xdsl_spirv.dialects.spirv.cooperative_matrix_tensor import *
    from xdsl_spirv.dialects.spirv.cooperative_vector import *
    from xdsl_spirv.dialects.spirv.dot_product import *
    from xdsl_spirv.dialects.spirv.enums import *
    from xdsl_spirv.dialects.spirv.evaluation import *
    from xdsl_spirv.dialects.spirv.exits import *
    from xdsl_spirv.dialects.spirv.flow_graph import *
    from xdsl_spirv.dialects.spirv.folding import *
    from xdsl_spirv.dialects.spirv.function import *
    from xdsl_spirv.dialects.spirv.glsl import *
    from xdsl_spirv.dialects.spirv.glsl_forms import *
    from xdsl_spirv.dialects.spirv.graph_arm import *
    from xdsl_spirv.dialects.spirv.group import *
    from xdsl_spirv.dialects.spirv.hints import *
    from xdsl_spirv.dialects.spirv.kernel import *
    from xdsl_spirv.dialects.spirv.layout import *
    from xdsl_spirv.dialects.spirv.logic import *
    from xdsl_spirv.dialects.spirv.memory import *
    from xdsl_spirv.dialects.spirv.module import *
    from xdsl_spirv.dialects.spirv.pointer import *
    from xdsl_spirv.dialects.spirv.pointers import *
    from xdsl_spirv.dialects.spirv.raw import *
    from xdsl_spirv.dialects.spirv.replicated import *
    from xdsl_spirv.dialects.spirv.rotate import *
    from xdsl_spirv.dialects.spirv.rules import *
    from xdsl_spirv.dialects.spirv.rules_types import *
    from xdsl_spirv.dialects.spirv.structure import *
    from xdsl_spirv.dialects.spirv.subgroup import *
    from xdsl_spirv.dialects.spirv.tensor_addressing import *
    from xdsl_spirv.dialects.spirv.tensor_arm import *
    from xdsl_spirv.dialects.spirv.tosa import *
    from xdsl_spirv.dialects.spirv.types import *
    from xdsl_spirv.dialects.spirv.types_declared import *
    from xdsl_spirv.dialects.spirv.untyped_pointer import *
    from xdsl_spirv.dialects.spirv.vendor import *


def __getattr__(name: str) -> Any:
    """
    Returns a class, function or constant of the dialect by its name.

    >>> from xdsl_spirv.dialects import spv
    >>> spv.IAddOp.name, spv.Scope.Subgroup.name
    ('spirv.IAdd', 'Subgroup')
    """
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, SPIRV.declaration(name))
