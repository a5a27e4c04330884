"""
Reads the device that a module is compiled for from the module's attribute `schedule.target`.

`assign-schedule` writes the attribute. Every later pass reads it, so that each can run alone.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from xdsl_spirv.passes import refuse
from xdsl_spirv.targets import Target, TargetError, load

TARGET = "schedule.target"


def target_of(module: ModuleOp, pass_name: str) -> Target:
    """The target that the module names."""
    name = module.attributes.get(TARGET)
    if not isinstance(name, StringAttr):
        refuse(
            pass_name,
            module,
            "the module names no target: run assign-schedule{target=...}, or give it the "
            f'attribute {TARGET} = "..."',
        )
    return load_target(name.data, module, pass_name)


@dataclass(frozen=True)
class TargetPass(ModulePass, ABC):
    """A pass that may know the device."""

    target: str = ""
    """
    Name of a known device or path of a target file; default: the module's target. Without a
    target, the pass assumes nothing about the device.
    """

    def find_target(self, module: ModuleOp) -> Target | None:
        """Loads the target of the option, or else the module's; None if there is neither."""
        known = module.attributes.get(TARGET)
        name = self.target or (known.data if isinstance(known, StringAttr) else "")
        return load_target(name, module, self.name) if name else None


def load_target(name: str, module: ModuleOp, pass_name: str) -> Target:
    """Loads a target by name or path. Turns its errors into refusals of the pass."""
    try:
        return load(name)
    except TargetError as error:
        refuse(pass_name, module, str(error))
