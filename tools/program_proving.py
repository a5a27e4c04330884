"""
Proves the kernels of a compiled program, with the grids, buffers and sizes of its dispatches.

Buffers may have any contents. Grids, lengths and push constants are symbolic expressions if they
depend on run-time sizes.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.pointers import written_variables
from xdsl_spirv.passes.spirv.specialize import specialize
from xdsl_spirv.progress import noted
from xdsl_spirv.prove.kernel import CONSECUTIVE
from xdsl_spirv.prove.places import member_names
from xdsl_spirv.prove.questions import execute, prove
from xdsl_spirv.prove.solvers import Limits
from xdsl_spirv.prove.values import Term, Unsupported, z3
from xdsl_spirv.runtime.elements import element_bytes
from xdsl_spirv.runtime.manifest import PADDING, Buffer, Dispatch, Loop, Manifest
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.speech import counted
from xdsl_spirv.tools.kernel_proving import ALWAYS, Reason, Result, judge
from xdsl_spirv.tools.kernel_test.description import KernelTest
from xdsl_spirv.tools.report import note_row

WIDE = 128
"""Width of the arithmetic on sizes, in bits. Products of sizes do not overflow."""


@dataclass(frozen=True)
class Launch:
    """A dispatch of a function, and the loop that contains the dispatch, if any."""

    manifest: Manifest
    dispatch: Dispatch
    loop: Loop | None = None

    def key(self) -> tuple[Any, ...]:
        """Returns the data on which the proof of this launch depends."""
        d, buffers = self.dispatch, {b.name: b for b in self.manifest.buffers}
        shapes = tuple((b.binding, buffers[b.buffer].type, buffers[b.buffer].shape)
                       for b in d.bindings)  # fmt: skip
        return (d.kernel, d.entry_point, d.grid, shapes, d.spec_constants, d.push_constants)


def list_launches(program: Program) -> list[Launch]:
    """Returns the distinct launches of all functions of a program."""
    launches: dict[tuple[Any, ...], Launch] = {}
    for function in program.functions.values():
        manifest = function.manifest
        for number, dispatch in enumerate(manifest.dispatches):
            loop = next((p for p in manifest.loops if number in p.numbers), None)
            launch = Launch(manifest, dispatch, loop)
            launches.setdefault(launch.key(), launch)
    return list(launches.values())


def report_proofs(program: Program, limits: Limits) -> int:
    """Proves each launch of a program and prints the verdicts. Returns 1 if a proof fails."""
    launches, proved = list_launches(program), 0
    for launch in noted("proving launches", launches, lambda one: one.dispatch.kernel):
        d = launch.dispatch
        result = prove_launch(program.code[d.kernel].binary, launch, limits)
        proved += result.verdict == "proved"
        print(f"{d.kernel}.{d.entry_point}: {'x'.join(map(str, d.grid))}: {result.verdict}")
        for line in result.lines:
            print(f"  {line}")
        for text in result.given if result.verdict == "proved" else ():
            print(f"  {text}")
        row = {"kernel": d.kernel, "entry_point": d.entry_point, "grid": d.grid}
        note_row("proofs", {**row, "verdict": result.verdict, "reasons": result.lines,
                            "offered": result.offered})  # fmt: skip
    print(f"{proved} of {counted(len(launches), 'launch')} proved, for all contents of buffers")
    print(f"premises of every proof: {ALWAYS}")
    return int(proved < len(launches))


def prove_launch(binary: bytes, launch: Launch, limits: Limits) -> Result:
    """Proves or refutes a kernel for one launch of a program."""
    module, dispatch = decode(binary), launch.dispatch
    specialize(module, {str(s.id): str(s.value).lower() for s in dispatch.spec_constants},
               defaults=True)  # fmt: skip
    sizes = Sizes(launch)
    try:
        shared = _find_overlap(launch, module)
        if shared:
            raise Unsupported(f"two buffers of the dispatch share memory: {shared}")
        numbers = sizes.numbers(module)
        kernel = execute(module, dispatch.entry_point, numbers, sizes.facts, limits)
        kernel.exact = True
        proof = prove(kernel, {}, [{}], limits.restart())
    except Unsupported as error:
        return Result("unknown", [Reason(error.reason, error.op)])
    except InterpreterError as error:
        return Result("unknown", [Reason(str(error).partition("\n")[0])])
    proof.given = sizes.texts
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{dispatch.kernel}.spv")
        path.write_bytes(binary)
        size = launch.manifest.subgroup_size
        test = KernelTest(path, path, dispatch.entry_point, subgroup_sizes=(size,) if size else ())
        return judge(proof, test, limits.restart())


def _reads_subgroups(module: ModuleOp) -> bool:
    """True if a kernel uses built-ins or instructions of subgroups."""
    return any(
        isinstance(op, spv.GroupNonUniformOperation | spv.MatrixMemoryOperation)
        or (isinstance(op, spv.GlobalVariableOp) and "Subgroup" in str(op.built_in))
        for op in module.walk()
    )


def _find_overlap(launch: Launch, module: ModuleOp) -> str:
    """Returns two bound buffers that share memory, if the kernel may write to either of them."""
    buffers, written = {b.name: b for b in launch.manifest.buffers}, written_variables(module)
    changed = {
        (_number(op.descriptor_set), _number(op.binding))
        for op in module.body.block.ops
        if isinstance(op, spv.GlobalVariableOp) and (written is None or op.sym_name.data in written)
    }
    bindings = launch.dispatch.bindings
    is_written = [(b.set, b.binding) in changed for b in bindings]
    bound = [buffers[b.buffer] for b in bindings]
    for number, one in enumerate(bound):
        for earlier, other in enumerate(bound[:number]):
            if not is_written[number] and not is_written[earlier]:
                continue
            placed = one.offset is not None and other.offset is not None
            if one.name == other.name or (
                placed
                and not (one.is_dynamic or other.is_dynamic)
                and (one.offset or 0) < (other.offset or 0) + other.bytes
                and (other.offset or 0) < (one.offset or 0) + one.bytes
            ):
                return f"{one.name}, {other.name}"
    return ""


class Sizes:
    """Sizes of a launch, as solver terms of the program's run-time sizes."""

    def __init__(self, launch: Launch):
        self.launch = launch
        self.known: dict[str, Term] = {}
        self.facts: list[Term] = []
        self.texts: list[str] = []
        manifest = launch.manifest
        for equation in manifest.equal:
            self.facts.append(self.term(equation.left) == self.term(equation.right))
        for limit in manifest.limits:
            self.facts.append(z3.ULE(self.term(limit.size), self.term(limit.most)))
        if launch.loop is not None:
            steps = self.term(launch.loop.steps)
            self.facts.append(z3.ULT(self.term(launch.loop.counter), steps))

    def term(self, size: int | str) -> Term:
        """Converts a size to a solver term."""
        if isinstance(size, int):
            return z3.BitVecVal(size, WIDE)
        return self._read(ast.parse(size, mode="eval").body)

    def _read(self, node: ast.expr) -> Term:
        match node:
            case ast.Name():
                if node.id not in self.known:
                    self.known[node.id] = z3.BitVec(node.id, 32)
                    self.facts.append(z3.ULT(self.known[node.id], 1 << 31))
                return z3.ZeroExt(WIDE - 32, self.known[node.id])
            case ast.Constant():
                return z3.BitVecVal(int(str(node.value)), WIDE)
            case ast.Call():
                x, y = map(self._read, node.args)
                return z3.If(z3.ULT(x, y), x, y)
            case ast.BinOp():
                x, y = self._read(node.left), self._read(node.right)
                match node.op:
                    case ast.Add():
                        return x + y
                    case ast.Sub():
                        return x - y
                    case ast.Mult():
                        return x * y
                    case ast.Div():
                        return z3.UDiv(x, y)
                    case _:
                        pass
            case _:
                pass
        raise Unsupported(f"the size {ast.unparse(node)} is not supported")

    def numbers(self, module: ModuleOp) -> Mapping[str, Term]:
        """
        Returns the sizes and constants of the launch, by the names that `Kernel.launch_numbers`
        lists.
        """
        manifest, dispatch = self.launch.manifest, self.launch.dispatch
        made: dict[str, Term] = {}
        if manifest.subgroup_size:
            made["subgroup.size"] = z3.BitVecVal(manifest.subgroup_size, 32)
        if _reads_subgroups(module):
            made[CONSECUTIVE] = z3.BoolVal(True)
            self.texts.append(CONSECUTIVE)
        for axis, count in zip("xyz", dispatch.grid, strict=True):
            made[f"grid.{axis}"] = self._narrow(self.term(count), f"grid.{axis} == {count}")
        buffers = {b.name: b for b in manifest.buffers}
        bound: dict[Any, Buffer] = {
            (b.set, b.binding): buffers[b.buffer] for b in dispatch.bindings
        }
        for op in module.body.block.ops:
            if isinstance(op, spv.GlobalVariableOp):
                buffer = bound.get((_number(op.descriptor_set), _number(op.binding)))
                if buffer is not None:
                    made |= self._find_length(op, buffer)
        made |= self._read_push_constants(module)
        return made

    def _narrow(self, term: Term, text: str) -> Term:
        self.texts.append(text)
        term = z3.simplify(term)
        if not z3.is_bv_value(term):
            self.facts.append(z3.ULT(term, 1 << 31))
        return z3.simplify(z3.Extract(31, 0, term))

    def _find_length(self, op: spv.GlobalVariableOp, buffer: Buffer) -> dict[str, Term]:
        type = op.type.pointee
        last = type.member_types[-1] if isinstance(type, spv.StructType) else None
        if not isinstance(last, spv.RuntimeArrayType):
            return {}
        count: Term = z3.BitVecVal(element_bytes(buffer.type), WIDE)
        for size in buffer.shape:
            count = count * self.term(size)
        padded = z3.UDiv(count + (PADDING - 1), z3.BitVecVal(PADDING, WIDE)) * PADDING
        if buffer.is_dynamic:
            # Vulkan's maxStorageBufferRange has 32 bits.
            self.facts.append(z3.ULT(padded, 1 << 32))
        name, shape = op.sym_name.data, "x".join(map(str, buffer.shape))
        stride = spv.array_stride(last)
        length = z3.UDiv(padded, z3.BitVecVal(stride, WIDE))
        text = f"{name} has {shape or 1} {buffer.type}"
        return {f"len({name})": self._narrow(length, text)}

    def _read_push_constants(self, module: ModuleOp) -> dict[str, Term]:
        given = {p.offset: p.value for p in self.launch.dispatch.push_constants}
        made: dict[str, Term] = {}
        for op in module.body.block.ops:
            if not isinstance(op, spv.GlobalVariableOp):
                continue
            type, storage = op.type.pointee, op.storage_class
            if not isinstance(type, spv.StructType) or storage is not spv.StorageClass.PushConstant:
                continue
            names = member_names(module, type)
            for name, offset in zip(names, type.offsets, strict=True):
                value = given.get(offset.data)
                if isinstance(value, int | str):
                    text = f"the push constant at {offset.data} == {value}"
                    made[name] = self._narrow(self.term(value), text)
        return made


def _number(attribute: Any) -> int | None:
    return getattr(getattr(attribute, "value", attribute), "data", attribute)
