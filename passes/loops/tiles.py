"""
Transposes tiles in Workgroup memory, for elements that are read and stored along different loops.

    for each tile of the two loops: compute, invocations along the first     -> Workgroup memory
                                    barrier
                                    store, invocations along the second      <- Workgroup memory

Both the reads and the stores are then contiguous. A row of the tile has one unused element, so
that elements of a column lie in different banks.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.schedule import LoopsAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.loops_access import crossing, tile_grid
from xdsl_spirv.passes.analysis.loops_arrays import NotLoops
from xdsl_spirv.passes.analysis.loops_nests import Nest
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.loops.code import LoopsCode


class Tiles:
    """Emits the code that computes a loop nest tile by tile. `count` is the number of tiles."""

    def __init__(self, code: LoopsCode, schedule: LoopsAttr, nest: Nest, op: Operation):
        self.code, self.b, self.nest = code, code.b, nest
        self.size, self.workgroup = schedule.tile.data, schedule.workgroup.data
        axes = crossing(nest, self.size)
        if axes is None:
            raise NotLoops(
                op,
                f"tile = {self.size} needs operands that are all contiguous along one loop, and "
                "results along another: remove tile from the schedule",
            )
        self.first, self.last = axes
        along = (*self.first, self.last)
        self.others = [axis for axis in range(len(nest.shape)) if axis not in along]
        self.grid = tile_grid(nest, axes, self.size)
        self.memory = [
            self.b.allocate(array.element, [self.size * (self.size + 1)], "tile")
            for array, _ in nest.results
        ]

    @property
    def count(self) -> Size:
        return prod(self.grid)

    def write(self, tile: Index) -> None:
        """Writes the code with which a workgroup computes and stores a tile."""
        b = self.b
        indices = b.delinearized(tile, self.grid)
        thread: Index = 0 if self.workgroup == 1 else b.thread_id(self.workgroup)
        fast, slow = b.remainder(thread, self.size), b.divided(thread, self.size)
        steps = range(0, self.size, self.workgroup // self.size)
        b.barrier()
        values: list[list[SSAValue]] = []
        for step in steps:
            point, _ = self._point(indices, fast, b.plus(slow, step))
            values.append([self.code.element(array, point) for array, _ in self.nest.results])
        for step, computed in zip(steps, values, strict=True):
            place = b.plus(b.times(b.plus(slow, step), self.size + 1), fast)
            for memory, value in zip(self.memory, computed, strict=True):
                b.store(value, memory, [place])
        b.barrier()
        for step in steps:
            point, inside = self._point(indices, b.plus(slow, step), fast)
            place = b.plus(b.times(fast, self.size + 1), b.plus(slow, step))
            elements = [b.load(memory, [place]) for memory in self.memory]
            b.when(inside, lambda p=point, v=elements: self.code.store(self.nest, p, v))

    def _point(
        self, indices: tuple[Index, ...], first: Index, last: Index
    ) -> tuple[tuple[Index, ...], Condition]:
        """
        Returns the point of a tile's element, and the condition that the element exists.

        A missing element gets the point of an existing element.
        """
        b, shape = self.b, self.nest.shape
        inside: Condition = True
        point: list[Index] = [0] * len(shape)
        for axis, index in zip(self.others, indices, strict=False):
            point[axis] = index
        places = zip((self.first, (self.last,)), indices[-2:], (first, last), strict=True)
        for axes, block, place in places:
            sizes = [shape[axis] for axis in axes]
            index = b.plus(b.times(block, self.size), place)
            below = b.below(index, prod(sizes))
            inside = b.both(inside, below)
            if isinstance(below, SSAValue):
                index = b.select(below, index, 0)
            index = b.assume(index, prod(sizes))
            for axis, index in zip(axes, b.delinearized(index, sizes), strict=True):
                point[axis] = index
        return tuple(point), inside
