"""
The readers of untrusted bytes, with functions that damage their inputs.

A reader returns a word for the outcome of an input. It may raise errors for which the command line
has a message. Any other exception is a fault. If data changes in a round trip, the reader raises
`AssertionError`. Readers of SPIR-V (testing/mutation.py) catch their allowed errors.
"""

from __future__ import annotations

import json
import math
import random
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.printer import Printer

from xdsl_spirv import targets
from xdsl_spirv.runtime.elements import dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import evaluate, function_of
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.runtime.modules import context, parse_text, verifying
from xdsl_spirv.runtime.weights import weights_of
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.text.disassembler import disassemble
from xdsl_spirv.testing.fuzzing.damage import (
    NUMBERS,
    WORDS,
    damage_bytes,
    damage_json,
    damage_message,
    damage_text,
    deepen,
)
from xdsl_spirv.testing.mutation import (
    check,
    check_bytes,
    check_dialect,
    check_printed,
    check_validation,
    in_lengths,
    mutate,
    mutate_words,
)
from xdsl_spirv.testing.sampling import sample_module
from xdsl_spirv.testing.semantic_mutation import mutate_meaning

Seeds = Sequence[bytes]

CONTEXTS = 200
"""Number of inputs after which a new xDSL context is created. A context accumulates names."""


@dataclass(frozen=True)
class Reader:
    """
    A reader. `seeds` names the folder of the files to damage, which several readers may share.
    """

    seeds: str
    damage: Callable[[random.Random, Seeds], bytes]
    read: Callable[[bytes], str]
    share: float
    """Share of the processor time that the reader gets."""
    strict: bool = False
    """True if any exception of the reader is a fault."""


# SPIR-V


def _words(rng: random.Random, seeds: Seeds) -> bytes:
    """Makes an input for the raw layer. This layer examines only the lengths of instructions."""
    choice = rng.randrange(20)
    if choice == 0:
        return rng.randbytes(rng.randrange(200))
    if choice == 1:
        return rng.choice(seeds)[:20] + rng.randbytes(rng.randrange(200))
    if choice < 6:
        return in_lengths(rng, rng.choice(seeds))
    return mutate_words(rng, rng.choice(seeds))


def _instructions(rng: random.Random, seeds: Seeds) -> bytes:
    choice = rng.randrange(8)
    if choice == 0:
        return _words(rng, seeds)
    if choice == 1:
        return mutate(rng, sample_module(rng, rng.randrange(30)).encode())
    return mutate(rng, rng.choice(seeds))


def _meaning(rng: random.Random, seeds: Seeds) -> bytes:
    """Makes a module that is grammatical but probably invalid, or an input of `_instructions`."""
    if rng.randrange(2):
        return mutate_meaning(rng, rng.choice(seeds))
    return _instructions(rng, seeds)


def _read_assembly(data: bytes) -> str:
    """Assembles a text, disassembles the result and assembles it again. The words must be equal."""
    try:
        binary = assemble(data.decode("utf-8", "surrogateescape"))
    except SPIRVAssemblyError:
        return "refused"
    encoded = binary.encode()
    if assemble(disassemble(binary, raw_ids=True, tolerant=True)).encode() != encoded:
        raise AssertionError("assembling the disassembly changes the words")
    return "assembled"


# MLIR


@cache
def _context(_number: int) -> Context:
    return context()


_read_so_far = 0


def _fresh_context() -> Context:
    global _read_so_far
    _read_so_far += 1
    if _read_so_far % CONTEXTS == 0:
        _context.cache_clear()
    return _context(0)


RESOURCE = re.compile(r"dense_resource<\w+>")
"""Matches names of resources, which xDSL makes unique within a process."""


def _read_mlir(data: bytes) -> str:
    """Parses and prints a text. The printed text must parse again and print the same."""
    ctx = _fresh_context()
    once = _print_module(parse_text(data.decode(errors="replace"), ctx=ctx))
    if RESOURCE.sub("x", _print_module(parse_text(once, ctx=ctx))) != RESOURCE.sub("x", once):
        raise AssertionError("printing the parsed text again changes the text")
    return "printed"


def _print_module(module: Any) -> str:
    output = StringIO()
    Printer(stream=output).print_op(module)
    return output.getvalue()


PIPELINE = "// passes: "


def _damaged_behind_its_passes(rng: random.Random, seeds: Seeds) -> bytes:
    passes, _, text = rng.choice(seeds).decode().partition("\n")
    return f"{passes}\n{damage_text(rng, text)}".encode()


def _read_and_lower(data: bytes) -> str:
    from xdsl_spirv.compiler.compiler import pipeline_of

    first, _, text = data.decode(errors="replace").partition("\n")
    ctx = _fresh_context()
    module = parse_text(text, ctx=ctx)
    pipeline_of(first.removeprefix(PIPELINE)).apply(ctx, module)
    with verifying():
        module.verify()
    return "lowered"


# Models


def _damaged_model(rng: random.Random, seeds: Seeds) -> bytes:
    from onnx import ModelProto

    data = rng.choice(seeds)
    if rng.randrange(8) == 0:
        return damage_bytes(rng, data)
    model = ModelProto.FromString(data)
    damage_message(rng, model)
    return model.SerializeToString()


PLACES = ("", "0", "-4", "4096", "junk", "9" * 30, "\0", "x\0y", "x" * 5000, "..", ".", "/", "1e3")
"""
Values for the fields of a tensor's external data: file name, offset, length. Most are invalid.
"""


def _read_onnx(data: bytes) -> str:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    from xdsl_spirv.frontends.onnx.importer import import_onnx

    try:
        model = ModelProto.FromString(data)
    except DecodeError:
        return "no protobuf"
    import_onnx(model, dynamic=len(data) % 2 == 0)
    return "imported"


@cache
def _folder() -> tuple[Any, Path]:
    """Creates a folder, in memory if possible. It is removed when the process ends."""
    memory = Path("/dev/shm")
    holder = tempfile.TemporaryDirectory(
        prefix="xdsl-spirv-fuzz-", dir=memory if memory.is_dir() else None
    )
    return holder, Path(holder.name)


def _file(name: str, data: bytes) -> Path:
    path = _folder()[1] / name
    path.write_bytes(data)
    return path


def _damaged_weights(rng: random.Random, seeds: Seeds) -> bytes:
    from onnx import ModelProto, TensorProto

    model = ModelProto.FromString(rng.choice(seeds))
    for tensor in model.graph.initializer:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights"), ("offset", "0"), ("length", "64")):
            tensor.external_data.add(key=key, value=value)
    entries = [entry for tensor in model.graph.initializer for entry in tensor.external_data]
    for entry in rng.sample(entries, min(len(entries), rng.randint(0, 2))):
        entry.value = rng.choice(PLACES)
    if rng.randrange(2):
        damage_message(rng, model)
    return model.SerializeToString()


def _read_weights(data: bytes) -> str:
    from xdsl_spirv.frontends.onnx.importer import import_onnx

    _file("weights", bytes(1 << 12))
    import_onnx(_file("model.onnx", data), dynamic=len(data) % 2 == 0)
    return "imported"


def _read_ttir(data: bytes) -> str:
    from xdsl_spirv.frontends.triton.convert import convert, kernel_of
    from xdsl_spirv.frontends.triton.reading import read

    convert(kernel_of(read(data.decode(errors="surrogatepass"))))
    return "converted"


def _read_stablehlo(data: bytes) -> str:
    from xdsl_spirv.frontends import import_stablehlo

    import_stablehlo(data.decode(errors="replace"))
    return "imported"


def _read_gguf(data: bytes) -> str:
    from xdsl_spirv.frontends.gguf.file import read_file

    return "tensors" if read_file(_file("model.gguf", data)).tensors else "values"


def _read_safetensors(data: bytes) -> str:
    return "tensors" if weights_of(data, "the file") else "empty"


# Data


def _any_bytes(rng: random.Random, seeds: Seeds) -> bytes:
    return damage_bytes(rng, rng.choice(seeds))


def _any_text(rng: random.Random, seeds: Seeds) -> bytes:
    return damage_text(rng, rng.choice(seeds).decode()).encode(errors="surrogatepass")


def _any_json(rng: random.Random, seeds: Seeds) -> bytes:
    if rng.randrange(8) == 0:
        return _any_bytes(rng, seeds)
    return _damaged_json(rng, rng.choice(seeds))


def _damaged_json(rng: random.Random, data: bytes) -> bytes:
    text = json.dumps(damage_json(rng, json.loads(data)))
    return (deepen(rng, text) if rng.randrange(50) == 0 else text).encode()


def _read_target(data: bytes) -> str:
    targets.load.__wrapped__(str(_file("target.json", data)))
    return "read"


def _read_tuned(data: bytes) -> str:
    from xdsl_spirv.passes.schedule import tuned

    path = _file("tuned.json", data)
    for text in tuned.read_entries(path).values():
        tuned.parse_schedule(text)
    return "read"


def _read_kernel_test(data: bytes) -> str:
    from xdsl_spirv.tools.kernel_test.toml_file import read_test

    return f"{len(read_test(_file('x.kernel.toml', data)).buffers)} buffers"


NAMES = ("a", "b", "n")


def _read_expression(data: bytes) -> str:
    """Evaluates a size expression by parsing and by compiling. The results must be equal."""
    text = data.decode(errors="replace")
    values: dict[str, int] = dict(zip(NAMES, (3, 5, 64), strict=True))
    number = evaluate(text, values, "the size")
    if function_of([text], NAMES)(*values.values()) != (number,):
        raise AssertionError("parsing and compiling the expression give different values")
    return "evaluated"


def _program_files(data: bytes) -> Mapping[str, bytes]:
    """
    Unpacks the files of a directory from one input. Its first line is JSON with their names and
    lengths.
    """
    names, _, rest = data.partition(b"\n")
    files: dict[str, bytes] = {}
    for name, size in json.loads(names).items():
        files[name], rest = rest[:size], rest[size:]
    return files


def pack_program(files: Mapping[str, bytes]) -> bytes:
    """Packs the files of a program's directory into one file."""
    sizes = {name: len(content) for name, content in files.items()}
    return json.dumps(sizes).encode() + b"\n" + b"".join(files.values())


MANIFEST, LAYERS = "program.json", "layers.json"
SMALL_GRID, SMALL_BYTES = 64, 1 << 16
"""Limits up to which a program is run: workgroups of a grid, and bytes of a buffer."""


def _damaged_program(rng: random.Random, seeds: Seeds) -> bytes:
    files = dict(_program_files(rng.choice(seeds)))
    if rng.randrange(5) == 0:
        other = rng.choice(sorted(files))
        files[other] = damage_bytes(rng, files[other])
    else:
        name = MANIFEST if rng.randrange(6) else LAYERS
        if name == MANIFEST and rng.randrange(4) == 0:
            files[name] = _with_numbers(rng, files[name])
        else:
            files[name] = _damaged_json(rng, files[name])
    return pack_program(files)


def _with_numbers(rng: random.Random, data: bytes) -> bytes:
    """Returns a manifest in which a push constant and a shape have random extreme numbers."""
    manifest = json.loads(data)
    dispatch, buffer = (rng.choice(manifest[key]) for key in ("dispatches", "buffers"))
    value = rng.choice((*NUMBERS, *WORDS))
    dispatch["push_constants"] = [{"offset": 0, "type": "i32", "value": value}]
    if rng.randrange(2):
        buffer["shape"] = [rng.choice(NUMBERS) for _ in buffer["shape"]]
    return json.dumps(manifest).encode()


def _read_program(data: bytes) -> str:
    from xdsl_spirv.runtime.execution import run
    from xdsl_spirv.runtime.program import Program

    try:
        files = _program_files(data)
    except ValueError:
        return "no pack"
    for name, content in files.items():
        path = _folder()[1] / "program" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    program = Program.load(_folder()[1] / "program")
    repr(program)
    inputs = {b.name: _input(b) for b in program.manifest.inputs}
    manifest = program.at(inputs).manifest
    grids = [math.prod(dispatch.workgroups) for dispatch in manifest.dispatches]
    if sum(grids) > SMALL_GRID or sum(b.bytes for b in manifest.buffers) > SMALL_BYTES:
        return "large"
    run(program, inputs)
    return "ran"


def _input(buffer: Buffer) -> Any:
    """Returns contents for an input buffer of a program. Every dynamic size is 3."""
    if buffer.kind == "scalar":
        return 3
    shape = tuple(size if isinstance(size, int) else 3 for size in buffer.shape)
    if math.prod(max(size, 1) for size in shape) > SMALL_BYTES:
        raise ProgramError("the input is too large", buffer.name)
    return np.ones(shape, dtype_of(buffer.type))


READERS: dict[str, Reader] = {
    "raw": Reader("spirv", _words, check_bytes, 3, True),
    "text": Reader("spirv", _instructions, check, 2, True),
    "dialect": Reader("spirv", _meaning, check_dialect, 2, True),
    "printed": Reader("spirv", _meaning, check_printed, 2, True),
    "validator": Reader("spirv", _meaning, check_validation, 2, True),
    "assembly": Reader("assembly", _any_text, _read_assembly, 1),
    "mlir": Reader("mlir", _any_text, _read_mlir, 2),
    "passes": Reader("passes", _damaged_behind_its_passes, _read_and_lower, 4),
    "onnx": Reader("onnx", _damaged_model, _read_onnx, 4),
    "weights": Reader("onnx", _damaged_weights, _read_weights, 2),
    "ttir": Reader("ttir", _any_text, _read_ttir, 2),
    "stablehlo": Reader("stablehlo", _any_text, _read_stablehlo, 2),
    "gguf": Reader("gguf", _any_bytes, _read_gguf, 1),
    "safetensors": Reader("safetensors", _any_bytes, _read_safetensors, 1),
    "program": Reader("program", _damaged_program, _read_program, 2),
    "target": Reader("target", _any_json, _read_target, 1),
    "tuned": Reader("tuned", _any_json, _read_tuned, 1),
    "toml": Reader("toml", _any_text, _read_kernel_test, 1),
    "expression": Reader("expression", _any_text, _read_expression, 1),
}
