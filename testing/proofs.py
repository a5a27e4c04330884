"""
Proof obligations: rewrites that must not change results for any input, with their conditions.

An obligation consists of two kernels that must be equal: a kernel before and after a pass, or the
two sides of a pattern's equation. Buffers have arbitrary contents. docs/proofs.md lists obligations
by family. A test compares the page with this table and proves each obligation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from xdsl.passes import PassPipeline
from xdsl.traits import Commutative
from xdsl.universe import Universe

from xdsl_spirv.dialects.spirv import OPERATIONS
from xdsl_spirv.dialects.spirv.bit import Shift
from xdsl_spirv.dialects.spirv.conversion import BitcastOp, WidthConversion
from xdsl_spirv.dialects.spirv.folding import IntegerFoldable
from xdsl_spirv.dialects.spirv.logic import BooleanBinary, IntegerComparison, LogicalNotOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.prove.equivalence import Verdict, compare_kernels
from xdsl_spirv.prove.solvers import Limits
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.testing.differential.families.operations import apply
from xdsl_spirv.testing.differential.float_rules import RULES
from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.types import INTEGERS, Type

SMALL = "spirv-small-storage-to-words,spirv-small-integers-to-32-bits"
WORDS = "spirv-int64-to-words"
BFLOAT16 = "spirv-bfloat16-to-bits"
DOT = "spirv-dot-to-shifts"
ROTATE = "spirv-rotate-to-shuffle"

OPEN = frozenset(
    [
        *("int64-to-words: IMul i64", "int64-to-words: ConvertSToF to f64 i64"),
        "int64-to-words: ConvertUToF to f64 i64",
        *(f"int64-to-words: {n} i64" for n in ("SDiv", "SRem", "SMod", "UDiv", "UMod")),
        *(f"small-integers: {n} i16" for n in ("SDiv", "SRem", "SMod", "UDiv", "UMod")),
    ]
)
"""Obligations that no solver decides within the limits. Tests only run these on examples."""

SLOW = frozenset(f"small-integers: {n} i8" for n in ("SDiv", "SRem", "SMod", "UDiv", "UMod"))
"""Obligations that take more than a second each."""


@dataclass(frozen=True)
class Obligation:
    """A kernel, and a pass or a second kernel that must give the same results."""

    family: str
    what: str
    before: str
    passes: str = ""
    after: str = ""
    lanes: int = 1
    """
    Number of invocations that are executed. The operands of all other invocations are arbitrary.
    """

    @property
    def name(self) -> str:
        return f"{self.family}: {self.what}"

    def prove(self, limits: Limits = Limits()) -> Verdict:
        """Runs the solvers on the obligation. Returns their verdict."""
        before, after = load(self.before), load(self.after or self.before, self.passes)
        return compare_kernels(before, after, "main", limits=limits, invocations=self.lanes)


@cache
def _context():
    return context()


def load(text: str, passes: str = "") -> ModuleOp:
    """Parses a module and runs passes."""
    module = parse_text(text, ctx=_context())
    if passes:
        known = Universe.get_multiverse().all_passes
        PassPipeline.parse_spec(known, passes).apply(_context(), module)
    return find_module(module)


def kernel_of(write: Callable[[Kernel], tuple[str, Type]]) -> str:
    """Returns the text of a kernel that stores one value. `write` emits the code of the value."""
    kernel = Kernel("operations", 1)
    value, type = write(kernel)
    kernel.output(value, type, "the result")
    return kernel.text()


def obligations() -> list[Obligation]:
    """Returns all obligations, in the order of docs/proofs.md."""
    makers = (canonicalizations, small_integers, words, dots, bfloat16, rotations, bit_fields)
    return [obligation for maker in makers for obligation in maker()]


def _operations(family: str, scalars: tuple[str, ...], passes: str) -> Iterator[Obligation]:
    """Yields an obligation for each rule of the differential tests, on the given scalar types."""
    for rule in RULES:
        for scalar in (s for s in scalars if s in rule.scalars):
            kernel = Kernel("operations", 1)
            apply(kernel, rule, scalar, min(rule.counts))
            yield Obligation(family, f"{rule.name} {scalar}", kernel.text(), passes)


def small_integers() -> Iterator[Obligation]:
    """Yields obligations for 8-bit and 16-bit integers lowered to words, also in memory."""
    yield from _operations("small-integers", ("i8", "i16"), SMALL)


def words() -> Iterator[Obligation]:
    """Yields obligations for 64-bit integers as pairs of words."""
    yield from _operations("int64-to-words", ("i64",), WORDS)


def dots() -> Iterator[Obligation]:
    """Yields obligations for integer dot products that are lowered to shifts and products."""
    for form in ("SDot", "UDot", "SUDot", "SDotAccSat", "UDotAccSat", "SUDotAccSat"):
        for type, result in (("i32", "i32"), ("vector<4xi8>", "i32"), ("vector<4xi8>", "i16"),
                             ("i32", "i8"), ("vector<2xi16>", "i32")):  # fmt: skip
            # A sum that exceeds the result's type is undefined in a saturating form (DOT-17).
            if form.endswith("AccSat") and result in ("i8", "i16"):
                continue
            if form.endswith("AccSat") and type == "vector<2xi16>":
                continue
            yield Obligation("dot-to-shifts", f"{form} {type} -> {result}",
                             _dot(form, type, result), DOT)  # fmt: skip


def _dot(form: str, type: str, result: str) -> str:
    packed = ", <PackedVectorFormat4x8Bit>" if type == "i32" else ""
    scalar = type.partition("x")[2].rstrip(">") or type
    operand = Type(scalar, int(type[7]) if "vector" in type else 1)

    def write(k: Kernel) -> tuple[str, Type]:
        given = [k.input(operand)[0] for _ in range(2)]
        if form.endswith("AccSat"):
            given.append(k.input(Type(result))[0])
        text = f"spirv.{form} {', '.join(given)}{packed} : {type} -> {result}"
        return k.op(text), Type(result)

    return kernel_of(write)


def bfloat16() -> Iterator[Obligation]:
    """Yields obligations for conversions of bfloat16 that are lowered to operations on bits."""
    for source, target in (("bf16", "f32"), ("f32", "bf16"), ("bf16", "f16"), ("f16", "bf16")):
        yield Obligation(
            "bfloat16-to-bits", f"FConvert {source} to {target}",
            convert_kernel(f"spirv.FConvert %x : {source} to {target}", source, target), BFLOAT16,
        )  # fmt: skip


def convert_kernel(operation: str, source: str, target: str) -> str:
    """Returns a kernel that applies one operation to a value of each invocation."""
    sizes = {"f64": 8, "f32": 4, "i32": 4, "i64": 8}
    struct = (
        "!spirv.ptr<!spirv.struct<(!spirv.rtarray<{0}, stride={1}> [0]), Block>, StorageBuffer>"
    )
    types = [struct.format(t, sizes.get(t, 2)) for t in (source, target)]
    loads = "\n".join(
        f"%a{n} = spirv.mlir.addressof @b{n} : {type}\n"
        f"%p{n} = spirv.AccessChain %a{n}[%zero, %zero] : {type}, i32, i32 "
        f"-> !spirv.ptr<{name}, StorageBuffer>"
        for n, (type, name) in enumerate(zip(types, (source, target), strict=True))
    )
    return f"""spirv.module Logical Vulkan {{
spirv.GlobalVariable @b0 bind(0, 0) : {types[0]}
spirv.GlobalVariable @b1 bind(0, 1) : {types[1]}
spirv.func @main() "None" {{
%zero = spirv.Constant 0 : i32
{loads}
%x = spirv.Load "StorageBuffer" %p0 : {source}
%y = {operation}
spirv.Store "StorageBuffer" %p1, %y : {target}
spirv.Return
}}
spirv.EntryPoint "GLCompute" @main
spirv.ExecutionMode @main "LocalSize", 1, 1, 1
}}"""


def rotations() -> Iterator[Obligation]:
    """
    Yields obligations for rotations that are lowered to shuffles, in subgroups, clusters and
    workgroups.
    """
    for what, rest in (
        ("of a subgroup", "<Subgroup> {0}, {1} : i32, i32 -> i32"),
        ("of clusters of 4", "<Subgroup> {0}, {1}, cluster_size({2}) : i32, i32, i32 -> i32"),
        ("of a workgroup", "<Workgroup> {0}, {1} : i32, i32 -> i32"),
    ):

        def write(k: Kernel, rest: str = rest) -> tuple[str, Type]:
            value, delta = (k.input(Type("i32"))[0] for _ in range(2))
            rotated = rest.format(value, delta, k.constant(4))
            return k.op(f"spirv.GroupNonUniformRotateKHR {rotated}"), Type("i32")

        yield Obligation("rotate-to-shuffle", what, kernel_of(write), ROTATE, lanes=32)


def bit_fields() -> Iterator[Obligation]:
    """
    Yields obligations for bit fields that are converted to f32 by an OR with the bits of 2^23.
    """
    for count, low in ((4, 0), (4, 8), (4, 16), (8, 0), (8, 8), (2, 20), (1, 3), (6, 10)):
        mask, scale = ((1 << count) - 1) << low, 2.0**-low

        def extract(k: Kernel, low: int = low, count: int = count) -> tuple[str, Type]:
            word = k.input(Type("i32"))[0]
            operands = f"{word}, {k.constant(low)}, {k.constant(count)}"
            field = k.op(f"spirv.BitFieldUExtract {operands} : i32, i32, i32")
            return k.op(f"spirv.ConvertUToF {field} : i32 to f32"), Type("f32")

        def add_exponent(k: Kernel, mask: int = mask, scale: float = scale) -> tuple[str, Type]:
            word = k.input(Type("i32"))[0]
            kept = k.op(f"spirv.BitwiseAnd {word}, {k.constant(mask)} : i32")
            bits = k.op(f"spirv.BitwiseOr {kept}, {k.constant(0x4B000000)} : i32")
            number = k.op(f"spirv.Bitcast {bits} : i32 to f32")
            scaled = k.op(f"spirv.FMul {number}, {k.constant(f'{scale:.17e}', 'f32')} : f32")
            less = k.constant(f"{2.0**23 * scale:.17e}", "f32")
            return k.op(f"spirv.FSub {scaled}, {less} : f32"), Type("f32")

        yield Obligation("bit-fields", f"{count} bits from bit {low} as a float",
                         kernel_of(extract), after=kernel_of(add_exponent))  # fmt: skip


def canonicalizations() -> Iterator[Obligation]:
    """Yields obligations for neutral and absorbing operands, and for swapped operands."""
    for cls in (c for c in OPERATIONS if issubclass(c, IntegerFoldable)):
        if issubclass(cls, WidthConversion | BitcastOp | LogicalNotOp):
            continue
        boolean = issubclass(cls, BooleanBinary)
        for scalar in ("i1",) if boolean else INTEGERS:
            yield from _of_class(cls, scalar)


def _of_class(cls: type[IntegerFoldable], scalar: str) -> Iterator[Obligation]:
    result = Type("i1" if issubclass(cls, IntegerComparison | BooleanBinary) else scalar)
    types = ", ".join([scalar] * (1 + issubclass(cls, Shift)))
    name = cls.name.removeprefix("spirv.")

    def with_number(number: int) -> str:
        def write(k: Kernel) -> tuple[str, Type]:
            x, c = _operand(k, scalar), k.op(f"spirv.Constant {_spell(number, scalar)}")
            return k.op(f"{cls.name} {x}, {c} : {types}"), result

        return kernel_of(write)

    def of_both(exchanged: bool) -> str:
        def write(k: Kernel) -> tuple[str, Type]:
            operands = [_operand(k, scalar) for _ in range(2)][:: -1 if exchanged else 1]
            return k.op(f"{cls.name} {', '.join(operands)} : {types}"), result

        return kernel_of(write)

    for what, number in (("neutral", cls.NEUTRAL), ("absorbing", cls.ABSORBING)):
        if number is not None:
            yield Obligation("canonicalize", f"{name} by its {what} {number}, {scalar}",
                             with_number(number), "canonicalize")  # fmt: skip
    if Commutative in {type(trait) for trait in cls.traits}:
        yield Obligation("canonicalize", f"{name} with operands exchanged, {scalar}",
                         of_both(False), after=of_both(True))  # fmt: skip


def _operand(k: Kernel, scalar: str) -> str:
    if scalar != "i1":
        return k.input(Type(scalar))[0]
    return k.op(f"spirv.INotEqual {k.input(Type('i32'))[0]}, %zero : i32")


def _spell(number: int, scalar: str) -> str:
    return str(bool(number)).lower() if scalar == "i1" else f"{number} : {scalar}"
