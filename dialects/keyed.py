"""
Base classes of attributes that are written as `<key = value, ...>`.

xDSL's declarative attribute formats (0.74) only support keywords. An attribute of this module
declares a table of keys, from which one parser and one printer are derived. The form is MLIR's
`struct(params)`, except that keys with default values are not printed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, StringAttr, SymbolRefAttr, i1
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


class LocatedAttribute(ParametrizedAttribute, ABC):
    """
    A type or attribute whose verification errors become parse errors with a source location.

    A subclass implements `parse_body` instead of `parse_parameters`.
    """

    @classmethod
    @abstractmethod
    def parse_body(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the text after the attribute's name and returns the parameters."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        start = parser.pos
        parameters = cls.parse_body(parser)
        try:
            return cls.new(parameters).parameters
        except VerifyException as error:
            parser.raise_error(str(error), start, parser.pos)


Spelling: TypeAlias = tuple[Callable[[AttrParser], Attribute], Callable[[Printer, Any], None]]
"""A pair: the function that parses a value, and the function that prints it."""

TYPE: Spelling = AttrParser.parse_type, Printer.print_attribute
BOOLEAN: Spelling = (
    lambda parser: IntegerAttr(int(parser.parse_boolean()), i1),
    lambda printer, value: printer.print_string("true" if value.value.data else "false"),
)


def or_symbol(spelling: Spelling) -> Spelling:
    """Returns a spelling that also accepts `@name`, the symbol of a constant."""
    parse, print_value = spelling

    def parse_either(parser: AttrParser) -> Attribute:
        symbol = parser.parse_optional_symbol_name()
        return parse(parser) if symbol is None else SymbolRefAttr(symbol)

    def print_either(printer: Printer, value: Attribute) -> None:
        is_symbol = isinstance(value, SymbolRefAttr)
        (Printer.print_attribute if is_symbol else print_value)(printer, value)

    return parse_either, print_either


class SpelledAttribute(LocatedAttribute, ABC):
    """A type or attribute whose text lists its parameters in order: `<16xf32, Subgroup>`."""

    SPELLING: ClassVar[Sequence[tuple[str, Spelling] | None]]
    """
    The parts of the text in order. A part is a parameter (name and spelling), or None for a comma.
    """

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, Attribute] = {}
        with parser.in_angle_brackets():
            for part in cls.SPELLING:
                if part is None:
                    parser.parse_punctuation(",")
                else:
                    values[part[0]] = part[1][0](parser)
        return [values[name] for name, _ in cls.get_irdl_definition().parameters]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for part in self.SPELLING:
                if part is None:
                    printer.print_string(", ")
                else:
                    part[1][1](printer, getattr(self, part[0]))


@dataclass(frozen=True)
class Key:
    """Describes one key of a `KeyedAttr`: how to parse, print and check its value."""

    parse: Callable[[AttrParser], Attribute]
    print: Callable[[Printer, Any], None]
    default: Attribute | None = None
    """The default value. None if the key is required."""

    refusal: Callable[[Any], str | None] = lambda value: None
    """
    Returns what is wrong with a value (`must be at least 1, not 0`), or None if the value is valid.
    """

    always_printed: bool = False
    """True if the key is printed even when it has its default value."""

    is_suffix: bool = False
    """True if the value is written in angle brackets after the previous key's value: `rows<8>`."""

    is_leading: bool = False
    """True if the value is written first and without its key."""


def key(
    parse: Callable[[AttrParser], Attribute],
    print: Callable[[Printer, Any], None],
    *,
    converter: Callable[[Any], Attribute] | None = None,
    default: Any = None,
    refusal: Callable[[Any], str | None] = lambda value: None,
    kw_only: bool = False,
    **printed: bool,
) -> Any:
    """
    Declares a parameter of a `KeyedAttr`.

    `parse`, `print`, `default` and `refusal` are fields of `Key`. Further keywords set its Boolean
    fields (`always_printed`, `is_suffix`, `is_leading`). `converter` makes an attribute from a
    Python value. `kw_only` lets a required parameter follow an optional one.
    """

    def convert(value: Any) -> Attribute:
        return value if converter is None or isinstance(value, Attribute) else converter(value)

    field: Any = param_def(converter=convert)
    missing = None if default is None else convert(default)
    field.key = Key(parse, print, missing, refusal, **printed)
    return field


def _print_integer(printer: Printer, value: IntAttr) -> None:
    printer.print_string(str(value.data))


def _parse_integer(parser: AttrParser) -> IntAttr:
    return IntAttr(parser.parse_integer(allow_boolean=False))


def integer(
    *,
    converter: Callable[[int], Attribute] = IntAttr,
    default: int | Attribute | None = None,
    least: int | None = None,
    most: int | None = None,
    **printed: bool,
) -> Any:
    """Declares an integer parameter. `least` and `most` are optional bounds, both inclusive."""

    def refusal(value: Attribute) -> str | None:
        if not isinstance(value, IntAttr):
            return None
        if least is not None and value.data < least:
            return f"must be at least {least}, not {value.data}"
        if most is not None and value.data > most:
            return f"must be at most {most}, not {value.data}"
        return None

    return key(
        _parse_integer,
        _print_integer,
        converter=converter,
        default=default,
        refusal=refusal,
        **printed,
    )


def word(
    choices: Sequence[str],
    *,
    converter: Callable[[str], Attribute] = StringAttr,
    default: str | None = None,
    **printed: bool,
) -> Any:
    """Declares a parameter that is one of several words. It is written without quotes."""

    def refusal(value: StringAttr) -> str | None:
        return None if value.data in choices else f"is {value.data}, not {one_of(choices)}"

    return key(
        lambda parser: StringAttr(parser.parse_identifier()),
        lambda printer, value: printer.print_string(value.data),
        converter=converter,
        default=default,
        refusal=refusal,
        **printed,
    )


def integer_array(values: Sequence[int]) -> ArrayAttr[IntAttr]:
    """Makes the attribute of a list of integers."""
    return ArrayAttr(map(IntAttr, values))


def integers(
    *counts: int,
    converter: Callable[[Sequence[int]], Attribute] = integer_array,
    default: Sequence[int] | None = None,
    least: int | None = None,
    **printed: bool,
) -> Any:
    """
    Declares a parameter that is a list of integers in brackets. `counts` are the allowed lengths,
    if any.
    """

    def refusal(value: ArrayAttr[IntAttr]) -> str | None:
        if counts and len(value) not in counts:
            return f"has {len(value)} numbers, must have {' or '.join(map(str, counts))}"
        if least is not None and any(number.data < least for number in value):
            return f"is {[number.data for number in value]}, each must be at least {least}"
        return None

    def parse(parser: AttrParser) -> ArrayAttr[IntAttr]:
        return ArrayAttr(
            parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _parse_integer(parser)
            )
        )

    def print(printer: Printer, value: ArrayAttr[IntAttr]) -> None:
        printer.print_string(str([number.data for number in value]))

    return key(parse, print, converter=converter, default=default, refusal=refusal, **printed)


def one_of(choices: Sequence[str]) -> str:
    """Formats the choices for a message: `one of a, b`."""
    return f"one of {', '.join(choices)}"


class KeyedAttr(LocatedAttribute, ABC):
    """
    An attribute written as `<key = value, ...>`, with keys in any order.

    A subclass is decorated with `keyed_attr_definition`. It declares parameters by `key`,
    `integer`, `word` or `integers`, which are printed in the order of their declarations. The
    constructor takes Python values.
    """

    KEYS: ClassVar[Mapping[str, Key]]
    MAY_BE_BARE: ClassVar[bool] = False
    """True if the angle brackets are optional. They are then not printed if they would be empty."""

    def __init__(self, *values: Any, **named: Any):
        defaults = {name: key.default for name, key in self.KEYS.items()}
        given = dict(zip(self.KEYS, values, strict=False)) | named
        whole = defaults | given
        if len(given) < len(values) + len(named) or len(whole) > len(defaults):
            raise TypeError(f"{self.name} only has the parameters {', '.join(self.KEYS)}")
        if missing := [name for name, value in whole.items() if value is None]:
            raise TypeError(f"{self.name} needs {', '.join(missing)}")
        super().__init__(*whole.values())

    def replace_values(self, **changes: Any) -> Self:
        """Returns a copy with new values for some parameters."""
        return type(self)(**(self._values | changes))

    def is_printed(self, key: str) -> bool:
        """True if a key is printed. By default, a key with its default value is not printed."""
        declared = self.KEYS[key]
        return declared.always_printed or self._values[key] != declared.default

    @property
    def _values(self) -> dict[str, Attribute]:
        return dict(zip(self.KEYS, self.parameters, strict=True))

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, Attribute] = {}
        start = parser.pos

        def entry() -> None:
            cls._parse_entry(parser, values)

        angle = parser.Delimiter.ANGLE
        if cls.MAY_BE_BARE:
            parser.parse_optional_comma_separated_list(angle, entry)
        else:
            parser.parse_comma_separated_list(angle, entry)
        for name, key in cls.KEYS.items():
            if key.default is not None:
                values.setdefault(name, key.default)
        if missing := [name for name in cls.KEYS if name not in values]:
            parser.raise_error(f"{cls.name} needs {', '.join(missing)}", start, parser.pos)
        return [values[name] for name in cls.KEYS]

    @classmethod
    def _parse_entry(cls, parser: AttrParser, values: dict[str, Attribute]) -> None:
        for name, key in cls.KEYS.items():
            if key.is_leading and name not in values:
                values[name] = cls._parse_value(parser, name)
                return
        names = [n for n, key in cls.KEYS.items() if not key.is_suffix and not key.is_leading]
        start = parser.pos
        name = parser.parse_identifier(context_msg=f": a parameter of {cls.name}")
        if name not in names:
            message = f"{cls.name}: {name!r} is not {one_of(names)}"
            parser.raise_error(message, start, parser.pos)
        if name in values:
            parser.raise_error(f"{cls.name}: {name!r} is given twice", start, parser.pos)
        parser.parse_punctuation("=")
        values[name] = cls._parse_value(parser, name)
        following = [*cls.KEYS, ""][[*cls.KEYS].index(name) + 1]
        suffix = cls.KEYS.get(following)
        if suffix and suffix.is_suffix and parser.parse_optional_punctuation("<"):
            values[following] = cls._parse_value(parser, following)
            parser.parse_punctuation(">")

    @classmethod
    def _parse_value(cls, parser: AttrParser, name: str) -> Attribute:
        start = parser.pos
        value = cls.KEYS[name].parse(parser)
        if refusal := cls.KEYS[name].refusal(value):
            parser.raise_error(f"{name} {refusal}", start, parser.pos)
        return value

    def print_parameters(self, printer: Printer) -> None:
        shown = [name for name in self.KEYS if self.is_printed(name)]
        if not shown and self.MAY_BE_BARE:
            return
        values = self._values
        with printer.in_angle_brackets():
            for index, name in enumerate(shown):
                key = self.KEYS[name]
                if key.is_suffix:
                    with printer.in_angle_brackets():
                        key.print(printer, values[name])
                    continue
                separator = ", " if index else ""
                printer.print_string(separator if key.is_leading else f"{separator}{name} = ")
                key.print(printer, values[name])

    def verify(self) -> None:
        for name, value in self._values.items():
            if refusal := self.KEYS[name].refusal(value):
                raise VerifyException(f"{name} {refusal}")


KeyedAttrT = TypeVar("KeyedAttrT", bound=KeyedAttr)


@dataclass_transform(frozen_default=True, field_specifiers=(key, integer, word, integers))
def keyed_attr_definition(cls: type[KeyedAttrT]) -> type[KeyedAttrT]:
    """Registers a subclass of `KeyedAttr` as an attribute definition."""
    declared = {name: getattr(value, "key", None) for name, value in vars(cls).items()}
    cls.KEYS = {name: own for name, own in declared.items() if isinstance(own, Key)}
    return irdl_attr_definition(cls)
