"""
Declares Vulkan structures as annotated classes, for type checkers and ctypes.

    @structure(12)
    class BufferCreateInfo(Chained):
        size: U64

is a `ctypes.Structure` whose member `size` is an `int` for a type checker. Constructors refuse
unknown members, which ctypes would silently store as Python attributes. A pointer may be given as
the structure, list, text or bytes at which it points: the structure keeps them alive, and the
member with their count or size is set.
"""

from __future__ import annotations

import ctypes as c
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from xdsl_spirv.runtime.vulkan.errors import NoVulkanError

if sys.platform in ("emscripten", "wasi"):
    raise NoVulkanError(
        "Vulkan is not available in WebAssembly", sys.platform, "use the interpreter"
    )

U8: TypeAlias = Annotated[int, c.c_uint8]
I32: TypeAlias = Annotated[int, c.c_int32]
U32: TypeAlias = Annotated[int, c.c_uint32]
I64: TypeAlias = Annotated[int, c.c_int64]
U64: TypeAlias = Annotated[int, c.c_uint64]
F32: TypeAlias = Annotated[float, c.c_float]
Size: TypeAlias = Annotated[int, c.c_size_t]
Pointer: TypeAlias = Annotated[int | None, c.c_void_p]
Text: TypeAlias = Annotated[bytes | None, c.c_char_p]
Object: TypeAlias = Annotated[int | None, c.c_void_p]
"""A dispatchable handle, which is an address."""
Handle: TypeAlias = Annotated[int, c.c_uint64]
"""A non-dispatchable handle, with 64 bits on every platform."""

S = TypeVar("S", bound="Plain")


class Plain(c.Structure):
    """A structure without sType and pNext."""

    _counts: ClassVar[dict[str, str | None]] = {}
    """
    For each pointer member, the member that holds the number of elements behind the pointer, or
    None.
    """

    def __init__(self, **members: Any):
        unknown = [
            name for name in members if not isinstance(getattr(type(self), name, None), _CFIELD)
        ]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no member {', '.join(unknown)}")
        self._pointed: list[object] = []
        for name in members.keys() & self._counts.keys():
            if isinstance(members[name], int | None):
                continue
            data, count = _place(members[name])
            self._pointed += [members[name], data]
            members[name] = pointer(data)
            counter = self._counts[name]
            if counter is not None:
                members.setdefault(counter, count)
        super().__init__(**members)


def _place(value: Any) -> tuple[Any, int]:
    """
    Returns the object that a pointer points at, and the number of its elements (of bytes, for
    bytes).
    """
    if isinstance(value, bytes):
        return c.create_string_buffer(value, len(value)), len(value)
    if isinstance(value, list | tuple):
        items: list[Any] = [v.encode() if isinstance(v, str) else v for v in value]
        kind = type(items[0]) if items else int
        return array({int: c.c_uint64, bytes: c.c_char_p}.get(kind, kind), items), len(items)
    return value, len(value) if isinstance(value, c.Array) else 1


class Chained(Plain):
    """A structure that begins with sType and pNext."""

    STYPE: ClassVar[int] = 0
    sType: int
    pNext: int | None

    def __init__(self, **members: Any):
        super().__init__(sType=self.STYPE, **members)


class _Probe(c.Structure):
    _fields_ = [("x", c.c_int)]


_CFIELD: Any = type(_Probe.x)


def ctype_of(annotation: Any) -> Any:
    """Returns the ctypes class in an annotation's metadata, or the annotation itself."""
    return getattr(annotation, "__metadata__", (annotation,))[0]


def structure(number: int | None = None) -> Callable[[type[S]], type[S]]:
    """
    Returns a decorator that turns the annotations of a ctypes structure into members.

    If `number` (the value of sType) is given, the members sType and pNext come first.
    """

    def lay_out(kind: type[S]) -> type[S]:
        members = [(name, ctype_of(a)) for name, a in kind.__annotations__.items()]
        if number is not None:
            setattr(kind, "STYPE", number)
            members = [("sType", c.c_uint32), ("pNext", c.c_void_p), *members]
        kind._fields_ = members
        before = [None, *(name for name, _ in members)]
        counts = {
            name: counter if counter and counter.endswith(("Count", "Size")) else None
            for (name, ctype), counter in zip(members, before, strict=False)
            if ctype is c.c_void_p
        }
        setattr(kind, "_counts", counts)
        return kind

    return lay_out


def pointer(value: c.Structure | c.Array[Any] | c._SimpleCData[Any] | None) -> int | None:  # pyright: ignore[reportPrivateUsage]
    """Returns the address of a structure or array, or None if it is empty."""
    return c.addressof(value) if value is not None and c.sizeof(value) else None


def array(kind: Any, values: Any) -> Any:
    """Creates a C array of the values."""
    items = list(values)
    return (kind * len(items))(*items)


def array_of(kind: Any, length: int, values: Iterable[Any] = ()) -> Any:
    """Creates a C array of `length` elements that begins with `values`."""
    return (kind * length)(*values)
