"""
Represents the types of a module, with the facts that rules need.

Recursive facts (contents, size) are computed once, from earlier types, so that deep nesting needs
no recursion. An operand that is not an earlier type is left out. Rules decide if that is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from xdsl_spirv.serialization.raw.operands import enum_table
from xdsl_spirv.serialization.validation.instructions import Instruction

NUMBERS = frozenset({"Int", "Float"})
SCALARS = frozenset({"Int", "Float", "Bool"})
COOPERATIVE = frozenset({"CooperativeMatrixKHR", "CooperativeMatrixNV"})
VECTORS = frozenset({"Vector", "CooperativeVectorNV", "VectorIdEXT"})
POINTERS = frozenset({"Pointer", "UntypedPointerKHR"})
AGGREGATES = frozenset({"Array", "RuntimeArray", "Struct"})
OPAQUE = frozenset(
    {
        "AccelerationStructureKHR",
        "HitObjectNV",
        "Image",
        "Opaque",
        "RayQueryKHR",
        "SampledImage",
        "Sampler",
        "TensorARM",
    }
)


@lru_cache(maxsize=1024)
def _kinds(*names: str) -> frozenset[str]:
    return frozenset(names)


def enumerant(kind: str, value: int) -> str:
    """Returns the name of a value of an enumeration. Returns its number if it has no name."""
    return enum_table(kind).names.get(value) or str(value)


class Type:
    """A type, declared by one OpType instruction."""

    __slots__ = (
        "at",
        "contains",
        "count_id",
        "depth",
        "element",
        "encoding",
        "id",
        "kind",
        "lanes",
        "members",
        "pointee_id",
        "scalar",
        "signed",
        "storage",
        "width",
    )

    def __init__(self, at: Instruction, types: Mapping[int, Type]):
        self.at = at
        self.id = at.result
        self.kind = at.op.removeprefix("Type")
        self.width = 0
        """Bits of a scalar. For a vector or matrix, the bits of its scalars."""
        self.signed = False
        self.encoding: str | None = None
        """FP encoding of a float. None for IEEE 754."""
        self.element: Type | None = None
        """The type of components, columns or elements. For a function type, its result type."""
        self.members: tuple[Type | None, ...] = ()
        """The members of a struct. For a function type, its parameters."""
        self.lanes = 1
        """Number of components of a vector or columns of a matrix. 0 if unknown."""
        self.count_id = 0
        """Id of the constant that gives an array's length."""
        self.storage = ""
        self.pointee_id = 0
        self.depth = 0
        """Nesting depth of structs."""
        self.scalar: Type | None = None
        """
        The scalar type of a vector, matrix or cooperative matrix. For a scalar, the type itself.
        """
        self.contains = _kinds(self.kind)
        """
        Kinds of the type and of all types in it. The pointee of a pointer is not in it. Scalars are
        also listed as `Int8`, `Float16` and so on.
        """
        self._fill(at, types)

    def _fill(self, at: Instruction, types: Mapping[int, Type]) -> None:
        words = [*at.words[2:], 0, 0, 0, 0, 0]
        match self.kind:
            case "Int" | "Float" | "Bool":
                self._fill_scalar(at, words)
            case "Vector" | "Matrix":
                self._take_element(types.get(words[0]))
                self.lanes = words[1]
            case "CooperativeMatrixKHR" | "CooperativeMatrixNV":
                self._take_element(types.get(words[0]))
                self.lanes = 0
            case "CooperativeVectorNV" | "VectorIdEXT":
                self._take_element(types.get(words[0]))
                self.lanes, self.count_id = 0, words[1]
            case "Array":
                self._take_element(types.get(words[0]))
                self.scalar, self.count_id = None, words[1]
            case "RuntimeArray":
                self._take_element(types.get(words[0]))
                self.scalar = None
            case "Struct":
                self._take_members([types.get(w) for w in at.words[2:]])
                self.depth = 1 + max((m.depth for m in self.members if m), default=0)
            case "Pointer":
                self.storage = enumerant("StorageClass", words[0])
                self.pointee_id = words[1]
            case "UntypedPointerKHR":
                self.storage = enumerant("StorageClass", words[0])
            case "Function":
                self.element = types.get(words[0])
                self.members = tuple(types.get(w) for w in at.words[3:])
            case "SampledImage":
                self.element = types.get(words[0])
            case _:
                pass

    def _fill_scalar(self, at: Instruction, words: list[int]) -> None:
        self.scalar = self
        self.width = words[0] if self.kind != "Bool" else 0
        self.signed = self.kind == "Int" and words[1] == 1
        if self.kind == "Float" and len(at.words) > 3:
            self.encoding = enumerant("FPEncoding", at.words[3])
        if self.kind != "Bool":
            self.contains = _kinds(self.kind, self.encoding or f"{self.kind}{self.width}")

    def _take_element(self, element: Type | None) -> None:
        self.element = element
        if element is None:
            return
        self.scalar = element.scalar
        self.width, self.signed, self.encoding = element.width, element.signed, element.encoding
        self.depth = element.depth
        self.contains = self._with(element.contains)

    def _take_members(self, members: list[Type | None]) -> None:
        self.members = tuple(members)
        held = {m.contains for m in members if m is not None}
        if len(held) == 1:
            self.contains = self._with(held.pop())
        else:
            self.contains = frozenset({self.kind}).union(*held)

    def _with(self, held: frozenset[str]) -> frozenset[str]:
        return held if self.kind in held else held | {self.kind}

    @property
    def base(self) -> str:
        """
        The kind of the scalars in a scalar, vector or matrix: `Int`, `Float` or `Bool`. Empty for
        other types.
        """
        return self.scalar.kind if self.scalar is not None and self.kind != "Matrix" else ""

    @property
    def is_scalar(self) -> bool:
        return self.kind in SCALARS

    @property
    def is_vector(self) -> bool:
        return self.kind in VECTORS

    @property
    def is_scalar_or_vector(self) -> bool:
        return self.kind in SCALARS or self.kind in VECTORS

    @property
    def is_pointer(self) -> bool:
        return self.kind in POINTERS

    @property
    def is_matrix(self) -> bool:
        """True for a cooperative matrix (KHR or NV)."""
        return self.kind in COOPERATIVE

    @property
    def is_bfloat16(self) -> bool:
        return self.encoding == "BFloat16KHR"

    def shape(self) -> object:
        """Returns a value that is equal for two types that differ only in their scalars."""
        if self.kind == "Vector":
            return self.lanes
        if self.is_matrix:
            return (self.kind, *self.at.words[3:])
        return (self.kind, self.count_id) if self.kind in VECTORS else self.kind in SCALARS or self

    def __str__(self) -> str:
        """Returns the type's text for findings: `uint`, `v4float`, `ptr StorageBuffer %7`."""
        match self.kind:
            case "Int":
                return f"{'s' if self.signed else 'u'}int{self.width}"
            case "Float":
                return self.encoding or f"float{self.width}"
            case "Vector":
                return f"v{self.lanes}{self.element}"
            case "Pointer":
                return f"pointer to {self.storage} (%{self.id})"
            case "Bool" | "Void":
                return self.kind.lower()
            case _:
                return f"OpType{self.kind} %{self.id}"
