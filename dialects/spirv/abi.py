"""
Attributes for a module's requirements, a target's features, and an entry point's launch.

The attributes and their spelling are MLIR's. The version, capability and extension triple becomes
the header and first instructions of a binary. The other attributes are for passes. As in MLIR,
parameters with default values are not printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import TYPE, KeyedAttr, Spelling, integer, key, keyed_attr_definition
from xdsl_spirv.dialects.spirv.attributes import (
    CapabilityAttr,
    EnumerationAttr,
    LinkageTypeAttr,
    LoadCacheControlAttr,
    ScopeAttr,
    StorageClassAttr,
    StoreCacheControlAttr,
    name_of,
)
from xdsl_spirv.dialects.spirv.enums import Capability, Scope, StorageClass

VENDORS = (
    "AMD",
    "Apple",
    "ARM",
    "Broadcom",
    "Imagination",
    "Intel",
    "NVIDIA",
    "Qualcomm",
    "SwiftShader",
    "Unknown",
)
DEVICE_TYPES = ("Other", "IntegratedGPU", "DiscreteGPU", "CPU", "Unknown")
CLIENT_APIS = ("Metal", "OpenCL", "Vulkan", "WebGPU", "Unknown")


@irdl_attr_definition
class VersionAttr(Data[tuple[int, int]]):
    """A version of SPIR-V (major, minor), written `#spirv.version<v1.6>`."""

    name = "spirv.version"

    @classmethod
    def parse_version(cls, parser: AttrParser) -> tuple[int, int]:
        """Parses `v1.6`, which is one token of the lexer."""
        start = parser.pos
        text = parser.parse_identifier(context_msg=": a version such as v1.6")
        major, dot, minor = text.removeprefix("v").partition(".")
        if not (text.startswith("v") and dot and major.isdecimal() and minor.isdecimal()):
            parser.raise_error(f"{text!r} is not a version such as v1.6", start, parser.pos)
        return int(major), int(minor)

    @property
    def text(self) -> str:
        """The version as text, such as `v1.6`."""
        return f"v{self.data[0]}.{self.data[1]}"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, int]:
        with parser.in_angle_brackets():
            return cls.parse_version(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text}>")


@irdl_attr_definition
class ExtensionAttr(Data[str]):
    """The name of an extension, such as SPV_KHR_cooperative_matrix."""

    name = "spirv.ext"

    @classmethod
    def parse_extension(cls, parser: AttrParser) -> str:
        """Parses an extension's name, such as `SPV_KHR_cooperative_matrix`."""
        start = parser.pos
        text = parser.parse_identifier(context_msg=": an extension's name")
        if not text.startswith("SPV_"):
            parser.raise_error(
                f"{text!r} is not an extension's name, which must begin with SPV_",
                start,
                parser.pos,
            )
        return text

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return cls.parse_extension(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class VerCapExtAttr(ParametrizedAttribute):
    """Version, capabilities and extensions: `#spirv.vce<v1.6, [Shader], [SPV_KHR_bfloat16]>`."""

    name = "spirv.vce"
    version: VersionAttr
    capabilities: ArrayAttr[CapabilityAttr]
    extensions: ArrayAttr[ExtensionAttr]

    def __init__(
        self,
        version: tuple[int, int],
        capabilities: Sequence[Capability] = (),
        extensions: Sequence[str] = (),
    ):
        super().__init__(
            VersionAttr(version),
            ArrayAttr([CapabilityAttr(c) for c in capabilities]),
            ArrayAttr([ExtensionAttr(e) for e in extensions]),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        square = parser.Delimiter.SQUARE
        with parser.in_angle_brackets():
            version = VersionAttr.parse_version(parser)
            parser.parse_punctuation(",")
            capabilities = parser.parse_comma_separated_list(
                square, lambda: CapabilityAttr.parse_enumerant(parser)
            )
            parser.parse_punctuation(",")
            extensions = parser.parse_comma_separated_list(
                square, lambda: ExtensionAttr.parse_extension(parser)
            )
        return cls(version, capabilities, extensions).parameters

    def print_parameters(self, printer: Printer) -> None:
        capabilities = ", ".join(c.spell(c.data) for c in self.capabilities)
        extensions = ", ".join(e.data for e in self.extensions)
        printer.print_string(f"<{self.version.text}, [{capabilities}], [{extensions}]>")


ATTRIBUTE = AttrParser.parse_attribute, Printer.print_attribute


def _parse_boolean(parser: AttrParser) -> IntegerAttr:
    return IntegerAttr.from_bool(parser.parse_boolean())


def _parse_string(parser: AttrParser) -> StringAttr:
    return StringAttr(parser.parse_str_literal())


def _enumerant(cls: type[EnumerationAttr[Any]]) -> Spelling:
    def parse(parser: AttrParser) -> Attribute:
        """Parses the short form `<Subgroup>`, or the whole attribute `#spirv.scope<Subgroup>`."""
        whole = parser.parse_optional_attribute()
        return cls(cls.parse_parameter(parser)) if whole is None else whole

    return parse, lambda printer, value: value.print_parameter(printer)


def _parse_sizes(parser: AttrParser) -> DenseArrayBase:
    sizes = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )
    return DenseArrayBase.from_list(i32, sizes)


def _print_sizes(printer: Printer, sizes: DenseArrayBase[IntegerType]) -> None:
    printer.print_string(f"[{', '.join(str(size) for size in sizes.get_values())}]")


def _sizes(sizes: Sequence[int] | None) -> DenseArrayBase | NoneAttr:
    return NoneAttr() if sizes is None else DenseArrayBase.from_list(i32, sizes)


def _optional_integer(value: int | None) -> IntAttr | NoneAttr:
    return NoneAttr() if value is None else IntAttr(value)


@keyed_attr_definition
class LinkageAttributesAttr(KeyedAttr):
    """Imports or exports a symbol: `<linkage_name = "f", linkage_type = <Import>>`."""

    name = "spirv.linkage_attributes"
    linkage_name: StringAttr = key(_parse_string, Printer.print_attribute, converter=StringAttr)
    linkage_type: LinkageTypeAttr = key(*_enumerant(LinkageTypeAttr), converter=LinkageTypeAttr)


@keyed_attr_definition
class CacheControlLoadAttr(KeyedAttr):
    """The decoration CacheControlLoadINTEL: `<cache_level = 0, load_cache_control = Cached>`."""

    name = "spirv.cache_control_load_intel"
    cache_level: IntAttr = integer(converter=IntAttr)
    load_cache_control: LoadCacheControlAttr = key(*name_of(LoadCacheControlAttr))


@keyed_attr_definition
class CacheControlStoreAttr(KeyedAttr):
    """The decoration CacheControlStoreINTEL, with `store_cache_control = WriteBack` or others."""

    name = "spirv.cache_control_store_intel"
    cache_level: IntAttr = integer(converter=IntAttr)
    store_cache_control: StoreCacheControlAttr = key(*name_of(StoreCacheControlAttr))


@keyed_attr_definition
class EntryPointABIAttr(KeyedAttr):
    """
    Launch parameters of a kernel: `#spirv.entry_point_abi<workgroup_size = [32, 1, 1]>`.

    A function has this attribute under the name `spirv.entry_point_abi`.
    """

    name = "spirv.entry_point_abi"
    workgroup_size: DenseArrayBase | NoneAttr = key(
        _parse_sizes, _print_sizes, converter=_sizes, default=NoneAttr()
    )
    subgroup_size: IntAttr | NoneAttr = integer(converter=_optional_integer, default=NoneAttr())
    target_width: IntAttr | NoneAttr = integer(converter=_optional_integer, default=NoneAttr())

    def verify(self) -> None:
        if isinstance(self.workgroup_size, DenseArrayBase) and len(self.workgroup_size) != 3:
            raise VerifyException(
                "a workgroup size has 3 numbers (x, y, z), "
                f"not {len(self.workgroup_size)}: write 1 for an unused dimension"
            )


@irdl_attr_definition
class InterfaceVarABIAttr(ParametrizedAttribute):
    """Descriptor set, binding, storage class: `#spirv.interface_var_abi<(0, 1), StorageBuffer>`."""

    name = "spirv.interface_var_abi"
    descriptor_set: IntAttr
    binding: IntAttr
    storage_class: StorageClassAttr | NoneAttr

    def __init__(
        self, descriptor_set: int, binding: int, storage_class: StorageClass | None = None
    ):
        super().__init__(
            IntAttr(descriptor_set),
            IntAttr(binding),
            NoneAttr() if storage_class is None else StorageClassAttr(storage_class),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            with parser.in_parens():
                descriptor_set = parser.parse_integer(allow_boolean=False, allow_negative=False)
                parser.parse_punctuation(",")
                binding = parser.parse_integer(allow_boolean=False, allow_negative=False)
            storage_class = None
            if parser.parse_optional_punctuation(","):
                storage_class = StorageClassAttr.parse_enumerant(parser)
        return cls(descriptor_set, binding, storage_class).parameters

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<({self.descriptor_set.data}, {self.binding.data})")
        if isinstance(self.storage_class, StorageClassAttr):
            printer.print_string(f", {self.storage_class.spell(self.storage_class.data)}")
        printer.print_string(">")


@keyed_attr_definition
class CooperativeMatrixPropertiesAttr(KeyedAttr):
    """A combination of matrix types that a device supports (VkCooperativeMatrixPropertiesKHR)."""

    name = "spirv.coop_matrix_props_khr"
    m_size: IntAttr = integer(converter=IntAttr)
    n_size: IntAttr = integer(converter=IntAttr)
    k_size: IntAttr = integer(converter=IntAttr)
    a_type: Attribute = key(*TYPE)
    b_type: Attribute = key(*TYPE)
    c_type: Attribute = key(*TYPE)
    result_type: Attribute = key(*TYPE)
    acc_sat: IntegerAttr = key(_parse_boolean, Printer.print_attribute)
    scope: ScopeAttr = key(*_enumerant(ScopeAttr))

    def __init__(
        self,
        sizes: tuple[int, int, int],
        types: tuple[Attribute, Attribute, Attribute, Attribute],
        acc_sat: bool = False,
        scope: Scope = Scope.Subgroup,
    ):
        super().__init__(
            *(IntAttr(size) for size in sizes),
            *types,
            IntegerAttr.from_bool(acc_sat),
            ScopeAttr(scope),
        )


@keyed_attr_definition
class ResourceLimitsAttr(KeyedAttr):
    """The limits of a device. The default of each limit is Vulkan's required minimum."""

    name = "spirv.resource_limits"
    max_compute_shared_memory_size: IntAttr = integer(converter=IntAttr, default=16384)
    max_compute_workgroup_invocations: IntAttr = integer(converter=IntAttr, default=128)
    max_compute_workgroup_size: ArrayAttr[IntegerAttr] = key(
        *ATTRIBUTE, default=ArrayAttr([IntegerAttr(n, i32) for n in (128, 128, 64)])
    )
    subgroup_size: IntAttr = integer(converter=IntAttr, default=32)
    min_subgroup_size: IntAttr | NoneAttr = integer(default=NoneAttr())
    max_subgroup_size: IntAttr | NoneAttr = integer(default=NoneAttr())
    cooperative_matrix_properties_khr: ArrayAttr[CooperativeMatrixPropertiesAttr] = key(
        *ATTRIBUTE, default=ArrayAttr[CooperativeMatrixPropertiesAttr]([])
    )
    cooperative_matrix_properties_nv: ArrayAttr[Attribute] = key(
        *ATTRIBUTE, default=ArrayAttr[Attribute]([])
    )


@irdl_attr_definition
class TargetEnvAttr(ParametrizedAttribute):
    """
    A target: `#spirv.target_env<#spirv.vce<...>, api=Vulkan, NVIDIA:DiscreteGPU, #spirv...>`.

    The limits are required. Client API, vendor, device type and device id are optional.
    """

    name = "spirv.target_env"
    triple: VerCapExtAttr
    client_api: StringAttr
    vendor: StringAttr
    device_type: StringAttr
    device_id: IntAttr | NoneAttr
    resource_limits: ResourceLimitsAttr

    def __init__(
        self,
        triple: VerCapExtAttr,
        resource_limits: ResourceLimitsAttr,
        client_api: str = "Unknown",
        vendor: str = "Unknown",
        device_type: str = "Unknown",
        device_id: int | None = None,
    ):
        super().__init__(
            triple,
            StringAttr(client_api),
            StringAttr(vendor),
            StringAttr(device_type),
            _optional_integer(device_id),
            resource_limits,
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        api = vendor = device_type = "Unknown"
        device_id = None
        with parser.in_angle_brackets():
            triple = _parse_typed(parser, VerCapExtAttr)
            parser.parse_punctuation(",")
            if parser.parse_optional_keyword("api"):
                parser.parse_punctuation("=")
                api = parser.parse_keyword_in(CLIENT_APIS)
                parser.parse_punctuation(",")
            if name := parser.parse_optional_keyword_in(VENDORS):
                vendor = name
                if parser.parse_optional_punctuation(":"):
                    device_type = parser.parse_keyword_in(DEVICE_TYPES)
                if parser.parse_optional_punctuation(":"):
                    device_id = parser.parse_integer(allow_boolean=False)
                parser.parse_punctuation(",")
            limits = _parse_typed(parser, ResourceLimitsAttr)
        return cls(triple, limits, api, vendor, device_type, device_id).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.triple)
            if self.client_api.data != "Unknown":
                printer.print_string(f", api={self.client_api.data}")
            if self.vendor.data != "Unknown":
                printer.print_string(f", {self.vendor.data}")
                if self.device_type.data != "Unknown":
                    printer.print_string(f":{self.device_type.data}")
                if isinstance(self.device_id, IntAttr):
                    printer.print_string(f":{self.device_id.data}")
            printer.print_string(", ")
            printer.print_attribute(self.resource_limits)


AttributeT = TypeVar("AttributeT", bound=Attribute)


def _parse_typed(parser: AttrParser, attribute: type[AttributeT]) -> AttributeT:
    start = parser.pos
    value = parser.parse_attribute()
    if not isinstance(value, attribute):
        parser.raise_error(f"expected #{attribute.name}<...>", start, parser.pos)
    return value
