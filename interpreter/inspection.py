"""
Shows the variables, buffers and values of a stopped launch as trees of views.

A view is a memory location with its type: a pointer into memory that has bytes, or a variable with
a path (variables.py). The parts of a view are views, too. Reading a view returns the value in
every invocation of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, VectorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.interpreter.checks.places import name_of
from xdsl_spirv.interpreter.checks.shadow import shadow_form
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.layout import Layout, Placed, loader, plain_type
from xdsl_spirv.interpreter.memory import Pointer, Pointers, load
from xdsl_spirv.interpreter.numbers import Array, scalar_dtype, unsigned
from xdsl_spirv.interpreter.source.locals import locals_at
from xdsl_spirv.interpreter.source.names import COMPONENTS, UNNAMED, Names
from xdsl_spirv.interpreter.source.source_map import map_of
from xdsl_spirv.interpreter.stepper import Frame, Moment
from xdsl_spirv.interpreter.variables import Variable, VariablePointer, read_part

MATRICES = (spv.CooperativeMatrixType, spv.CooperativeMatrixNVType)
U8 = np.dtype(np.uint8)


@dataclass(frozen=True)
class View:
    """Memory location or value with a name, and the context and the batch in which it is read."""

    name: str
    pointer: Any
    type: Placed
    context: Context
    moment: Moment

    @property
    def plain(self) -> Any:
        """The type of the value, without the matrix stride of the location."""
        return plain_type(self.type)

    @property
    def is_number(self) -> bool:
        """True for a scalar or a vector."""
        type = self.plain
        if isinstance(type, VectorType):
            type = type.element_type
        return scalar_dtype(type) is not None

    @property
    def _names(self) -> Names | None:
        source = map_of(self.context.module)
        return None if source is None else source.names

    def count(self) -> int:
        """Number of parts. A scalar and a pointer have 0 parts."""
        match self.plain:
            case spv.StructType() as struct:
                return len(struct.member_types)
            case spv.RuntimeArrayType():
                return self._room() // max(self._layout.stride(self.type), 1)
            case spv.ArrayType() | spv.MatrixType() | VectorType():
                return self._layout.count(self.plain)
            case spv.CooperativeVectorType() as vector:
                return self.context.size(vector.length)
            case _:
                return 0

    @property
    def _layout(self) -> Layout:
        return Layout(self.context)

    def _room(self) -> int:
        """Number of bytes from the location to the end of its memory."""
        pointer = self.pointer
        if not isinstance(pointer, Pointer):
            return 0
        address = pointer.index * pointer.scale + pointer.base
        return max(pointer.memory.size - int(address.min()), 0)

    def parts(self, start: int = 0, count: int | None = None) -> list[View]:
        """Returns `count` parts from index `start` on, or all remaining parts."""
        last = self.count()
        end = last if count is None else min(start + count, last)
        return [self.part(number) for number in range(start, end)]

    def part(self, index: int | Array) -> View:
        """
        Returns the member or element with this index. The index may differ between invocations.
        """
        type = self.plain
        if isinstance(type, spv.StructType):
            assert isinstance(index, int)
            named = {} if self._names is None else self._names.members_of(type)
            name, inner = named.get(index, f"member{index}"), self._layout.member(type, index)
        elif isinstance(type, spv.CooperativeVectorType):
            name, inner = f"[{index}]", type.element_type
        else:
            short = isinstance(type, VectorType) and isinstance(index, int) and index < 4
            name = COMPONENTS[index] if short else f"[{index if isinstance(index, int) else '...'}]"
            inner = self._layout.element(self.type)
        return replace(self, name=name, type=inner, pointer=self._step(index))

    def _step(self, index: int | Array) -> Any:
        pointer = self.pointer
        if isinstance(pointer, VariablePointer):
            return VariablePointer(pointer.variable, (*pointer.path, index))
        if isinstance(self.plain, spv.StructType):
            return pointer.plus_bytes(self._layout.offset(self.plain, index))
        return pointer.plus(np.reshape(index, np.shape(index) or (1, 1, 1)),
                            self._layout.stride(self.type), 0)  # fmt: skip

    def member(self, name: str) -> View | None:
        """Returns the named struct member or vector component, or None."""
        if isinstance(self.plain, VectorType) and len(name) == 1:
            for letters in ("xyzw", "rgba", "stpq"):
                number = letters.find(name)
                if 0 <= number < self.count():
                    return self.part(number)
        if isinstance(self.plain, spv.StructType):
            return next((part for part in self.parts() if part.name == name), None)
        return None

    def read(self, mask: Any = None) -> Any:
        """
        Returns the value as an array (workgroup, subgroup, lane, ...). An axis along which the
        value is uniform has length 1.

        Only the invocations of `mask` need a valid location. Raises `InterpreterError` for a
        location outside of its memory.
        """
        pointer = self.pointer
        if isinstance(pointer, VariablePointer):
            mapping = self.context.options.component_mapping
            form, value = pointer.variable.form, pointer.variable.value
            value = read_part(form, mapping, self.moment.batch, value, pointer.path)
        else:
            value = loader(self.type, self._layout)(pointer, mask)
        return unsigned(value) if self.is_unsigned() else value

    def is_unsigned(self) -> bool:
        """
        True if the value is an unsigned integer. In compiled modules, also for signless integers.
        """
        type = self.plain.element_type if isinstance(self.plain, VectorType) else self.plain
        if not isinstance(type, IntegerType) or type.width.data == 1:
            return False
        sign = type.signedness.data
        return sign is Signedness.UNSIGNED or (
            sign is Signedness.SIGNLESS and self._names is not None and self._names.compiled
        )

    def find_undefined(self, mask: Any = None) -> Any:
        """Returns a mask that is True where the checks know the value to be undefined."""
        pointer = self.pointer
        if isinstance(pointer, VariablePointer):
            variable = pointer.variable
            if variable.shadow is None:
                return np.zeros((1, 1, 1), np.bool_)
            form, mapping = shadow_form(variable.form), self.context.options.component_mapping
            shadow = read_part(form, mapping, self.moment.batch, variable.shadow, pointer.path)
        elif isinstance(pointer, Pointer) and pointer.memory.shadow is not None:
            bytes = pointer.memory.shadow.undefined
            place = Pointer(bytes, pointer.index, pointer.scale, pointer.base)
            shadow = 0 if bytes is None else load(place, Plain(U8), mask)
        else:
            checks = self.context.options.checks
            knows = isinstance(pointer, Pointer) and checks is not None and checks.undefined
            fresh = knows and pointer.memory.defined < pointer.memory.size
            shadow = (
                pointer.index * pointer.scale + pointer.base >= pointer.memory.defined
                if fresh
                else 0
            )
        shadow = np.asarray(shadow) != 0
        return shadow if shadow.ndim else shadow.reshape(1, 1, 1)

    def target(self) -> View | None:
        """Returns the view of the memory that a pointer refers to, or None."""
        if not isinstance(self.plain, spv.PointerType):
            return None
        pointer = self.read()
        if not isinstance(pointer, Pointer | Pointers | VariablePointer):
            return None
        return replace(self, name=f"*{self.name}", pointer=pointer, type=self.plain.pointee)


class Scene:
    """The visible values of one function that is being executed, as views."""

    def __init__(self, moment: Moment, frame: Frame):
        self.moment, self.frame = moment, frame
        self.context = frame.compiler.context

    def _find_value(self, value: SSAValue, name: str) -> View | None:
        slot = self.frame.compiler.slot_if_any(value)
        if slot is None or self.frame.env[slot] is None:
            return None
        try:
            variable = Variable(self.context.form(value.type), self.frame.env[slot])
        except InterpreterError:
            return None
        variable.shadow = self._shadow(slot)
        return View(name, VariablePointer(variable), value.type, self.context, self.moment)

    def _shadow(self, slot: int) -> Any:
        checked = self.context.compiler is not None and self.context.checker is not None
        return self.frame.env[slot + 1] if checked else None

    def locals(self) -> Iterator[View]:
        """Yields the source variables and the parameters of the function."""
        values = [(local.value, local.name) for local in locals_at(self.frame.op)]
        around: Operation | None = self.frame.op
        while around is not None and not isinstance(around, FuncOp):
            around = around.parent_op()
        if around is not None and around.body.blocks:
            known = {value for value, _ in values}
            arguments: Sequence[BlockArgument] = around.body.blocks[0].args
            values += [(a, a.name_hint) for a in arguments if a.name_hint and a not in known]
        for value, name in values:
            view = self._find_value(value, name)
            if view is not None:
                target = view.target()
                yield view if target is None else replace(target, name=name)

    def values(self) -> Iterator[View]:
        """Yields the results of earlier instructions, the last one first."""
        around: Operation | None = self.frame.op
        while around is not None and not isinstance(around, FuncOp):
            before = around.prev_op
            while before is not None:
                for result in before.results:
                    if before.name != "spirv.mlir.addressof":
                        view = self._find_value(result, name_of(result))
                        if view is not None:
                            yield view
                before = before.prev_op
            around = around.parent_op()

    def variables(self, built_in: bool) -> Iterator[View]:
        """
        Yields the module's built-in variables, or all its other variables. Instead of a block
        without a name, yields the members of the block, as in the source.
        """
        source = map_of(self.context.module)
        for symbol, slot in self.context.global_slots.items():
            op = self.context.symbols[symbol]
            pointee = getattr(op, "object_type", None)
            if not isinstance(op, spv.ModuleVariable) or pointee is None:
                continue
            if (op.storage_class == spv.StorageClass.Input) != built_in:
                continue
            pointer = self.moment.batch.globals[slot]
            if not isinstance(pointer, Pointer | VariablePointer):
                continue
            name = symbol if source is None else source.names.variable(symbol)
            view = View(name, pointer, pointee, self.context, self.moment)
            yield from view.parts() if UNNAMED.fullmatch(symbol) else [view]

    def find(self, name: str) -> View | None:
        """
        Returns the view with this name: the innermost source variable, or the result `%name` or
        `#position`. Returns None if there is none.
        """
        if name.startswith(("%", "#")):
            return next((view for view in self.values() if view.name == name), None)
        for views in (self.locals(), self.variables(False), self.variables(True)):
            for view in views:
                if view.name == name:
                    return view
        return None
