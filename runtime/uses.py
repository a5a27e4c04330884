"""
What modules do that no capability declares, though Vulkan has a feature for it.

The validity of SPIR-V in Vulkan (its appendix A, VUID-RuntimeSpirv-*) has such features for single
operands: the storage class and type of an atomic, the scope of a clock, an initial value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from xdsl_spirv.grammar import grammar
from xdsl_spirv.runtime.device_features import Feature, tables

PLACES = {
    "StorageBuffer": "Buffer",
    "Uniform": "Buffer",
    "PhysicalStorageBuffer": "Buffer",
    "Workgroup": "Shared",
    "Image": "Image",
}
"""What features of atomics call a storage class."""

ARITHMETIC = {
    "OpAtomicFAddEXT": "AtomicAdd",
    "OpAtomicFMinEXT": "AtomicMinMax",
    "OpAtomicFMaxEXT": "AtomicMinMax",
}
"""What they call operations on floats that do more than load, store and exchange."""


@dataclass(frozen=True, order=True)
class Use:
    """What is done, in words, and the features of which one must be on."""

    what: str
    features: tuple[Feature, ...]


@cache
def use(what: str, member: str) -> Use | None:
    """A use by its feature's name in any structure; None where Vulkan has no such feature."""
    structures = [n for n, known in tables()["structures"].items() if member in known["members"]]
    # A structure of a whole version must stand alone: it comes before those it includes.
    structures.sort(key=lambda name: not name.startswith("VkPhysicalDeviceVulkan"))
    return Use(what, tuple(Feature(name, member) for name in structures)) if structures else None


class Finder:
    """Finds the uses in instructions, which it is shown in a module's order."""

    def __init__(
        self,
        types: Mapping[int, list[int]],
        value_types: Mapping[int, int],
        constants: Mapping[int, int],
    ):
        """The reader's tables: words of types, types of values, numbers of constants, by id."""
        self.types, self.value_types, self.constants = types, value_types, constants
        self.found: set[Use] = set()
        self._finders = _finders()

    def look(self, words: list[int]) -> None:
        finder = self._finders.get(words[0] & 0xFFFF)
        if finder is not None:
            self.found.update(use for use in finder(self, words) if use is not None)

    def is_number(self, type: int) -> bool:
        words = self.types.get(type, [0])
        return words[0] & 0xFFFF in (_opcode("OpTypeInt"), _opcode("OpTypeFloat"))

    def group(self, words: list[int]) -> Iterator[Use | None]:
        """A group operation; one that compares (AllEqual) has a result of another type."""
        for type in (words[1], *(self.value_types.get(id, 0) for id in words[3:])):
            while self.types.get(type, [0])[0] & 0xFFFF == _opcode("OpTypeVector"):
                type = self.types[type][2]
            if self.is_number(type) and self.types[type][2] != 32:
                what = "group operations on 8, 16 or 64 bits"
                yield use(what, "shaderSubgroupExtendedTypes")
        if words[0] & 0xFFFF == _opcode("OpGroupNonUniformRotateKHR") and len(words) > 6:
            yield use("clustered rotation", "shaderSubgroupRotateClustered")

    def atomic(self, words: list[int]) -> Iterator[Use | None]:
        """An atomic operation on floats, or on integers of 64 bits."""
        stores = words[0] & 0xFFFF == _opcode("OpAtomicStore")
        pointer = words[1] if stores else words[3]
        type = self.value_types.get(words[4], 0) if stores else words[1]
        memory = self.types.get(self.value_types.get(pointer, 0), [0, 0, -1])[2]
        place = _places().get(memory)
        if place is None or not self.is_number(type):
            return
        opcode, _, width, *_ = self.types[type]
        floats = opcode & 0xFFFF == _opcode("OpTypeFloat")
        entry = grammar().by_opcode(words[0] & 0xFFFF)
        kind = ARITHMETIC.get(entry.name if entry else "", "Atomics")
        member = f"shader{place}{'Float' if floats else 'Int'}{width}{kind}"
        of = "floats" if floats else "integers"
        yield use(f"atomics on {of} of {width} bits, {place.lower()} memory", member)

    def clock(self, words: list[int]) -> Iterator[Use | None]:
        """A clock that is read."""
        scopes = grammar().kind("Scope")
        for scope in ("Subgroup", "Device"):
            if self.constants.get(words[3]) == scopes[scope].value:
                yield use(f"a clock of the {scope.lower()}'s", f"shader{scope}Clock")

    def variable(self, words: list[int]) -> Iterator[Use | None]:
        """A variable that may have an initial value."""
        if words[3] == grammar().kind("StorageClass")["Workgroup"].value and len(words) > 4:
            yield use("initialized Workgroup memory", "shaderZeroInitializeWorkgroupMemory")


@cache
def _finders() -> dict[int, Callable[[Finder, list[int]], Iterator[Use | None]]]:
    """What looks at an instruction, by its opcode."""
    finders: dict[int, Callable[[Finder, list[int]], Iterator[Use | None]]] = {}
    for name in grammar().instruction_names:
        if name.startswith("OpGroup"):
            finders[_opcode(name)] = Finder.group
        elif name.startswith("OpAtomic") and not name.startswith("OpAtomicFlag"):
            finders[_opcode(name)] = Finder.atomic
    finders[_opcode("OpReadClockKHR")] = Finder.clock
    finders[_opcode("OpVariable")] = Finder.variable
    return finders


@cache
def _places() -> dict[int, str]:
    return {grammar().kind("StorageClass")[name].value: place for name, place in PLACES.items()}


@cache
def _opcode(name: str) -> int:
    return grammar().instruction(name).opcode
