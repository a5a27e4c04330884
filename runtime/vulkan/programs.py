"""
Runs compiled programs on a device: converts program.json's records to work, and arrays to bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from xdsl_spirv.runtime.closing import Closing
from xdsl_spirv.runtime.phases import Phase
from xdsl_spirv.runtime.vulkan.errors import OutOfMemoryError
from xdsl_spirv.runtime.vulkan.loaded import Bytes, Time
from xdsl_spirv.runtime.vulkan.work import GraphWork, Step, Work, WorkBuffer

if TYPE_CHECKING:
    from xdsl_spirv.runtime.elements import Array
    from xdsl_spirv.runtime.manifest import Dispatch, Kernel
    from xdsl_spirv.runtime.program import Program

KEPT = 4
"""Maximum number of programs that stay loaded on a device."""


def work_of(program: Program) -> Work:
    """Converts a program to work: every kernel's bytes, the steps, and the weights' bytes."""
    import numpy as np

    from xdsl_spirv.runtime.given import push_constant_bytes

    manifest = program.manifest
    kernels = {kernel.name: kernel for kernel in manifest.kernels}
    return Work(
        buffers=tuple(
            WorkBuffer(b.name, b.bytes, b.kind) for b in manifest.buffers if b.kind != "scalar"
        ),
        kernels={name: program.code[name].binary for name in kernels},
        steps=tuple(
            Step(
                kernel=dispatch.kernel,
                entry_point=dispatch.entry_point,
                grid=dispatch.workgroups,
                bindings=tuple((b.set, b.binding, b.buffer) for b in dispatch.bindings),
                constants=constants_of(dispatch, kernels[dispatch.kernel]),
                push=push_constant_bytes(dispatch),
                once=dispatch.once,
            )
            for dispatch in manifest.dispatches
        ),
        subgroup_size=manifest.subgroup_size,
        target=manifest.target,
        component_map=manifest.component_map,
        weights={name: bytes_of(np.asarray(array)) for name, array in program.weights.items()},
    )


def constants_of(dispatch: Dispatch, kernel: Kernel) -> tuple[tuple[int, bytes], ...]:
    """Returns the bytes of a dispatch's specialization constants. A boolean is a VkBool32."""
    from xdsl_spirv.runtime.elements import scalar_bytes

    types = {constant.id: constant.type for constant in kernel.spec_constants}
    constants: list[tuple[int, bytes]] = []
    for constant in dispatch.spec_constants:
        type = types.get(constant.id, "i32")
        place = f"specialization constant {constant.id}"
        known = "ui32" if type == "i1" else type
        constants.append((constant.id, scalar_bytes(constant.value, known, place)))
    return tuple(constants)


def bytes_of(array: Array) -> bytes:
    return array.tobytes()


def arrays_of(program: Program, outputs: Mapping[str, bytearray]) -> dict[str, Array]:
    """Converts the outputs to arrays of their type and shape, in the source function's order."""
    import numpy as np

    from xdsl_spirv.runtime.elements import dtype_of

    return {
        b.name: np.frombuffer(outputs[b.name], dtype_of(b.type)).reshape(b.sizes)
        for b in program.manifest.outputs
    }


class Loaded(Protocol):
    """Work that is loaded on a device."""

    def run(self, inputs: Mapping[str, Bytes], timeout: float) -> dict[str, bytearray]: ...

    def read(self, name: str, timeout: float) -> bytearray: ...

    def time(self, count: int, timeout: float, warm_up: float = 0.0) -> list[Time]: ...

    def time_runs(
        self, runs: int, count: int, timeout: float, warm_up: float = 0.0
    ) -> list[float]: ...

    def phases(self, inputs: Mapping[str, Bytes], count: int, timeout: float) -> list[Phase]: ...


L = TypeVar("L", bound=Loaded)


class Executor(Closing, ABC, Generic[L]):
    """
    Runs programs and keeps the latest `KEPT` programs loaded, so that later calls are fast.

    A program is recognized by the object ids of the program and of its weights. If the contents of
    weights change in place, call `drop`.
    """

    def __init__(self, timeout: float):
        self.timeout = timeout
        self._ready: OrderedDict[int, tuple[Program, L]] = OrderedDict()
        self._graph: GraphWork | None = None
        self._weights: dict[int, list[int]] = {}
        """Object ids of the weights of loaded programs."""

    @abstractmethod
    def load(self, work: Work, statistics: bool = False) -> L:
        """Loads work on the device."""

    @abstractmethod
    def unload(self, loaded: L) -> None:
        """Frees everything that `load` created."""

    @abstractmethod
    def load_graph(self, graph: GraphWork) -> None:
        """Loads a graph in place of the previous one."""

    @abstractmethod
    def run_graph(self, inputs: Mapping[str, bytes]) -> dict[str, bytearray]:
        """Runs the loaded graph. Returns the bytes of the outputs."""

    def execute_graph(self, graph: GraphWork, inputs: Mapping[str, bytes]) -> dict[str, bytearray]:
        """Runs a graph, which stays loaded. Raises `MisfitError` if the device cannot run it."""
        if self._graph is not graph:
            self._graph = None
            self.load_graph(graph)
            self._graph = graph
        return self.run_graph(inputs)

    def ready(self, program: Program) -> L:
        """Returns the loaded program. Unloads the least recently used program if necessary."""
        weights = [id(array) for array in program.weights.values()]
        if self._weights.get(id(program), weights) != weights:
            self.drop(program)
        entry = self._ready.pop(id(program), None)
        if entry is None:
            while len(self._ready) >= KEPT:
                self.drop(next(iter(self._ready.values()))[0])
            entry = (program, self._load(program))
        self._ready[id(program)] = entry
        self._weights[id(program)] = weights
        return entry[1]

    def _load(self, program: Program) -> L:
        work = work_of(program)
        try:
            return self.load(work)
        except OutOfMemoryError:
            if not self._ready:
                raise
        for kept, _ in list(self._ready.values()):
            self.drop(kept)
        return self.load(work)

    def drop(self, program: Program) -> None:
        """Frees all device resources of a program."""
        for version in (program, *program.at_sizes):
            entry = self._ready.pop(id(version), None)
            self._weights.pop(id(version), None)
            if entry is not None:
                self.unload(entry[1])

    def forget(self, loaded: L) -> None:
        """Removes the record of a program whose work another object frees."""
        for key, (_, kept) in list(self._ready.items()):
            if kept is loaded:
                del self._ready[key]

    def execute(self, program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        Runs a program. Returns its results by name.

        Raises `ProgramError` for inputs that do not fit, `MisfitError` for a program that this
        device cannot run, `DeviceTimeoutError` and `DeviceLostError`.
        """
        program = program.function().at(inputs)
        given, loaded = self._given(program, inputs)
        outputs = loaded.run(given, self.timeout)
        for buffer in program.manifest.outputs:
            if buffer.kind == "state":
                outputs[buffer.name] = loaded.read(buffer.name, self.timeout)
        return arrays_of(program, outputs)

    def _given(self, program: Program, inputs: Mapping[str, Array]) -> tuple[dict[str, bytes], L]:
        """Returns the bytes of inputs and states before a run, and the loaded program."""
        from xdsl_spirv.runtime.given import bind_inputs

        values = bind_inputs(program, inputs)
        loaded = self.ready(program)
        values |= program.first_values()
        buffers = [b.name for b in program.manifest.buffers if b.kind in ("input", "state")]
        return {name: bytes_of(values[name]) for name in buffers}, loaded

    def phases(self, program: Program, inputs: Mapping[str, Array], count: int) -> list[Phase]:
        """Returns the host and device phases of the run of median length among `count` runs."""
        given, loaded = self._given(program.function().at(inputs), inputs)
        return loaded.phases(given, count, self.timeout)

    def times(self, program: Program, count: int, warm_up: float = 0.0) -> list[Time]:
        """
        Returns the times of each dispatch by the device's clock, in `count` runs. Before, the
        program runs for `warm_up` seconds.
        """
        return self.ready(program).time(count, self.timeout, warm_up)

    def times_of_runs(
        self, program: Program, runs: int, count: int, warm_up: float = 0.0
    ) -> list[float]:
        """
        Measures `runs` consecutive runs on the device, `count` times. Returns nanoseconds.

        Before, the program runs for `warm_up` seconds.
        """
        return self.ready(program).time_runs(runs, count, self.timeout, warm_up)
