"""
Errors for invalid SPIR-V binaries and assembly texts.

They do not derive from xDSL's errors, because the raw layer works without xDSL.
"""

from __future__ import annotations


class SPIRVDecodeError(ValueError):
    """
    Error for bytes that are not a SPIR-V module.

    `word` is the word offset in the module, `index` the index of the instruction (-1 in the
    header), and `opcode` its opcode (None in the header).
    """

    def __init__(
        self,
        cause: str,
        word: int,
        index: int = -1,
        opcode: int | None = None,
        name: str | None = None,
    ):
        self.cause = cause
        self.word = word
        self.index = index
        self.opcode = opcode
        self.name = name
        place = f"at word {word}"
        if opcode is not None:
            called = "" if name is None else f" {name}"
            place += f", instruction {index}, opcode {opcode}{called}"
        super().__init__(f"{cause} ({place})")

    def __reduce__(self):
        """Makes the error picklable. Errors also come from other processes."""
        return type(self), (self.cause, self.word, self.index, self.opcode, self.name)


class SPIRVUnknownError(SPIRVDecodeError):
    """
    Error for an instruction of valid length whose words the grammar does not describe.

    Causes are an unknown opcode, enumerant or extended instruction, a mask with unknown bits, and
    nonzero padding. The raw layer and the assembly text keep such an instruction verbatim.
    """


class SPIRVAssemblyError(ValueError):
    """Error for text that is not SPIR-V assembly. `line` and `column` count from 1."""

    def __init__(self, cause: str, line: int, column: int):
        self.cause = cause
        self.line = line
        self.column = column
        super().__init__(f"{line}:{column}: {cause}")

    def __reduce__(self):
        return type(self), (self.cause, self.line, self.column)
