"""Each invocation's components of a fragment are the elements that the target file specifies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import SSAValue

from xdsl_spirv import targets
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import Accumulator, components_of
from xdsl_spirv.passes.kernel.matrices import FragmentComponents
from xdsl_spirv.passes.kernel.matrix_values import load_matrix, matrix_type

if TYPE_CHECKING:
    from tests.passes.conftest import WriteCode

TARGETS = {"lavapipe": (8, 8), "nvidia-h200": (16, 16)}


@pytest.mark.parametrize("target", TARGETS)
def test_components_have_the_elements_of_the_target_file(target: str, write_code: WriteCode):
    shape = TARGETS[target]
    device = targets.load(target)
    fragment = device.fragment("Acc", shape, 32)
    assert fragment is not None
    type = matrix_type("Acc", *shape, f32)

    def write(b: KernelEmitter, source: SSAValue, moved: SSAValue) -> list[SSAValue]:
        components = FragmentComponents(b, fragment, b.lane_id())
        value = load_matrix(b, type, source, (0, 0), shape[1])

        def body(row: Index, column: Index, elements: Accumulator) -> None:
            assert isinstance(elements, SSAValue)
            for number, element in enumerate(components_of(b, elements)):
                b.store(element, moved, (row, b.plus(column, number)))

        components.for_each((2, 1), value, 1, body)
        return []

    rows, columns = shape
    larger = MemRefType(f32, [rows + 2, columns + 1])
    types = MemRefType(f32, shape), larger
    code = write_code(types, write, invocations=device.subgroup_size)
    source = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    moved = np.zeros((rows + 2, columns + 1), np.float32)
    code.run(source, moved, target=target)
    assert np.array_equal(moved[2:, 1:], source), "behind the corner (2, 1)"
    assert not moved[:2].any()
