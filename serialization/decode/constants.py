"""Decodes the values of a binary's constants as attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    VectorType,
)
from xdsl.ir import Attribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.serialization.decode.module_index import ModuleIndex
from xdsl_spirv.serialization.decode.types import (
    TypeReader,
    dense_of,
    pack_numbers,
    tensor_of,
    zero_of,
)


class ConstantReader:
    """Decodes constants to attributes. Caches the results."""

    def __init__(self, index: ModuleIndex, types: TypeReader):
        self.index = index
        self.types = types
        self._values: dict[int, Attribute | None] = {}

    def value(self, id: int) -> Attribute | None:
        """
        Returns a constant's value as an attribute. Returns None for an id that is not a constant,
        and for a constant without an attribute.
        """
        if id not in self._values:
            self._values[id] = self._read(id)
        return self._values[id]

    def _read(self, id: int) -> Attribute | None:
        row = self.index.definitions.get(id)
        name = None if row is None else self.index.name(row)
        match name:
            case "OpConstant":
                return self.scalar(id)
            case "OpConstantTrue" | "OpConstantFalse":
                t = self.types.type(self.index.rows[row or 0][1])
                is_bool = t == IntegerType(1)
                return IntegerAttr.from_bool(name == "OpConstantTrue") if is_bool else None
            case "OpConstantComposite":
                return self._composite(self.index.rows[row or 0])
            case "OpConstantNull":
                t = self.types.type(self.index.rows[row or 0][1])
                return zero_of(t)
            case "OpConstantCompositeReplicateEXT":
                words = self.index.rows[row or 0]
                t = self.types.type(self.index.word(words, 1))
                if not isinstance(t, spv.TensorArmType) or not t.extents:
                    return None
                return tensor_of(t, [self.value(self.index.word(words, 3))] * t.extents[0])
            case _:
                return None

    def scalar(self, id: int) -> IntegerAttr | FloatAttr | None:
        """
        Returns the value of a scalar constant. Returns None for a NaN whose payload a Python float
        cannot hold.
        """
        row = self.index.definitions[id]
        at, self.index.at = self.index.at, row
        operand = self.index.raw[row].operands[2]
        t = self.types.type(self.index.rows[row][1])
        self.index.at = at
        bits = int(operand.value)
        if isinstance(t, IntegerType):
            width = t.width.data
            if bits >> (width - 1) and t.signedness.data is not Signedness.UNSIGNED:
                bits -= 1 << width
            return IntegerAttr(bits, t)
        if not isinstance(t, AnyFloat):
            raise self.index.error(f"a constant must have the type of a number, not {t}")
        packed = bits.to_bytes(t.compile_time_size, "little")
        value = next(t.iter_unpack(packed))
        # A Python float may lose a NaN's payload, so such a constant becomes a raw operation.
        return FloatAttr(value, t) if t.pack((value,)) == packed else None

    def _composite(self, words: Sequence[int]) -> Attribute | None:
        t = self.types.type(self.index.word(words, 1))
        parts = words[3:]
        if any(
            self.index.definitions.get(p, 1 << 60) >= self.index.definitions[words[2]]
            for p in parts
        ):
            raise self.index.error(
                "a constituent of the constant is not defined before the constant"
            )
        if isinstance(t, VectorType):
            return self._vector(cast("VectorType", t), parts)
        if isinstance(t, spv.ArrayType) and spv.known_size(t.length) != len(parts):
            return None
        types = spv.constituent_types(t)
        values = [self.value(p) for p in parts]
        if isinstance(t, spv.TensorArmType):
            return tensor_of(t, values)
        if types is None or len(types) != len(values) or any(v is None for v in values):
            return None
        if isinstance(t, spv.CooperativeMatrixType):
            return values[0] if isinstance(values[0], IntegerAttr | FloatAttr) else None
        return ArrayAttr([v for v in values if v is not None])

    def _vector(self, t: VectorType, parts: Sequence[int]) -> Attribute | None:
        element = t.get_element_type()
        if t.get_shape() != (len(parts),) or not isinstance(element, IntegerType | AnyFloat):
            return None
        data = pack_numbers([self.value(part) for part in parts], element)
        return None if data is None else dense_of(t, data)
