"""
Reads the target device of a module from its attribute `schedule.target`.

`assign-schedule` sets the attribute. Later passes read it, so that each can run separately.
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
    """Returns the target named in the module's attribute; refuses a module without one."""
    name = module.attributes.get(TARGET)
    if not isinstance(name, StringAttr):
        refuse(
            pass_name,
            module,
            "the module has no target: run assign-schedule{target=...}, or set its attribute "
            f'{TARGET} = "..."',
        )
    return load_target(name.data, module, pass_name)


@dataclass(frozen=True)
class TargetPass(ModulePass, ABC):
    """A pass that can read the properties of the target device."""

    target: str = ""
    """
    The name of a known device or the path of a target file; by default the module's target.
    Without a target, the pass makes no assumptions about the device.
    """

    def find_target(self, module: ModuleOp) -> Target | None:
        """Loads the target of the option, by default the module's; None if neither is set."""
        known = module.attributes.get(TARGET)
        name = self.target or (known.data if isinstance(known, StringAttr) else "")
        return load_target(name, module, self.name) if name else None


def load_target(name: str, module: ModuleOp, pass_name: str) -> Target:
    """Loads a target by name or path; an unknown target is refused."""
    try:
        return load(name)
    except TargetError as error:
        refuse(pass_name, module, str(error))
