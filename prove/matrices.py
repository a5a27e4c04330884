"""Executes accesses to cooperative matrices in memory, which the whole subgroup makes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv.attributes import CooperativeMatrixLayoutAttr, ScopeAttr
from xdsl_spirv.dialects.spirv.cooperative_matrix import (
    CooperativeMatrixStoreOp,
    MatrixMemoryOperation,
)
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.dialects.spirv.layout import size_in_bytes
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.prove.executing import Place
from xdsl_spirv.prove.loops import ONE, LoopExecutor
from xdsl_spirv.prove.meaning import resize
from xdsl_spirv.prove.values import Scalar, Term, Unsupported, Value, z3


class MatrixExecutor(LoopExecutor):
    """An executor that records accesses to cooperative matrices. Subclasses implement `access`."""

    def access(
        self, place: Place, op: Operation, write: bool, matrix: Attribute | None = None,
        free: tuple[Term, ...] = (),
    ) -> None:  # fmt: skip
        """
        Records that the instruction `op` reads `place`, or stores to it if `write` is set.

        `matrix` is the type of a cooperative matrix that a subgroup accesses as a whole. `place`
        is then any one of its elements: `free` are the symbols of the element's row and column.
        """
        raise NotImplementedError

    def check_path(self, place: Place, op: Operation) -> None:
        """Records that each index on the path to a part must be in bounds."""
        raise NotImplementedError

    def access_matrix(self, place: Value, op: Operation, operands: Sequence[Value]) -> None:
        """Records an access to the element at any row and column of a cooperative matrix."""
        store = isinstance(op, CooperativeMatrixStoreOp)
        type = (op.operands[1] if store else op.results[0]).type
        assert isinstance(op, MatrixMemoryOperation)
        layout = op.matrix_layout
        if (
            not isinstance(place, Place)
            or not isinstance(type, CooperativeMatrixType)
            or not place.path
            or not isinstance(layout, CooperativeMatrixLayoutAttr)
            or not isinstance(type.scope, ScopeAttr)
            or type.scope.data is not Scope.Subgroup
            or op.stride is None
        ):
            raise Unsupported("a cooperative matrix of this layout or scope is not supported", op)
        # The stride counts array elements, which may be vectors of several components.
        lines, width = self.length(type.rows), self.length(type.columns)
        if "Row" not in layout.data.name:
            lines, width = width, lines
        held, size = size_in_bytes(place.type), size_in_bytes(type.element_type)
        if held % size:
            raise Unsupported(
                "a cooperative matrix whose components are wider than memory's elements is not "
                "supported",
                op,
            )
        whole, width = width * size % held == 0, -(-width * size // held)
        line, item = (self.symbol(f"{n}!{next(self.numbers)}", i32, ONE) for n in ("line", "item"))
        self.facts += [z3.ULT(line, lines), z3.ULT(item, width)]
        stride = dict(zip(op.operands, operands, strict=True))[op.stride].term

        def place_at(size: int) -> Place:
            terms = (resize(t, size, False) for t in (line, stride, item))
            element = resize(place.path[-1].term, size, True) + next(terms) * next(terms)
            return replace(place, path=(*place.path[:-1], Scalar(element + next(terms))))

        # Bounds are checked in 64 bits. No 32-bit index within the bounds overflows.
        self.check_path(place_at(64), op)
        self.access(place_at(32), op, store, type, (line, item) if whole else ())
        if store:
            self.keep_store(place, None)
