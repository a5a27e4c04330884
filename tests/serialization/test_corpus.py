"""
Every valid FileCheck module is encoded to the binary that MLIR makes, and spirv-val accepts it.

A chunk without a `spirv.module` becomes the body of a function, with parameters for the results of
`test.op`.
"""

import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IntegerAttr, ModuleOp, SymbolRefAttr, i32
from xdsl.dialects.func import Func
from xdsl.dialects.test import Test, TestOp
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv.constants import SpecConstantCompositeOp, SpecConstantOp
from xdsl_spirv.dialects.spirv.control_flow import ReturnOp
from xdsl_spirv.dialects.spirv.enums import Decoration, ExecutionMode, ExecutionModel, MemoryModel
from xdsl_spirv.dialects.spirv.module import modules_in, symbol_of
from xdsl_spirv.dialects.spirv.structure import (
    EntryPointOp,
    ExecutionModeOp,
    FuncOp,
    GlobalVariableOp,
)
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.passes.spirv.update_vce import update
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.raw.binary import RawInstruction, decode
from xdsl_spirv.serialization.raw.operands import RawOperand
from xdsl_spirv.tools import khronos

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "filecheck"
FILES = sorted(f for part in ("dialects", "rules") for f in (TESTS / part).rglob("*.mlir"))
SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
SYMBOL_VALUES = {"scope": 3, "layout": 0}
"""Values of undefined symbols, as specialization constants. The default is 16."""


MODULE_LEVEL = (FuncOp, GlobalVariableOp, SpecConstantOp, SpecConstantCompositeOp, EntryPointOp)


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Test, Func, SPIRV):
        ctx.load_dialect(dialect)
    return ctx


@cache
def modules(file: Path) -> list[tuple[str, SPIRVModuleOp]]:
    """Returns the complete shader modules made from a file's valid chunks, with their texts."""
    found: list[tuple[str, SPIRVModuleOp]] = []
    for chunk in SPLIT.split(file.read_text()):
        try:
            program = Parser(context(), chunk).parse_module()
            program.verify()
        except (ParseError, VerifyException):
            continue
        contained = [m.clone() for m in modules_in(program)] or [wrapped(program)]
        for module in contained:
            complete(module)
            update(module)
            for op in module.walk():
                op.attributes.pop("note", None)
            try:
                module.verify()
            except VerifyException:
                # A fragment: in a complete shader, further rules apply.
                continue
            found.append((chunk, module))
    return found


def wrapped(program: ModuleOp) -> SPIRVModuleOp:
    """Returns a module with the program's functions, and one function of all other operations."""
    block = Block()
    own: list[Operation] = []
    for op in program.clone().body.block.ops:
        op.detach()
        if isinstance(op, TestOp):
            for result in op.results:
                result.replace_all_uses_with(block.insert_arg(result.type, len(block.args)))
        elif isinstance(op, MODULE_LEVEL):
            own.append(op)
        else:
            block.add_op(op)
    block.add_op(ReturnOp())
    func = FuncOp("chunk", ([a.type for a in block.args], []), Region(block))
    module = SPIRVModuleOp([*own, func])
    defined = {symbol_of(op) for op in own}
    for number, name in enumerate(sorted(symbols(module) - defined)):
        value = IntegerAttr(SYMBOL_VALUES.get(name, 16), i32)
        module.body.block.insert_op_before(SpecConstantOp(name, value, number), func)
    return module


def symbols(op: Operation) -> set[str]:
    """Returns the symbols that an operation's types and properties name."""
    found: set[str] = set()

    def visit(attribute: Attribute) -> None:
        if isinstance(attribute, SymbolRefAttr):
            found.add(attribute.string_value())
        elif isinstance(attribute, ParametrizedAttribute):
            for parameter in attribute.parameters:
                visit(parameter)

    for inner in op.walk():
        for attribute in (*inner.properties.values(), *(r.type for r in inner.results)):
            visit(attribute)
        for operand in inner.operands:
            visit(operand.type)
    return found


def complete(module: SPIRVModuleOp) -> None:
    """Adds an empty entry point to a module without one."""
    block = module.body.block
    if any(isinstance(op, EntryPointOp) for op in block.ops):
        return
    block.add_op(FuncOp("nothing", ([], []), Region(Block([ReturnOp()]))))
    kernel = module.memory_model.data is MemoryModel.OpenCL
    model = ExecutionModel.Kernel if kernel else ExecutionModel.GLCompute
    block.add_op(EntryPointOp(model, "nothing", []))
    if not kernel:
        block.add_op(ExecutionModeOp("nothing", ExecutionMode.LocalSize, [1, 1, 1]))


class Canonical:
    """
    A module in words on which two serializers agree.

    Types, constants and variables are expanded, ids in functions are numbered by definition, and
    unordered parts (annotations, pairs of a phi) are sorted. Block is omitted: MLIR 22 decorates
    the struct of any pointer, also nested ones, but not the struct of an array of buffers.
    """

    def __init__(self, binary: bytes):
        self._notes: defaultdict[int, list[RawInstruction]] = defaultdict(list)
        self._global: dict[int, RawInstruction] = {}
        self._local: dict[int, str] = {}
        self._functions: set[int] = set()
        self._said: dict[int, str] = {}
        rows = list(decode(binary))
        start = next(i for i, row in enumerate(rows) if row.name == "OpFunction")
        for row in rows:
            block = row.name == "OpDecorate" and row.operands[1].value == Decoration.Block
            if row.name in ("OpDecorate", "OpMemberDecorate", "OpName") and not block:
                self._notes[int(row.operands[0].value)].append(row)
            result = _result(row)
            if row.name == "OpFunction":
                self._functions.add(result)
            elif row.index < start:
                self._global[result] = row
            elif result:
                self._local[result] = f"%{len(self._local)}"
        self.header = sorted(
            self._line(row)
            for row in rows[:start]
            if not _result(row)
            and row.name
            not in ("OpDecorate", "OpMemberDecorate", "OpName", "OpEntryPoint", "OpSource")
        )
        self.globals = {self._say(i) for i, row in self._global.items() if i and _declares(row)}
        self.functions = [self._line(row) for row in rows[start:]]
        self.interfaces = {
            " ".join(self._say_operand(o) for o in row.operands[:3]): {
                self._say_operand(o) for o in row.operands[3:]
            }
            for row in rows[:start]
            if row.name == "OpEntryPoint"
        }

    def _line(self, row: RawInstruction) -> str:
        parts = [self._say_operand(o) for o in row.operands]
        if row.name == "OpPhi":
            pairs = sorted(zip(parts[2::2], parts[3::2], strict=True))
            parts = [*parts[:2], *(" ".join(p) for p in pairs)]
        return " ".join([row.name or "?", *parts])

    def _say_operand(self, operand: RawOperand) -> str:
        if operand.kind.startswith("Id"):
            return self._say(int(operand.value))
        return repr(operand.value)

    def _say(self, target: int) -> str:
        if target in self._local:
            return self._local[target]
        if target not in self._said:
            self._said[target] = "..."
            symbol = target in self._functions or self._global[target].name in SYMBOLS
            notes = [n for n in self._notes[target] if symbol or n.name != "OpName"]
            said = [" ".join(self._say_operand(o) for o in n.operands[1:]) for n in notes]
            if target not in self._functions:
                row = self._global[target]
                operands = [o for o in row.operands if o.kind != "IdResult"]
                said.insert(0, " ".join([row.name or "", *map(self._say_operand, operands)]))
            self._said[target] = f"({'; '.join([*said[:1], *sorted(said[1:])])})"
        return self._said[target]


SYMBOLS = ("OpVariable", "OpSpecConstant", "OpSpecConstantTrue", "OpSpecConstantFalse")


def _result(row: RawInstruction) -> int:
    return next((int(o.value) for o in row.operands if o.kind == "IdResult"), 0)


def _declares(row: RawInstruction) -> bool:
    return row.name not in ("OpExtInstImport", "OpString")


def test_the_corpus_is_not_empty():
    assert sum(len(modules(file)) for file in FILES) >= 100


REFUSED = (
    # The fragment breaks semantic rules that the dialect does not have.
    "AtomicCompareExchangeWeak requires SPIR-V version 1.3 or earlier",
    "Logical addressing not supported: ConvertUToPtr",
    "Scope ids must be OpConstant when Shader capability is present",
    "OpPtrAccessChain must have a Base whose type is decorated with ArrayStride",
    "LinkageAttributes",
    "In SPIR-V 1.4 or earlier, Direction must be a constant instruction",
    # The module of a carrier declares its requirements.
    "Opcode MemoryNamedBarrier requires one of these capabilities: NamedBarrier",
    "Execution mode can only be used with the Kernel execution model",
    # SPV_INTEL_cache_controls allows one per cache level; spirv-val 2025.5 accepts only one.
    "decorated with CacheControlLoadINTEL multiple times",
    # The extension allows "a scalar or vector of float"; spirv-val 2025.5 refuses bfloat16.
    "GroupNonUniformRotateKHR doesn't support BFloat16 type",
)
"""Messages of spirv-val that are not caused by the encoder."""


VALIDATED = [f for f in FILES if f.parent.name != "families"]
"""Files validated in this test. test_families.py validates all other files."""


@pytest.mark.parametrize("file", VALIDATED, ids=[str(f.relative_to(TESTS)) for f in VALIDATED])
def test_spirv_val_accepts(file: Path, spirv_val: str):
    for chunk, module in modules(file):
        said = khronos.spirv_val(encode(module), "spv1.6")
        assert said == "" or any(known in said for known in REFUSED), chunk


@pytest.mark.parametrize("file", FILES, ids=[str(f.relative_to(TESTS)) for f in FILES])
def test_ids_are_dense_and_bytes_the_same_every_time(file: Path):
    for chunk, module in modules(file):
        binary = encode(module)
        assert encode(module.clone()) == binary
        rows = decode(binary)
        results = {_result(row) for row in rows} - {0}
        assert results == set(range(1, rows.header.bound)), chunk


@pytest.mark.parametrize("file", FILES, ids=[str(f.relative_to(TESTS)) for f in FILES])
def test_same_as_mlir(file: Path, mlir_translate: str, spirv_val: str):
    """Modules that MLIR cannot parse or serialize validly are skipped."""
    command = [mlir_translate, "--no-implicit-module", "--serialize-spirv"]
    for chunk, module in modules(file):
        done = subprocess.run(command, input=str(module).encode(), capture_output=True, check=False)
        ours = encode(module, names=True)
        if done.returncode:
            continue
        if khronos.spirv_val(done.stdout, "spv1.6") and not khronos.spirv_val(ours, "spv1.6"):
            continue
        a, b = Canonical(ours), Canonical(done.stdout)
        assert a.header == b.header, chunk
        assert a.functions == b.functions, chunk
        assert a.globals == b.globals, chunk
        assert a.interfaces.keys() == b.interfaces.keys(), chunk
        for entry, listed in a.interfaces.items():
            assert listed >= b.interfaces[entry], chunk
