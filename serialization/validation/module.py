"""
Indexes a module for the rules: definitions, types, constants, decorations, functions.

The index does not rely on any rule, so that every rule can run on any bytes with SPIR-V's header
and valid lengths. If an id has two definitions, the first counts. Instructions that the grammar
cannot read are left out, and `sound` is then False. Misplaced instructions are indexed, too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from xdsl_spirv.grammar import Version, grammar
from xdsl_spirv.serialization.raw.binary import Header, RawModule
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.raw.operands import RawOperand
from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS, Environment
from xdsl_spirv.serialization.validation.flow import TERMINATORS, Block, Function
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.types import AGGREGATES, POINTERS, Type, enumerant

CONSTANTS = frozenset(
    """
    ConstantTrue ConstantFalse Constant ConstantComposite ConstantSampler ConstantNull
    ConstantCompositeReplicateEXT SpecConstantTrue SpecConstantFalse SpecConstant
    SpecConstantComposite SpecConstantOp SpecConstantCompositeReplicateEXT ConstantSizeOfEXT
    ConstantDataKHR SpecConstantDataKHR GraphConstantARM
    """.split()
)
"""Instructions that define constants. OpUndef does not, but may be a constituent of a constant."""

VECTOR_CONSTANTS = frozenset(
    """
    ConstantComposite SpecConstantComposite ConstantCompositeReplicateEXT
    SpecConstantCompositeReplicateEXT
    """.split()
)
"""Instructions that define vectors and other composite constants from constituents."""


class Decoration(NamedTuple):
    """A decoration of an id or of a struct's member."""

    name: str
    parameters: tuple[int | str, ...]
    member: int | None
    at: Instruction


class EntryPoint(NamedTuple):
    """An OpEntryPoint."""

    model: str
    function: int
    name: str
    interface: tuple[int, ...]
    at: Instruction


LAYOUT = ("Block", "BufferBlock", "Offset", "ArrayStride", "MatrixStride")
"""Decorations by which a type has an explicit layout."""


class Module:
    """
    The indexed module. `instructions` has all instructions in order.

    The default environment is Vulkan for a module with Shader, and plain SPIR-V for other modules.
    """

    def __init__(self, raw: RawModule, environment: Environment | None = None):
        self.raw = raw
        self.header: Header = raw.header
        self.version: Version = self.header.version
        self.instructions: list[Instruction] = []
        self.definitions: dict[int, Instruction] = {}
        self.types: dict[int, Type] = {}
        self.declared: dict[str, Instruction] = {}
        """Maps a declared capability to its OpCapability."""
        self.extensions: dict[str, Instruction] = {}
        self.imports: dict[int, str] = {}
        self.memory_models: list[Instruction] = []
        self.entry_points: list[EntryPoint] = []
        self.modes: defaultdict[int, list[tuple[str, list[RawOperand], Instruction]]] = defaultdict(
            list
        )
        """Maps the function of an entry point to its execution modes with operands."""
        self.names: dict[int, str] = {}
        self.decorations: defaultdict[int, list[Decoration]] = defaultdict(list)
        self.functions: list[Function] = []
        self.by_function: dict[int, Function] = {}
        self._lines: list[Instruction | None] = []
        """OpLine instructions in order. None stands for OpNoLine."""
        self._line_starts = array("I")
        """For each element of `_lines`, the index of the first instruction to which it applies."""
        self.outside: list[Instruction] = []
        """Instructions outside of functions."""
        self.by_op: defaultdict[str, list[Instruction]] = defaultdict(list)
        self._index()
        unstated = ENVIRONMENTS["vulkan1.3" if self.is_shader else "spv1.6"]
        self.environment = environment or unstated

    def _index(self) -> None:
        bound = self.header.bound
        first: dict[int, list[int]] = {}
        """
        Maps the first word of an instruction to all words of the first instruction that begins with
        it.
        """
        for index, words in enumerate(self.raw.rows()):
            known = first.setdefault(words[0], words)
            if len(words) == 1:
                words = known
            else:
                words[0] = known[0]
            i = Instruction(self.raw, index, words)
            self.instructions.append(i)
            self.by_op[i.op].append(i)
            if not i.plain:
                self._try(i)
            elif len(words) > 1 and not (0 < min(words[1:]) and max(words[1:]) < bound):
                self._try(i)
            if i.result and i.result not in self.definitions:
                self.definitions[i.result] = i
                if i.op.startswith("Type"):
                    self.types[i.result] = Type(i, self.types)
        self._resolve_forward()
        self._collect()
        self._find_functions()

    def _resolve_forward(self) -> None:
        for type_ in self.types.values():
            if type_.kind == "Struct" and None in type_.members:
                candidates = (self.types.get(id) for id in type_.at.words[2:])
                pointers = [
                    t if t is not None and t.kind == "Pointer" else None for t in candidates
                ]
                type_.members = tuple(a or b for a, b in zip(type_.members, pointers, strict=True))

    def _try(self, i: Instruction) -> None:
        try:
            i.read = self.raw.symbols.operands(i)
        except SPIRVDecodeError:
            i.sound = False

    def unreadable(self) -> Iterator[tuple[Instruction, SPIRVDecodeError]]:
        """Yields the instructions that the grammar cannot read, each with its error."""
        for i in self.instructions:
            if i.sound:
                continue
            try:
                self.raw.symbols.operands(i)
            except SPIRVDecodeError as error:
                yield i, error

    def _collect(self) -> None:
        collectors = {
            "Capability": self._capability,
            "Extension": self._extension,
            "ExtInstImport": self._import,
            "MemoryModel": self._memory_model,
            "EntryPoint": self._entry_point,
            "ExecutionMode": self._mode,
            "ExecutionModeId": self._mode,
            "Name": self._name,
            "Decorate": self._decorate,
            "DecorateId": self._decorate,
            "DecorateString": self._decorate,
            "MemberDecorate": self._decorate_member,
            "MemberDecorateString": self._decorate_member,
        }
        for name, collect in collectors.items():
            for i in self.by_op.get(name, ()):
                if i.read is not None or i.plain:
                    collect(i)
        self._spread_groups()

    def _capability(self, i: Instruction) -> None:
        self.declared.setdefault(enumerant("Capability", i.words[1]), i)

    def _extension(self, i: Instruction) -> None:
        self.extensions.setdefault(str((i.read or [])[0].value), i)

    def _import(self, i: Instruction) -> None:
        self.imports.setdefault(i.result, str((i.read or [])[1].value))

    def _memory_model(self, i: Instruction) -> None:
        self.memory_models.append(i)

    def _entry_point(self, i: Instruction) -> None:
        model, function, name, *interface = (o.value for o in i.read or ())
        self.entry_points.append(
            EntryPoint(
                enumerant("ExecutionModel", int(model)),
                int(function),
                str(name),
                tuple(map(int, interface)),
                i,
            )
        )

    def _mode(self, i: Instruction) -> None:
        target, mode, *operands = i.read or []
        name = enumerant("ExecutionMode", int(mode.value))
        self.modes[int(target.value)].append((name, operands, i))

    def _name(self, i: Instruction) -> None:
        target, name = (o.value for o in i.read or ())
        self.names.setdefault(int(target), str(name))

    def _decorate(self, i: Instruction) -> None:
        target, kind, *parameters = (o.value for o in i.read or ())
        name = enumerant("Decoration", int(kind))
        decoration = Decoration(name, tuple(parameters), None, i)
        self.decorations[int(target)].append(decoration)

    def _decorate_member(self, i: Instruction) -> None:
        target, member, kind, *parameters = (o.value for o in i.read or ())
        name = enumerant("Decoration", int(kind))
        self.decorations[int(target)].append(Decoration(name, tuple(parameters), int(member), i))

    def _spread_groups(self) -> None:
        limit, spread = self.raw.limits.group_decorations, 0
        for i in (*self.by_op.get("GroupDecorate", ()), *self.by_op.get("GroupMemberDecorate", ())):
            group = tuple(self.decorations.get(i.get("decoration_group"), ()))
            operands = i.words[2:]
            pairs: Iterable[tuple[int, int | None]] = [
                (target, None) for target in operands if target != i.words[1]
            ]
            if i.op == "GroupMemberDecorate":
                pairs = zip(operands[::2], operands[1::2], strict=False)
            given: dict[int | None, list[Decoration]] = {}
            for target, member in pairs:
                spread += len(group)
                if spread > limit:
                    raise self.raw[i.index].error(
                        f"decoration groups expand to more than {limit} decorations"
                    )
                if member not in given:
                    given[member] = [d._replace(at=i, member=member) for d in group]
                self.decorations[target] += given[member]

    def _find_functions(self) -> None:
        function: Function | None = None
        block: Block | None = None
        for i in self.instructions:
            op = i.op
            if op == "Line":
                self._set_line(i.index, i if len(i.words) > 3 else None)
            elif op == "NoLine" or op in TERMINATORS or op == "FunctionEnd":
                self._set_line(i.index + 1, None)
            if op == "Function":
                function, block = Function(i), None
                self.functions.append(function)
                self.by_function.setdefault(i.result, function)
            elif function is None:
                self.outside.append(i)
            elif op == "FunctionEnd":
                function, block = None, None
            elif op == "FunctionParameter":
                function.parameters.append(i)
            elif op == "Label":
                block = i.block = function.add_block(i)
            elif block is not None:
                i.block = block
                block.instructions.append(i)
                if op in TERMINATORS:
                    block = None
        for known in self.functions:
            known.connect()

    def _set_line(self, start: int, line: Instruction | None) -> None:
        if line is not None or (self._lines and self._lines[-1] is not None):
            self._lines.append(line)
            self._line_starts.append(start)

    def line_of(self, index: int) -> Instruction | None:
        """Returns the OpLine that applies to the instruction at an index, or None."""
        place = bisect_right(self._line_starts, index)
        return self._lines[place - 1] if place else None

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """The declared capabilities, and the capabilities that these imply."""
        known = grammar().kind("Capability")
        names = [n for n in self.declared if n in known]
        return frozenset(names).union(*(grammar().implied(n) for n in names))

    @cached_property
    def is_shader(self) -> bool:
        return "Shader" in self.capabilities

    @cached_property
    def is_kernel(self) -> bool:
        """True for a module of OpenCL kernels, as rules CM-02 and CM-10 define it."""
        return "Kernel" in self.capabilities and not self.is_shader

    @cached_property
    def addressing_model(self) -> str:
        if not self.memory_models:
            return ""
        return enumerant("AddressingModel", self.memory_models[0].words[1])

    @cached_property
    def memory_model(self) -> str:
        if not self.memory_models:
            return ""
        return enumerant("MemoryModel", self.memory_models[0].words[2])

    @cached_property
    def is_vulkan_model(self) -> bool:
        return self.memory_model == "Vulkan"

    def type_of(self, id: int) -> Type | None:
        """Returns the type of a value. Returns None for an id that is not a value."""
        at = self.definitions.get(id)
        return None if at is None else self.types.get(at.type_id)

    def pointee(self, type_: Type | None) -> Type | None:
        """Returns the type that a typed pointer points to. Returns None for other types."""
        return None if type_ is None else self.types.get(type_.pointee_id)

    def op_of(self, id: int) -> str:
        """
        Returns the name of the instruction that defines an id. Returns "" if the id is undefined.
        """
        at = self.definitions.get(id)
        return "" if at is None else at.op

    def is_constant(self, id: int) -> bool:
        """True if a constant instruction defines the id."""
        return self.op_of(id) in CONSTANTS

    def is_spec(self, id: int) -> bool:
        return self.op_of(id).startswith("SpecConstant")

    def integer(self, id: int, *, default: bool = False) -> int | None:
        """
        Returns the value of an integer constant. Returns None for other ids and for specialization
        constants.

        With `default`, returns the default value of a specialization constant.
        """
        at = self.definitions.get(id)
        type_ = self.type_of(id)
        if at is None or type_ is None or type_.kind != "Int":
            return None
        if at.op == "ConstantNull":
            return 0
        if at.op != "Constant" and not (default and at.op == "SpecConstant"):
            return None
        # Types of more than 64 bits are invalid.
        value = sum(w << 32 * k for k, w in enumerate(at.words[3:5]))
        width = min(max(type_.width, 1), 64)
        value &= (1 << width) - 1
        return value - (1 << width) if type_.signed and value >> (width - 1) else value

    def decoration(self, id: int, name: str, member: int | None = None) -> Decoration | None:
        """
        Returns the first decoration with this name of an id or member. Returns None without such a
        decoration.
        """
        return self._by_name.get((id, name, member))

    @cached_property
    def _by_name(self) -> dict[tuple[int, str, int | None], Decoration]:
        firsts: dict[tuple[int, str, int | None], Decoration] = {}
        for id, decorations in self.decorations.items():
            for one in decorations:
                firsts.setdefault((id, one.name, one.member), one)
        return firsts

    @cached_property
    def explicit_layouts(self) -> dict[int, str]:
        """
        Maps the id of a type to the name of the first layout decoration on it or on its parts. A
        pointer may have an ArrayStride where the storage that it refers to has a layout.
        """
        layouts: dict[int, str] = {}
        for type_ in self.types.values():
            pointer = type_.kind in POINTERS
            if type_.kind in AGGREGATES or (pointer and not self.takes_layout(type_.storage)):
                own = (d.name for d in self.decorations.get(type_.id, ()) if d.name in LAYOUT)
                parts = (*type_.members, type_.element)
                within = (layouts.get(part.id, "") for part in parts if part is not None)
                layouts[type_.id] = next(own, "") or next(filter(None, within), "")
        return layouts

    def takes_layout(self, storage: str) -> bool:
        """True if types in this storage class may have an explicit layout."""
        match storage:
            case "Workgroup":
                return "WorkgroupMemoryExplicitLayoutKHR" in self.capabilities
            case "Private" | "Function":
                return self.version <= (1, 4)
            case _:
                return storage != "UniformConstant"

    def has(self, id: int, name: str, member: int | None = None) -> bool:
        return self.decoration(id, name, member) is not None

    def spell(self, id: int) -> str:
        """Returns an id's text for findings: `%7`, or `%7 "sum"` if it has a name."""
        name = self.names.get(id)
        return f'%{id} "{name}"' if name else f"%{id}"

    def spell_type(self, id: int) -> str:
        """Returns the text of a value's type for findings."""
        type_ = self.type_of(id)
        return "no value" if type_ is None else str(type_)
