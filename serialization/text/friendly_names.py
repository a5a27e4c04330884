"""
Derives the readable ids that `spirv-dis` prints by default.

The name of an id is the first of these that exists: its OpName, its built-in, a description of the
type or constant that it declares (`%v4float`, `%_ptr_Function_float`, `%uint_4`), its number.
Characters that ids cannot contain become `_`. If a name is already used, `_0`, `_1`, ... is
appended, in the module's order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.binary import RawInstruction, RawModule
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.raw.literals import format_number
from xdsl_spirv.serialization.raw.operands import RawOperand, enum_table, opcode_of, opcode_table

MAX_DERIVED_LENGTH = 128
"""
Maximum length of a derived name in characters. The names of deeply nested types contain a number
instead.
"""

_GL_NAMES = (
    "Position PointSize ClipDistance CullDistance Layer ViewportIndex TessLevelOuter "
    "TessLevelInner TessCoord PatchVertices FragCoord PointCoord FrontFacing SamplePosition "
    "SampleMask FragDepth HelperInvocation LocalInvocationIndex VertexIndex InstanceIndex "
    "BaseInstance"
)
_GL_IDS = (
    "VertexId InstanceId PrimitiveId InvocationId SampleId LocalInvocationId GlobalInvocationId"
)
_OWN_NAMES = (
    "WorkDim GlobalSize EnqueuedWorkgroupSize GlobalOffset GlobalLinearId SubgroupSize "
    "SubgroupMaxSize NumSubgroups NumEnqueuedSubgroups SubgroupId SubgroupLocalInvocationId"
)
_BUILT_INS = {
    **{name: f"gl_{name}" for name in _GL_NAMES.split()},
    **{name: f"gl_{name.removesuffix('Id')}ID" for name in _GL_IDS.split()},
    **{name: name for name in _OWN_NAMES.split()},
    **{f"Subgroup{which}Mask": f"Subgroup{which}MaskKHR" for which in "Eq Ge Gt Le Lt".split()},
    "NumWorkgroups": "gl_NumWorkGroups",
    "WorkgroupSize": "gl_WorkGroupSize",
    "WorkgroupId": "gl_WorkGroupID",
}
_LITERAL_NAMES = {
    "OpTypeVoid": "void",
    "OpTypeBool": "bool",
    "OpConstantTrue": "true",
    "OpConstantFalse": "false",
    "OpTypeEvent": "Event",
    "OpTypeDeviceEvent": "DeviceEvent",
    "OpTypeReserveId": "ReserveId",
    "OpTypeQueue": "Queue",
    "OpTypePipeStorage": "PipeStorage",
    "OpTypeNamedBarrier": "NamedBarrier",
}
_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}
_FLOATS = {16: "half", 32: "float", 64: "double"}
_ENCODINGS = {"BFloat16KHR": "bfloat16", "Float8E4M3EXT": "fp8e4m3", "Float8E5M2EXT": "fp8e5m2"}

DIGITS = frozenset("0123456789")
NUMERIC = re.compile(r"[0-9]+(_[0-9]+)*").fullmatch
UNUSUAL = re.compile(r"[^A-Za-z0-9_]")

Describe = Callable[["_Namer", list[RawOperand]], str]


def friendly_names(module: RawModule) -> Mapping[int, str]:
    """
    Returns a name for every id that an instruction of the module defines or names.

    Invalid instructions cause no error. Their ids are named by their numbers.
    """
    return _Namer(module).names


def _sanitize(name: str) -> str:
    return UNUSUAL.sub("_", name.encode("utf-8", "surrogateescape").decode("latin-1"))


class _Namer:
    def __init__(self, module: RawModule):
        self._module = module
        self._clear()
        self._visit_all(self._few())
        if any(n[0] in DIGITS and n != str(i) and NUMERIC(n) for i, n in self.names.items()):
            # This name looks like a number, so the id with that number needs another name.
            self._clear()
            opcodes = module.opcodes
            self._visit_all(_defining()[opcodes] | _describing()[opcodes])

    def _clear(self) -> None:
        self.names: dict[int, str] = {}
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def _few(self) -> NDArray[np.bool_]:
        opcodes = self._module.opcodes
        chosen = _describing()[opcodes]
        naming = opcode_table("OpName", "OpDecorate")[opcodes]
        if naming.any():
            last = int(np.flatnonzero(naming)[-1])
            chosen[:last] |= _defining()[opcodes[:last]]
        return chosen

    def _visit_all(self, chosen: NDArray[np.bool_]) -> None:
        for index in np.flatnonzero(chosen).tolist():
            instruction = self._module[index]
            try:
                self._visit(instruction, _describers().get(instruction.opcode))
            except SPIRVDecodeError:
                continue

    def _visit(self, instruction: RawInstruction, describe: Describe | None) -> None:
        opcode, words = instruction.opcode, instruction.words
        if describe is None:
            position = 2 if opcode in _typed_opcodes() else 1
            if len(words) > position:
                self.save(words[position], str(words[position]))
            return
        if opcode == opcode_of("OpDecorate"):
            if words[2:3] == [grammar().kind("Decoration")["BuiltIn"].value]:
                self._decorated(instruction.operands)
            return
        operands = instruction.operands
        if opcode == opcode_of("OpName"):
            self.save(int(operands[0].value), str(operands[1].value))
        else:
            result = next(int(o.value) for o in operands if o.kind == "IdResult")
            self.save(result, describe(self, operands))

    def _decorated(self, operands: list[RawOperand]) -> None:
        if len(operands) < 3 or operands[2].kind != "BuiltIn":
            return
        name = enum_table("BuiltIn").names[int(operands[2].value)]
        if name in _BUILT_INS:
            self.save(int(operands[0].value), _BUILT_INS[name])

    def save(self, key: int, suggested: str) -> None:
        if key in self.names:
            return
        base = name = _sanitize(suggested) or "_"
        if name in self._used:
            number = self._next.get(base, 0)
            while (name := f"{base}_{number}") in self._used:
                number += 1
            self._next[base] = number + 1
        self._used.add(name)
        self.names[key] = name

    def of(self, operand: RawOperand) -> str:
        return self.names.get(int(operand.value), str(operand.value))

    def derived(self, prefix: str, *operands: RawOperand) -> str:
        """
        Joins `prefix` and the operands' names. If the name is longer than `MAX_DERIVED_LENGTH`,
        joins only `prefix` and the first operand's value.
        """
        name = prefix + "_".join(self.of(o) for o in operands)
        return name if len(name) <= MAX_DERIVED_LENGTH else f"{prefix}{operands[0].value}"


@cache
def _typed_opcodes() -> frozenset[int]:
    """
    Returns the opcodes of instructions with a result type. Their second operand is the result.
    """
    entries = map(grammar().instruction, grammar().instruction_names)
    return frozenset(e.opcode for e in entries if e.has_result_type and e.has_result)


@cache
def _defining() -> NDArray[np.bool_]:
    entries = map(grammar().instruction, grammar().instruction_names)
    return opcode_table(*(e.name for e in entries if e.has_result))


@cache
def _describing() -> NDArray[np.bool_]:
    return opcode_table(*_DESCRIBE)


@cache
def _describers() -> dict[int, Describe]:
    return {opcode_of(name): describe for name, describe in _DESCRIBE.items()}


def _integer(_: _Namer, operands: list[RawOperand]) -> str:
    width, signed = int(operands[1].value), operands[2].value
    root = _INTEGERS.get(width)
    sign = "" if signed else "u"
    return f"{sign}{root}" if root else f"{sign or 'i'}{width}"


def _float(_: _Namer, operands: list[RawOperand]) -> str:
    width = int(operands[1].value)
    if len(operands) > 2:
        encoding = enum_table("FPEncoding").names[int(operands[2].value)]
        if encoding in _ENCODINGS:
            return _ENCODINGS[encoding]
    return _FLOATS.get(width, f"fp{width}")


def _enumerant(operand: RawOperand) -> str:
    return enum_table(operand.kind).names[int(operand.value)]


def _constant(namer: _Namer, operands: list[RawOperand]) -> str:
    number = operands[2].number
    assert number is not None  # The operand of a constant is typed, or its reading has failed.
    text = format_number(int(operands[2].value), number).replace("-", "n")
    return f"{namer.of(operands[0])}_{text}"


def _literal_name(name: str) -> Describe:
    return lambda _, __: name


_DESCRIBE: dict[str, Describe] = {
    "OpName": _literal_name(""),
    "OpDecorate": _literal_name(""),
    **{opcode: _literal_name(name) for opcode, name in _LITERAL_NAMES.items()},
    "OpTypeInt": _integer,
    "OpTypeFloat": _float,
    "OpTypeVector": lambda n, o: n.derived(f"v{o[2].value}", o[1]),
    "OpTypeMatrix": lambda n, o: n.derived(f"mat{o[2].value}", o[1]),
    "OpTypeArray": lambda n, o: n.derived("_arr_", o[1], o[2]),
    "OpTypeRuntimeArray": lambda n, o: n.derived("_runtimearr_", o[1]),
    "OpTypeNodePayloadArrayAMDX": lambda n, o: n.derived("_payloadarr_", o[1]),
    "OpTypePointer": lambda n, o: n.derived(f"_ptr_{_enumerant(o[1])}_", o[2]),
    "OpTypeUntypedPointerKHR": lambda _, o: f"_ptr_{_enumerant(o[1])}",
    "OpTypePipe": lambda _, o: f"Pipe{_enumerant(o[1])}",
    "OpTypeOpaque": lambda _, o: f"Opaque_{o[1].value}",
    "OpTypeStruct": lambda _, o: f"_struct_{o[0].value}",
    "OpConstant": _constant,
}
