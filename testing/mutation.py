"""
Makes damaged modules, and checks readers of arbitrary bytes.

Tests and scripts/fuzz.py share this module. `mutate` returns a module as in a broken or hostile
file. Each `check` function reads bytes in one way, and raises an error for a forbidden result.
"""

from __future__ import annotations

import random
import struct
from array import array

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.serialization.decode.decoder import decode as decode_module
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.raw.binary import HEADER_WORDS, RawModule, decode
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError, SPIRVDecodeError
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.text.disassembler import MAX_TEXT_RATIO, disassemble
from xdsl_spirv.serialization.validation import validate
from xdsl_spirv.tools.binaries import mlir_text

INTERESTING = (0, 1, 2, 3, 0x7F, 0xFF, 0xFFFF, 0x10000, 0x3FFFFF, 0x7FFFFFFF, 0xFFFFFFFF)


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Returns a module with one to eight random changes: of instructions, words or bytes."""
    if rng.randrange(4):
        changed = _mutate_instructions(rng, decode(data))
    else:
        changed = mutate_words(rng, data)
    if rng.randrange(32) == 0 and changed:
        place = rng.randrange(len(changed))
        changed = changed[:place] + rng.randbytes(rng.randrange(4)) + changed[place + 1 :]
    if rng.randrange(32) == 0:
        changed = changed[: rng.randrange(len(changed) + 1)]
    return changed


def _mutate_instructions(rng: random.Random, module: RawModule) -> bytes:
    rows = list(module.rows())
    for _ in range(rng.randrange(1, 9)):
        if not rows:
            break
        at = rng.randrange(len(rows))
        choice = rng.randrange(8)
        if choice == 0:
            del rows[at]
        elif choice == 1:
            rows.insert(at, rows[rng.randrange(len(rows))])
        elif choice == 2:
            other = rng.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        else:
            rows[at] = _mutate_row(rng, rows[at])
    return RawModule.build(module.header, rows).encode()


def _mutate_row(rng: random.Random, row: list[int]) -> list[int]:
    words = array("I", row)
    at = rng.randrange(len(words))
    _CHANGES[rng.randrange(len(_CHANGES))](rng, words, at)
    if not words:
        return row
    words[0] = len(words) << 16 | words[0] & 0xFFFF
    return words.tolist()


def mutate_words(rng: random.Random, data: bytes) -> bytes:
    """Makes one to three random changes of any word, much faster than `mutate`."""
    words = array("I", data[: len(data) // 4 * 4])
    for _ in range(rng.randrange(1, 4)):
        if not words:
            break
        at = rng.randrange(len(words))
        _CHANGES[rng.randrange(len(_CHANGES))](rng, words, at)
    return words.tobytes()


def _flip(rng: random.Random, words: array[int], at: int) -> None:
    words[at] ^= 1 << rng.randrange(32)


def _replace(rng: random.Random, words: array[int], at: int) -> None:
    words[at] = rng.choice((*INTERESTING, rng.getrandbits(32), words[rng.randrange(len(words))]))


def _low_half(rng: random.Random, words: array[int], at: int) -> None:
    words[at] = words[at] & 0xFFFF0000 | rng.choice((rng.randrange(400), rng.randrange(7000)))


def _near(rng: random.Random, words: array[int], at: int) -> None:
    words[at] = words[at] + rng.randrange(-3, 4) & 0xFFFFFFFF


def _length(rng: random.Random, words: array[int], at: int) -> None:
    words[at] = words[at] & 0xFFFF | rng.randrange(8) << 16


def _remove(rng: random.Random, words: array[int], at: int) -> None:
    del words[at : at + rng.randrange(1, 6)]


def _copy(rng: random.Random, words: array[int], at: int) -> None:
    start = rng.randrange(len(words))
    words[at:at] = words[start : start + rng.randrange(1, 12)]


_CHANGES = (_flip, _replace, _low_half, _near, _length, _remove, _copy)


def in_lengths(rng: random.Random, data: bytes) -> bytes:
    """Returns the header of a module, and instructions with valid lengths but random content."""
    words = list(struct.unpack(f"<{HEADER_WORDS}I", data[: 4 * HEADER_WORDS]))
    words[3] = rng.choice((1, 20, 5000))
    for _ in range(rng.randrange(1, 40)):
        count = rng.randrange(1, 8)
        words.append(count << 16 | rng.choice((rng.randrange(400), rng.randrange(7000))))
        words += [rng.choice((rng.randrange(20), rng.getrandbits(32))) for _ in range(count - 1)]
    return struct.pack(f"<{len(words)}I", *words)


def check_bytes(data: bytes) -> str:
    """Decodes and encodes bytes by the raw layer. Returns `refused` or `decoded`."""
    try:
        module = decode(data)
    except SPIRVDecodeError:
        return "refused"
    if module.encode() != data:
        raise AssertionError("encoding the decoded module changes the bytes")
    return "decoded"


def check_dialect(data: bytes) -> str:
    """
    Decodes and encodes a module by the dialect. Returns `refused`, `decoded` (but not encoded) or
    `encoded`.

    Raises `AssertionError` for a refusal without a cause or a place, or if our encoding cannot be
    decoded. Exceptions other than our errors propagate.
    """
    try:
        module = decode_module(data)
    except SPIRVDecodeError as error:
        if not error.cause or not 0 <= error.word <= len(data):
            raise AssertionError(f"the error has no cause or place: {error}") from error
        return "refused"
    try:
        once = encode(module)
    except SPIRVEncodeError:
        return "decoded"
    try:
        _decode_again(once)
    except SPIRVDecodeError as error:
        raise AssertionError(f"the decoder refuses our encoding: {error}") from error
    return "encoded"


def check_printed(data: bytes) -> str:
    """
    Prints a module in the dialect and parses the text. Returns `refused`, `printed` (but not
    encoded) or `encoded`.

    Raises `AssertionError` if the text cannot be parsed or encodes to other words, or if a second
    round trip changes the encoding. xDSL's errors propagate.
    """
    try:
        module = decode_module(data)
    except SPIRVDecodeError:
        return "refused"
    try:
        again = find_module(parse_text(mlir_text(BuiltinModuleOp([module]), lines=True)))
    except ProgramError as error:
        raise AssertionError(f"the parser refuses the printed text: {error}") from error
    try:
        once = encode(module, names=True, lines=True)
    except SPIRVEncodeError:
        return "printed"
    if encode(again, names=True, lines=True) != once:
        raise AssertionError("encoding the parsed text changes the words")
    twice = _there_and_back(once)
    if _there_and_back(twice) != twice:
        raise AssertionError("a second round trip changes the encoding")
    return "encoded"


def _there_and_back(data: bytes) -> bytes:
    return encode(_decode_again(data), names=True, lines=True)


def _decode_again(data: bytes) -> ModuleOp:
    """Decodes a module that we encoded. If decoding fails, keeps refused instructions as words."""
    try:
        return decode_module(data, unchecked=True)
    except SPIRVDecodeError:
        return decode_module(data)


def check_validation(data: bytes) -> str:
    """Validates a module. Returns `refused`, `findings` or `clean`."""
    try:
        findings = validate(data, "vulkan1.3")
    except SPIRVDecodeError:
        return "refused"
    for finding in findings:
        if not str(finding):
            raise AssertionError("a finding has no text")
    return "findings" if findings else "clean"


def check(data: bytes) -> str:
    """
    Disassembles and assembles a module. Returns `refused`, `partly` or `wholly` (all instructions
    are readable).

    Raises `AssertionError` if something changes in the round trip. Exceptions other than
    `SPIRVDecodeError` propagate.
    """
    try:
        module = decode(data)
    except SPIRVDecodeError:
        return "refused"
    if module.encode() != data:
        raise AssertionError("encoding the decoded module changes the bytes")
    readable = sum(_readable(module))
    text = disassemble(module, raw_ids=True, tolerant=True)
    names = disassemble(module, tolerant=True)
    if max(len(text), len(names)) > max(1 << 17, (MAX_TEXT_RATIO + 10) * len(data)):
        raise AssertionError(f"disassembling {len(data)} bytes gives {len(names)} characters")
    sound = readable == len(module)
    try:
        again = assemble(text).encode()
    except SPIRVAssemblyError:
        if sound:
            raise
        return "partly"
    if sound and again != data:
        raise AssertionError("assembling the disassembly changes the bytes")
    return "wholly" if sound else "partly"


def _readable(module: RawModule) -> list[bool]:
    readable: list[bool] = []
    for instruction in module:
        try:
            _ = instruction.operands
            readable.append(True)
        except SPIRVDecodeError as error:
            start, end = instruction.offset, instruction.offset + len(instruction.words)
            if error.index != instruction.index or not start <= error.word <= end:
                raise AssertionError(
                    f"the error is located outside of its instruction: {error}"
                ) from error
            readable.append(False)
    return readable
