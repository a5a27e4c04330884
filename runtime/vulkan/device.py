"""
Opens devices and loads work on them. This is the entry point of the Vulkan runtime.

    with open_device("vulkan:0") as device:
        work = device.load(...)           # once: pipelines, buffers, weights
        work.run({"A": ...})              # as often as wanted

The loaded work determines the enabled features. A VkDevice is created with the features that the
kernels declare, and another VkDevice when later work needs more.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.given import VARIABLE
from xdsl_spirv.runtime.needs import Feature, Needs
from xdsl_spirv.runtime.requires import Launch, Requires, requirements, requires_of
from xdsl_spirv.runtime.vulkan import physical
from xdsl_spirv.runtime.vulkan.errors import MisfitError, NoVulkanError, VulkanError
from xdsl_spirv.runtime.vulkan.features import Enabling
from xdsl_spirv.runtime.vulkan.fit import lacks
from xdsl_spirv.runtime.vulkan.instance import Instance
from xdsl_spirv.runtime.vulkan.loaded import LoadedWork
from xdsl_spirv.runtime.vulkan.logical import LogicalDevice
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo, PhysicalDevice
from xdsl_spirv.runtime.vulkan.pipelines import Pipelines
from xdsl_spirv.runtime.vulkan.programs import Executor
from xdsl_spirv.runtime.vulkan.resident import ResidentWork
from xdsl_spirv.runtime.vulkan.statistics import Code
from xdsl_spirv.runtime.vulkan.work import SHARED, GraphWork, Matrix, Step, Work
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.speech import did_you_mean

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.graphs import LoadedGraph

NAME = "vulkan"
TIMEOUT = 300.0
"""Default time limit of a submission, in seconds."""

WELCOME = (
    Feature("VkPhysicalDeviceVulkan12Features", "scalarBlockLayout"),
    Feature("VkPhysicalDeviceVulkan13Features", "subgroupSizeControl"),
    Feature("VkPhysicalDeviceVulkan13Features", "computeFullSubgroups"),
    Feature("VkPhysicalDeviceVulkan13Features", "maintenance4"),
)
"""
Features that are enabled if available: kernels use them without a declaration, and they do no harm.
"""
ROBUST = Feature("VkPhysicalDeviceFeatures", "robustBufferAccess")
"""Feature that keeps all accesses inside of the buffer's memory; reads out of bounds may give 0."""
ROBUST_VARIABLE = "XDSL_SPIRV_VULKAN_ROBUST"
"""Environment variable that enables `ROBUST`, for untrusted programs. Kernels may run slower."""
STATISTICS = Feature(
    "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR", "pipelineExecutableInfo"
)

FLEXIBLE = Feature(
    "VkPhysicalDeviceCooperativeMatrix2FeaturesNV", "cooperativeMatrixFlexibleDimensions"
)


def parse_name(name: str) -> int | None:
    """Returns 2 for the device name `vulkan:2`, None for `vulkan`. Others raise `ProgramError`."""
    base, colon, number = name.partition(":")
    if base != NAME or (colon and not number.isdecimal()):
        remedy = "write vulkan or vulkan:N"
        remedy = remedy if base == NAME else did_you_mean(base, [NAME], remedy)
        raise ProgramError(f"{name!r} is not a Vulkan device", "", remedy)
    return int(number) if colon else None


def rank(info: DeviceInfo) -> tuple[int, int]:
    """Sort key of devices: discrete, integrated, emulated; then the loader's order."""
    return list(physical.KINDS.values()).index(info.kind), info.index


def choose(instance: Instance, number: int | None) -> PhysicalDevice:
    """Returns the loader's device `number`, or the best device if it is None."""
    devices = sorted(instance.devices, key=lambda device: rank(device.info))
    shown = ", ".join(f"vulkan:{d.info.index} {d.info.name}" for d in instance.devices)
    if not devices:
        raise NoVulkanError(
            "the Vulkan loader offers no device",
            instance.loader.path,
            "run `xdsl-spirv doctor`",
        )
    if number is None:
        return devices[0]
    for device in devices:
        if device.info.index == number:
            return device
    raise VulkanError(
        f"there is no device {NAME}:{number}", f"devices: {shown}", "name one of them"
    )


class VulkanDevice(Executor[LoadedWork]):
    """
    An open device, created by `open_device`. A context manager.

    `info` describes the device, `live` counts its Vulkan objects, and `messages` holds the
    messages of the validation layer.
    """

    def __init__(self, instance: Instance, chosen: PhysicalDevice, timeout: float = TIMEOUT):
        self.instance, self.physical = instance, chosen
        super().__init__(timeout)
        self.logical: list[LogicalDevice] = []
        self.loaded: list[LoadedWork] = []
        self.graph: LoadedGraph | None = None
        self.widens = False
        self.known_maps: dict[str, frozenset[Matrix]] = {}
        """Matrices whose component map on this device was verified, by name of the map."""

    @property
    def info(self) -> DeviceInfo:
        return self.physical.info

    @property
    def messages(self) -> list[str]:
        return self.instance.messages

    @property
    def live(self) -> dict[str, int]:
        """Number of objects of each kind that work created."""
        objects: Counter[str] = Counter()
        for device in self.logical:
            objects.update(device.live)
        return {kind: count for kind, count in objects.items() if count}

    @property
    def free_bytes(self) -> int:
        """Returns the free bytes of the largest heap, as the driver reports them."""
        return max(physical.free_memory(self.instance, self.physical), default=0)

    def lacks(self, work: Work) -> list[str]:
        """Returns descriptions of the work's requirements that this device lacks."""
        return self._lacks(work, needs_of(work))

    def _lacks(self, work: Work, needs: Mapping[str, Needs]) -> list[str]:
        return lacks(self.info, required_by(work, needs))

    def _other_maps(self, work: Work, needs: Mapping[str, Needs]) -> list[str]:
        """Describes the matrices whose component map differs from the one that the work assumes."""
        if work.component_map is None:
            return []
        from xdsl_spirv.runtime.vulkan.component_maps import matrices_of, other_maps

        def run(probe: Work) -> bytes:
            loaded = self.load(probe)
            try:
                return bytes(loaded.run({}, self.timeout)["held"])
            finally:
                self.unload(loaded)

        wanted = matrices_of(matrix for need in needs.values() for matrix in need.matrices)
        unknown = wanted - self.known_maps.get(work.component_map, frozenset())
        others = other_maps(work.component_map, unknown, run)
        if not others:
            known = self.known_maps.get(work.component_map, frozenset())
            self.known_maps[work.component_map] = known | unknown
        return others

    @stage("the driver compiles kernels, and weights are uploaded")
    def load(self, work: Work, statistics: bool = False) -> LoadedWork:
        """
        Creates the pipelines and buffers of some work, and uploads its weights. With `statistics`,
        the driver records statistics of the kernels' code.

        Raises `MisfitError` with everything that the device lacks, and `VulkanError` if memory is
        insufficient.
        """
        needs = needs_of(work)
        for step in work.steps:
            check_constants(step, needs[step.kernel])
        missing = self._lacks(work, needs) or self._other_maps(work, needs)
        if missing:
            made_for = f" (it is compiled for {work.target})" if work.target else ""
            raise MisfitError(
                f"{self.info.name} cannot run the program{made_for}: it lacks {'; '.join(missing)}",
                f"{NAME}:{self.info.index}",
                "compile it for this device (`xdsl-spirv devices --write-target FILE`), or run it "
                "with --device interpreter",
            )
        device = self._logical(self._enabling(needs.values(), statistics))
        # A new logical device shares the memory with work that is already loaded.
        free = physical.free_memory(self.instance, self.physical)
        size, whole = self._subgroups(work, needs, device)
        kind = ResidentWork if work.routines else LoadedWork
        loaded = kind(device, work, free, whole, size, statistics)
        self.loaded.append(loaded)
        try:
            for buffer in work.named(*(SHARED if work.routines else ("weight",))):
                loaded.write(buffer.name, work.weights[buffer.name], self.timeout)
        except BaseException:
            self.unload(loaded)
            raise
        return loaded

    @stage("the driver compiles a graph")
    def load_graph(self, graph: GraphWork) -> None:
        """Loads a graph in place of the previous one. Raises `MisfitError` and `VulkanError`."""
        from xdsl_spirv.runtime.vulkan.graphs import (
            LoadedGraph,
            enabling_of_graphs,
            refuse_old_validation,
        )

        self.close_graph()
        enabling = self._completed(enabling_of_graphs(self.info))
        refuse_old_validation(self.instance, self.physical)
        device = self._logical(enabling)
        self.graph = LoadedGraph(device, graph)

    def run_graph(self, inputs: Mapping[str, bytes]) -> dict[str, bytearray]:
        assert self.graph is not None
        return self.graph.run(inputs, self.timeout)

    def close_graph(self) -> None:
        if self.graph is not None:
            self.graph.close()
            self.graph = None

    def compile(self, one: Work) -> Code:
        """
        Compiles the kernel of the only step of `one`. The driver need not be able to run the
        kernel.

        Raises the errors of `load` for a kernel that the device does not support.
        """
        [step] = one.steps
        needs = needs_of(one)
        if missing := self._lacks(one, needs):
            raise MisfitError(
                f"{self.info.name} lacks {'; '.join(missing)}",
                step.entry_point,
                "compile it for this device, or use another device",
            )
        device = self._logical(self._enabling(needs.values(), True), runs=False)
        size, whole = self._subgroups(one, needs, device)
        pipelines = Pipelines(device, size, set(whole), statistics=True, texts=True)
        try:
            start = time.process_time()
            [pipeline] = pipelines.of([step], one.kernels)
            seconds = time.process_time() - start
            tables, texts = pipelines.executables(pipeline), pipelines.representations(pipeline)
        finally:
            pipelines.close()
        return Code(step.entry_point, seconds, tuple(tables), texts)

    def place(self, loaded: LoadedWork, sizes: Mapping[str, int]) -> None:
        """Enlarges buffers that are smaller than these sizes."""
        assert isinstance(loaded, ResidentWork)
        loaded.place(sizes, physical.free_memory(self.instance, self.physical))

    def unload(self, loaded: LoadedWork) -> None:
        """Frees everything that `load` created."""
        self.forget(loaded)
        loaded.close()
        if loaded in self.loaded:
            self.loaded.remove(loaded)

    def widen(self, capabilities: Iterable[str]) -> None:
        """
        Creates a logical device with the features for these capabilities, if available. Later
        devices include the features of earlier ones, so that few devices are needed.
        """
        self.widens = True
        self._logical(self._completed(self.info.offer.enable(requirements(capabilities, ()))))

    def _enabling(self, needs: Collection[Needs], statistics: bool) -> Enabling:
        required = requires_of(dict(enumerate(needs)), None)
        enabling = self.info.offer.enable(required.features)
        if statistics:
            self.info.offer.want(STATISTICS, enabling)
        listed = self.info.matrices
        if any(matrix not in listed for need in needs for matrix in need.matrices):
            self.info.offer.want(FLEXIBLE, enabling)
        return self._completed(enabling)

    def _completed(self, enabling: Enabling) -> Enabling:
        """
        Adds the features that are always enabled, and the features on which enabled ones depend.
        """
        robust = [ROBUST] if os.environ.get(ROBUST_VARIABLE, "0") not in ("", "0") else []
        for feature in (*WELCOME, *robust):
            self.info.offer.want(feature, enabling)
        for feature in list(enabling.features):
            # The scalar layout of Workgroup memory is a separate feature.
            if feature.member == "workgroupMemoryExplicitLayout":
                more = "workgroupMemoryExplicitLayoutScalarBlockLayout"
                self.info.offer.want(Feature(feature.structure, more), enabling)
        if "VK_KHR_portability_subset" in self.info.offer.extensions:
            enabling.extensions.add("VK_KHR_portability_subset")
        return enabling

    def _logical(self, enabling: Enabling, runs: bool = True) -> LogicalDevice:
        for device in self.logical:
            if device.usable and device.runs >= runs and device.covers(enabling):
                return device
        for device in self.logical if self.widens else ():
            enabling.features |= device.features
            enabling.extensions |= device.extensions
        logical = LogicalDevice(self.instance, self.physical, enabling, runs)
        self.logical.append(logical)
        return logical

    @staticmethod
    def _subgroups(
        work: Work, needs: Mapping[str, Needs], device: LogicalDevice
    ) -> tuple[int | None, list[tuple[str, str]]]:
        """Returns the subgroup size to request, and the kernels with full subgroups."""
        on = {feature.member for feature in device.features}
        size = work.subgroup_size if "subgroupSizeControl" in on else None
        if size is None or "computeFullSubgroups" not in on:
            return size, []
        return size, [
            (kernel, name)
            for kernel, need in needs.items()
            for name, entry in need.entry_points.items()
            if entry.workgroup_size is not None and entry.workgroup_size[0] % size == 0
        ]

    def close(self) -> None:
        """Frees all resources. Does nothing if called again."""
        for loaded in list(self.loaded):
            self.unload(loaded)
        self.close_graph()
        left = any(device.abandoned for device in self.logical)
        for device in self.logical:
            device.close()
            left = left or device.abandoned
        self.logical.clear()
        if not left:
            self.instance.close()


def needs_of(work: Work) -> dict[str, Needs]:
    """Returns the needs of each kernel. Raises `ProgramError` for bytes that are not a module."""
    needs: dict[str, Needs] = {}
    for name, code in work.kernels.items():
        try:
            needs[name] = Needs.of(code)
        except (SPIRVDecodeError, LookupError, ValueError, RecursionError) as error:
            raise ProgramError(
                f"the kernel cannot be read: {error}",
                name,
                "run `xdsl-spirv validate` on the kernel",
            ) from error
    return needs


def required_by(work: Work, needs: Mapping[str, Needs]) -> Requires:
    """Returns the requirements of some work on a device, without buffer sizes."""
    launches = [
        Launch(step.entry_point, step.grid, len(step.push), len(step.bindings))
        for step in work.steps
    ]
    return requires_of(needs, work.subgroup_size, launches)


def check_constants(step: Step, needs: Needs) -> None:
    """
    Raises `MisfitError` for a constant of a wrong size, which a driver would read beyond its end.
    """
    for id, value in step.constants:
        size = needs.constants.get(id, len(value))
        if size != len(value):
            raise MisfitError(
                f"the specialization constant {id} has {size} bytes, but is given {len(value)}",
                f"kernel {step.kernel}.{step.entry_point}",
                "give the constant a value of its type",
            )


def open_device(
    name: str | None = None,
    *,
    timeout: float = TIMEOUT,
    validation: bool | None = None,
    graphs: bool = False,
) -> VulkanDevice:
    """
    Opens `vulkan:N`. For `vulkan`, opens the device that XDSL_SPIRV_DEVICE names, or the best one.

    `timeout` limits each submission, in seconds. `validation` enables the validation layer (None:
    if XDSL_SPIRV_VULKAN_VALIDATION is 1). With `graphs`, a device that cannot execute graphs uses
    Arm's emulation layers, if they are installed. Raises `NoVulkanError` if there is no loader,
    driver or device.
    """
    number = parse_name(name or os.environ.get(VARIABLE) or NAME)
    instance = Instance(validation)
    try:
        chosen = choose(instance, number)
        if graphs:
            from xdsl_spirv.runtime.vulkan.graphs import LAYERS, emulation, executes_graphs

            if not executes_graphs(chosen.info):
                instance.close()
                with emulation():
                    instance = Instance(validation, LAYERS)
                chosen = choose(instance, number)
        return VulkanDevice(instance, chosen, timeout)
    except BaseException:
        instance.close()
        raise
