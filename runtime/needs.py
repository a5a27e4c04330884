"""
Derives the features that SPIR-V modules need from their bytes, in Vulkan's names.

`vulkan/features.json` (from the registry) maps capabilities and extensions to features. Vulkan's
rules for SPIR-V (its appendix A, VUID-RuntimeSpirv-*) also require features for single operands,
such as the type of an atomic or the scope of a clock. A `Use` records such an operand. This module
needs no driver.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl_spirv.grammar import grammar
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.targets import CooperativeMatrixProperty

if TYPE_CHECKING:
    from xdsl_spirv.serialization.validation.constant_values import ConstantValues

BASE = "VkPhysicalDeviceFeatures"
TABLES = Path(__file__).parent / "vulkan" / "features.json"


@dataclass(frozen=True, order=True)
class Feature:
    """
    A boolean of a feature structure: `Feature("VkPhysicalDeviceVulkan12Features",
    "shaderFloat16")`.
    """

    structure: str
    member: str

    def __str__(self) -> str:
        return f"{self.member} ({self.structure.removeprefix('Vk')})"


@cache
def tables() -> dict[str, dict[str, Any]]:
    """Returns `structures`, `capabilities` and `extensions` of features.json."""
    return json.loads(TABLES.read_text())


def version_in(name: str) -> tuple[int, int]:
    """Returns the version in a name such as `VK_VERSION_1_2`."""
    major, minor = re.findall(r"\d+", name)
    return int(major), int(minor)


def is_there(names: Iterable[str], version: tuple[int, int], extensions: Collection[str]) -> bool:
    """True if a device's version and extensions provide one of the names."""
    return any(
        version >= version_in(name) if name.startswith("VK_VERSION_") else name in extensions
        for name in names
    )


PLACES = {
    "StorageBuffer": "Buffer",
    "Uniform": "Buffer",
    "PhysicalStorageBuffer": "Buffer",
    "Workgroup": "Shared",
    "Image": "Image",
}
"""Names of storage classes in the features of atomics."""

ARITHMETIC = {
    "OpAtomicFAddEXT": "AtomicAdd",
    "OpAtomicFMinEXT": "AtomicMinMax",
    "OpAtomicFMaxEXT": "AtomicMinMax",
}
"""Names of floating-point operations in the features of atomics, except load, store, exchange."""


@dataclass(frozen=True, order=True)
class Use:
    """An operation that needs one of `features`; `what` describes the operation."""

    what: str
    features: tuple[Feature, ...]


@cache
def use(what: str, member: str) -> Use | None:
    """
    Returns the record of an operation that needs the feature `member`, or None if no structure has
    this feature. `what` describes the operation.
    """
    structures = [n for n, known in tables()["structures"].items() if member in known["members"]]
    # A version's structure excludes the structures that it includes, so it comes first.
    structures.sort(key=lambda name: not name.startswith("VkPhysicalDeviceVulkan"))
    return Use(what, tuple(Feature(name, member) for name in structures)) if structures else None


class Finder:
    """Finds operations that need features. Instructions must be passed in the module's order."""

    def __init__(
        self,
        types: Mapping[int, list[int]],
        value_types: Mapping[int, int],
        constants: Mapping[int, int],
    ):
        """
        Stores the reader's tables, which are indexed by id: the words of types, the types of
        values, and the values of constants.
        """
        self.types, self.value_types, self.constants = types, value_types, constants
        self.uses: set[Use] = set()
        self._finders = _finders()

    def look(self, words: list[int]) -> None:
        finder = self._finders.get(words[0] & 0xFFFF)
        if finder is not None:
            self.uses.update(use for use in finder(self, words) if use is not None)

    def is_number(self, type: int) -> bool:
        words = self.types.get(type, [0])
        return words[0] & 0xFFFF in (_opcode("OpTypeInt"), _opcode("OpTypeFloat"))

    def group(self, words: list[int]) -> Iterator[Use | None]:
        """Yields the feature that a group operation on 8, 16 or 64 bits needs."""
        for type in (words[1], *(self.value_types.get(id, 0) for id in words[3:])):
            while self.types.get(type, [0])[0] & 0xFFFF == _opcode("OpTypeVector"):
                type = self.types[type][2]
            if self.is_number(type) and self.types[type][2] != 32:
                what = "group operations on 8, 16 or 64 bits"
                yield use(what, "shaderSubgroupExtendedTypes")
        if words[0] & 0xFFFF == _opcode("OpGroupNonUniformRotateKHR") and len(words) > 6:
            yield use("clustered rotation", "shaderSubgroupRotateClustered")

    def atomic(self, words: list[int]) -> Iterator[Use | None]:
        """Yields the use of an atomic operation on floats, or on 64-bit integers."""
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
        """Yields the feature that reading a clock needs."""
        scopes = grammar().kind("Scope")
        for scope in ("Subgroup", "Device"):
            if self.constants.get(words[3]) == scopes[scope].value:
                yield use(f"a clock of the {scope.lower()}'s", f"shader{scope}Clock")

    def variable(self, words: list[int]) -> Iterator[Use | None]:
        """Yields the use of a variable with an initial value."""
        if words[3] == grammar().kind("StorageClass")["Workgroup"].value and len(words) > 4:
            yield use("initialized Workgroup memory", "shaderZeroInitializeWorkgroupMemory")


@cache
def _finders() -> dict[int, Callable[[Finder, list[int]], Iterator[Use | None]]]:
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


SIGNED = {
    "a": "MatrixASignedComponentsKHR",
    "b": "MatrixBSignedComponentsKHR",
    "c": "MatrixCSignedComponentsKHR",
    "result": "MatrixResultSignedComponentsKHR",
}
BOOLEAN_BYTES = 4
SATURATING = "SaturatingAccumulationKHR"


@dataclass(frozen=True)
class EntryPointNeeds:
    """The needs of one entry point. `workgroup_size` is None if it depends on constants."""

    workgroup_size: tuple[int, int, int] | None
    workgroup_bytes: int


@dataclass(frozen=True)
class Needs:
    """
    The declarations, matrix products and specialization constants of a module.

    `uses` are operations that no capability declares. `constants` maps SpecIds to sizes in bytes.
    """

    version: tuple[int, int]
    capabilities: frozenset[str]
    extensions: frozenset[str]
    matrices: frozenset[CooperativeMatrixProperty]
    entry_points: Mapping[str, EntryPointNeeds]
    uses: frozenset[Use]
    constants: Mapping[int, int]

    @staticmethod
    def of(spirv: bytes) -> Needs:
        """
        Reads the needs of a module. Raises `SPIRVDecodeError` if the bytes are not a SPIR-V module.
        """
        from xdsl_spirv.serialization.raw.binary import decode

        module = decode(spirv)
        return _Reader(spirv, module.header.version).needs(module.rows())

    @staticmethod
    def of_own(spirv: bytes) -> Needs:
        """
        Reads the needs of a module that this package's encoder wrote. Does not check the bytes.
        """
        words = array("I", spirv)
        if sys.byteorder == "big":
            words.byteswap()
        return _Reader(spirv, (words[1] >> 16 & 0xFF, words[1] >> 8 & 0xFF)).needs(rows_of(words))


@dataclass(frozen=True)
class _Matrix:
    component: int
    scope: int
    rows: int
    columns: int


class _Reader:
    """Reads a module's instructions in one pass, by opcode."""

    def __init__(self, spirv: bytes, version: tuple[int, int]):
        self.spirv, self.version = spirv, version
        self.constants: dict[int, int] = {}
        self.types: dict[int, list[int]] = {}
        """The words of each type, by id."""
        self.matrices: dict[int, _Matrix] = {}
        self.value_types: dict[int, int] = {}
        self.multiplied: set[CooperativeMatrixProperty] = set()
        self.offsets: dict[int, dict[int, int]] = {}
        self.uses = Finder(self.types, self.value_types, self.constants)
        self.blocks: set[int] = set()
        self.specialized: dict[int, int] = {}
        """The SpecId of each constant, by id."""

    def needs(self, rows: Iterable[list[int]]) -> Needs:
        table = grammar()
        opcode = {name: table.instruction(name).opcode for name in _HANDLED}
        handlers = {opcode[name]: getattr(self, method) for name, method in _HANDLED.items()}
        self.opcode = opcode
        self.capabilities: set[str] = set()
        self.extensions: set[str] = set()
        self.entries: list[tuple[int, str, list[int]]] = []
        self.sizes: dict[int, tuple[int, int, int]] = {}
        self.workgroup: dict[int, int] = {}
        for words in rows:
            if len(words) > 2 and words[1] in self.types:
                # If an instruction has a result type, it is the first word after the opcode.
                self.value_types[words[2]] = words[1]
            handler = handlers.get(words[0] & 0xFFFF)
            if handler is not None:
                handler(words)
            self.uses.look(words)
        return Needs(
            self.version,
            frozenset(self.capabilities),
            frozenset(self.extensions),
            frozenset(self.multiplied),
            {
                name: EntryPointNeeds(
                    self.sizes.get(function),
                    self._shared(interface),
                )
                for function, name, interface in self.entries
            },
            frozenset(self.uses.uses),
            {number: self._constant_bytes(id) for id, number in self.specialized.items()},
        )

    def _shared(self, interface: Sequence[int]) -> int:
        """Returns the bytes of Workgroup memory. Blocks with explicit layout overlap in memory."""
        sizes = {True: [0], False: [0]}
        for variable in {*interface} & self.workgroup.keys():
            pointee = self.types[self.value_types[variable]][3]
            sizes[pointee in self.blocks].append(self.workgroup[variable])
        return max(sizes[True]) + sum(sizes[False])

    def _number(self, id: int) -> int:
        """
        Returns the value of a constant that gives a length or size in a type. A specialization
        constant has its default value.
        """
        if id not in self.constants:
            from xdsl_spirv.serialization.validation.constant_values import UnknownConstantError

            try:
                self.constants[id] = int(self._values.value(id))
            except UnknownConstantError as error:
                raise ProgramError(
                    f"the size of a type is not known: {error}",
                    "",
                    "give the size by specialization constants with defaults",
                ) from error
        return self.constants[id]

    @cached_property
    def _values(self) -> ConstantValues:
        from xdsl_spirv.serialization.raw.binary import decode
        from xdsl_spirv.serialization.validation.constant_values import ConstantValues
        from xdsl_spirv.serialization.validation.module import Module
        from xdsl_spirv.serialization.validation.validator import environment_of

        module = decode(self.spirv)
        return ConstantValues(Module(module, environment_of(module)))

    def _constant_bytes(self, id: int) -> int:
        """Returns the size of a constant's value in bytes. A boolean is a VkBool32."""
        type = self.value_types.get(id, 0)
        return self.types[type][2] // 8 if self.uses.is_number(type) else BOOLEAN_BYTES

    def capability(self, words: list[int]) -> None:
        known = grammar().kind("Capability")
        if words[1] in known:
            self.capabilities.add(known[words[1]].name)
        else:
            self.capabilities.add(f"capability {words[1]}")

    def extension(self, words: list[int]) -> None:
        self.extensions.add(_text(words[1:])[0])

    def entry_point(self, words: list[int]) -> None:
        name, length = _text(words[3:])
        self.entries.append((words[2], name, words[3 + length :]))

    def execution_mode(self, words: list[int]) -> None:
        if words[2] == grammar().kind("ExecutionMode")["LocalSize"].value:
            self.sizes[words[1]] = (words[3], words[4], words[5])

    def constant(self, words: list[int]) -> None:
        self.constants[words[2]] = words[3]

    def decorate(self, words: list[int]) -> None:
        if words[2] == grammar().kind("Decoration")["SpecId"].value:
            self.specialized[words[1]] = words[3]
        elif words[2] == grammar().kind("Decoration")["Block"].value:
            self.blocks.add(words[1])

    def type(self, words: list[int]) -> None:
        self.types[words[1]] = words

    def matrix(self, words: list[int]) -> None:
        scope, rows, columns = map(self._number, words[3:6])
        self.matrices[words[1]] = _Matrix(words[2], scope, rows, columns)
        self.types[words[1]] = words

    def member_decorate(self, words: list[int]) -> None:
        if words[3] == grammar().kind("Decoration")["Offset"].value:
            self.offsets.setdefault(words[1], {})[words[2]] = words[4]

    def variable(self, words: list[int]) -> None:
        storage = grammar().kind("StorageClass")
        if words[3] == storage["Workgroup"].value:
            pointee = self.types[words[1]][3]
            self.workgroup[words[2]] = self._size(pointee)

    def multiply_add(self, words: list[int]) -> None:
        ids = {"a": words[3], "b": words[4], "c": words[5]}
        mask = words[6] if len(words) > 6 else 0
        kinds = {key: self.matrices.get(self.value_types.get(i, 0)) for key, i in ids.items()}
        kinds["result"] = self.matrices.get(words[1])
        a, b, c, result = (kinds[key] for key in ("a", "b", "c", "result"))
        if a is None or b is None or c is None or result is None:
            return
        operands = grammar().kind("CooperativeMatrixOperands")
        names = {
            key: self._component(kind, bool(mask & operands[SIGNED[key]].value))
            for key, kind in (("a", a), ("b", b), ("c", c), ("result", result))
        }
        self.multiplied.add(
            CooperativeMatrixProperty(
                *(result.rows, result.columns, a.columns),
                *(names["a"], names["b"], names["c"], names["result"]),
                saturating=bool(mask & operands[SATURATING].value),
                scope=grammar().kind("Scope")[result.scope].name,
            )
        )

    def _component(self, matrix: _Matrix, signed: bool) -> str:
        words = self.types[matrix.component]
        if words[0] & 0xFFFF == self.opcode["OpTypeInt"]:
            return f"{'s' if signed else 'u'}{words[2]}"
        encoding = grammar().kind("FPEncoding")
        if len(words) > 3:
            return {
                encoding["BFloat16KHR"].value: "bf16",
                encoding["Float8E4M3EXT"].value: "f8E4M3FN",
                encoding["Float8E5M2EXT"].value: "f8E5M2",
            }.get(words[3], f"f{words[2]}")
        return f"f{words[2]}"

    def _size(self, type: int) -> int:
        """Returns the bytes of a type in Workgroup memory. Members without offsets are packed."""
        words = self.types.get(type)
        if words is None:
            return 4
        opcode = words[0] & 0xFFFF
        if opcode in (self.opcode["OpTypeInt"], self.opcode["OpTypeFloat"]):
            return words[2] // 8
        if opcode == self.opcode["OpTypeVector"]:
            return words[3] * self._size(words[2])
        if opcode == self.opcode["OpTypeArray"]:
            return self._number(words[3]) * self._size(words[2])
        if opcode == self.opcode["OpTypeStruct"]:
            offsets = self.offsets.get(type, {})
            if offsets:
                ends = (offsets.get(i, 0) + self._size(m) for i, m in enumerate(words[2:]))
                return max(ends, default=0)
            return sum(map(self._size, words[2:]))
        return 4


_HANDLED = {
    "OpCapability": "capability",
    "OpExtension": "extension",
    "OpEntryPoint": "entry_point",
    "OpExecutionMode": "execution_mode",
    "OpConstant": "constant",
    "OpSpecConstant": "constant",
    "OpTypeInt": "type",
    "OpTypeFloat": "type",
    "OpTypeVector": "type",
    "OpTypeArray": "type",
    "OpTypeStruct": "type",
    "OpTypeBool": "type",
    "OpTypePointer": "type",
    "OpTypeUntypedPointerKHR": "type",
    "OpTypeCooperativeMatrixKHR": "matrix",
    "OpDecorate": "decorate",
    "OpMemberDecorate": "member_decorate",
    "OpVariable": "variable",
    "OpCooperativeMatrixMulAddKHR": "multiply_add",
}


HEADER_WORDS = 5


def rows_of(words: array[int]) -> Iterator[list[int]]:
    """Yields the words of each instruction after the header."""
    start = HEADER_WORDS
    while start < len(words):
        end = start + (words[start] >> 16)
        yield words[start:end].tolist()
        start = end


def _text(words: Sequence[int]) -> tuple[str, int]:
    """Reads a literal string. Also returns the number of its words (SPIR-V 2.2.1)."""
    data = b"".join(word.to_bytes(4, "little") for word in words)
    end = data.index(b"\0")
    return data[:end].decode("utf-8", "replace"), end // 4 + 1
