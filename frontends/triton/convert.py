"""
Converts a kernel of Triton to a program over tiles.

    tt.func @f(%x: !tt.ptr<f32>, %n: i32) { ... }
 -> tile.program @f { ^bb0(%x: !tile.view<?xf32>, %n: index): ... }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    Float32Type,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.triton import loops, operations
from xdsl_spirv.frontends.triton.converter import Converter
from xdsl_spirv.frontends.triton.dialect import DescriptorType, FunctionOp, PointerType
from xdsl_spirv.frontends.triton.elements import check_element
from xdsl_spirv.frontends.triton.forms import Affine, Descriptor, Form, Pointer
from xdsl_spirv.frontends.triton.reading import name_of
from xdsl_spirv.frontends.triton.writing import INDEX, Writer

REGISTERED = (loops, operations)
"""Modules that register conversions of operations."""


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel: a buffer with a rank, or a number if `rank` is None."""

    name: str
    element: Attribute
    rank: int | None
    of: tuple[str, str, int] | None = None
    """The array whose size or stride is passed: (name of the array, `shape` or `stride`, axis)."""


@dataclass
class Converted:
    """A converted program, its parameters, and the Python files of its source."""

    program: tile.ProgramOp
    parameters: list[Parameter]
    files: set[str] = field(default_factory=set[str])


def kernel_of(module: ModuleOp, name: str | None = None) -> FunctionOp:
    """Returns the kernel `name`, or the only kernel. Raises `FrontendError` if there is none."""
    functions = [op for op in module.body.block.ops if isinstance(op, FunctionOp)]
    names = [cast(StringAttr, op.attributes["sym_name"]).data for op in functions]
    if name is None and len(functions) == 1:
        return functions[0]
    if name in names:
        return functions[names.index(name)]
    cause = f"there is no kernel {name!r}" if name else f"the module has {len(names)} kernels"
    raise FrontendError(cause, f"kernels: {', '.join(names) or 'none'}", "name one of its kernels")


def parameters_of(kernel: FunctionOp) -> list[Parameter]:
    """Returns the parameters of a kernel, with their names in Python."""
    found: list[Parameter] = []
    sizes: list[tuple[str, str, int]] = []
    for argument in kernel.regions[0].blocks[0].args:
        name = name_of(argument.location) or argument.name_hint or f"arg{argument.index}"
        if sizes and name.partition(".")[0] == sizes[0][0]:
            array, kind, axis = sizes.pop(0)
            full = f"{array}.{kind}.{axis}"
            found.append(Parameter(full, argument.type, None, (array, kind, axis)))
            continue
        type = argument.type
        if isinstance(type, PointerType):
            found.append(Parameter(name, type.pointee, 1))
        elif isinstance(type, DescriptorType):
            rank = len(type.sizes)
            found.append(Parameter(name, type.element, rank))
            sizes = [(name, kind, axis) for kind in ("shape", "stride") for axis in range(rank)]
        elif type in (i32, i64, Float32Type()):
            found.append(Parameter(name, type, None))
        else:
            raise FrontendError(
                f"a parameter of type {type} is not supported", name, "pass i32 or fp32"
            )
    return found


def convert(
    kernel: FunctionOp,
    constants: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Converted:
    """
    Converts a kernel. Integers in `constants` and array sizes in `shapes` become constants.

    Raises `FrontendError` for unsupported operations.
    """
    parameters, source = parameters_of(kernel), kernel.regions[0].blocks[0]
    types: list[Attribute] = []
    for parameter in parameters:
        if parameter.rank is None:
            types.append(parameter.element if isinstance(parameter.element, AnyFloat) else INDEX)
        else:
            shape = (shapes or {}).get(parameter.name, [DYNAMIC_INDEX] * parameter.rank)
            types.append(tile.view_type(shape, parameter.element))
    block = Block(arg_types=types)
    name = cast(StringAttr, kernel.attributes["sym_name"])
    converter = Converter(Writer(block, name.data), list(block.args))
    for parameter, given, argument in zip(parameters, block.args, source.args, strict=True):
        if SSAValue.is_valid_name(parameter.name):
            tile.name_argument(given, parameter.name)
        form: Form = given
        if isinstance(argument.type, PointerType):
            check_element(converter.writer, parameter.element)
            form = Pointer(given.index, Affine.uniform(0))
        elif isinstance(argument.type, DescriptorType):
            form = Descriptor(given)
        elif given.type == INDEX:
            value = (constants or {}).get(parameter.name)
            form = Affine.uniform(converter.writer.number(given) if value is None else value)
        converter.forms[argument] = form
    converter.blocks(source)
    program = tile.ProgramOp(properties={"sym_name": name}, regions=[Region(block)])
    program.verify()
    return Converted(program, parameters, converter.writer.files)
