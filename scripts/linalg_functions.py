"""
Compares other projects' linalg functions on tensors with mlir-opt and mlir-runner.

    python scripts/linalg_functions.py iree/tests iree/compiler --every 4
    python scripts/linalg_functions.py FOLDER --only NAME --show

The script searches folders of the user's checkouts for .mlir files with linalg. Each function on
tensors and scalars is extracted with the aliases that it uses. Large sizes are divided as far as
MLIR accepts, and dynamic sizes are chosen to fit the loops. MLIR's own lowering (mlir-opt-22,
mlir-runner-22) computes the expected results, with runtime checks of sizes. They are compared with
`interpret`, and with the lavapipe program on the interpreter. *not judged*: MLIR refuses or aborts
the function. *refused*: we refuse the function with a reason. *at fault*: any other exception. The
exit status is 1 if a result is wrong or at fault.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import BlockArgument
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import DiagnosticException, ParseError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from xdsl_spirv.compiler.compiler import compile_module  # noqa: E402
from xdsl_spirv.interpreter import InterpreterError, interpret  # noqa: E402
from xdsl_spirv.runtime.elements import dtype_of  # noqa: E402
from xdsl_spirv.runtime.errors import ProgramError  # noqa: E402
from xdsl_spirv.runtime.execution import run  # noqa: E402
from xdsl_spirv.runtime.modules import parse_text  # noqa: E402
from xdsl_spirv.runtime.program import Program  # noqa: E402

LARGE = 512
"""Number of elements above which a tensor's sizes are divided, if MLIR accepts this."""
LARGEST = 1 << 15
"""Maximum number of elements of a tensor."""
LIBRARIES = [f"/usr/lib/llvm-22/lib/libmlir_{n}runner_utils.so.22.1" for n in ("", "c_")]
LOWERING = """convert-elementwise-to-linalg linalg-generalize-named-ops
one-shot-bufferize=bufferize-function-boundaries,allow-return-allocs-from-loops
generate-runtime-verification convert-linalg-to-loops lower-affine convert-scf-to-cf
expand-strided-metadata memref-expand arith-expand convert-math-to-llvm convert-math-to-libm
finalize-memref-to-llvm lower-affine convert-func-to-llvm convert-arith-to-llvm convert-cf-to-llvm
convert-index-to-llvm convert-complex-to-llvm reconcile-unrealized-casts""".split()
DECOMPOSED = """module attributes {transform.with_named_sequence} {
transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
BODY
transform.yield } }"""
MATCH = (
    '%{0} = transform.structured.match ops{{["linalg.{0}"]}} in %root '
    ': (!transform.any_op) -> !transform.op<"linalg.{0}">\n'
    '%{0}_{1} = transform.structured.{2} %{0} : (!transform.op<"linalg.{0}">) -> '
)
STEPS = {
    "pack": ("lower_pack", ("tensor.pad", "tensor.expand_shape", "linalg.transpose")),
    "unpack": (
        "lower_unpack",
        ("tensor.empty", "linalg.transpose", "tensor.collapse_shape", "tensor.extract_slice"),
    ),
    "softmax": ("decompose_interface", ()),
    "winograd_filter_transform": ("decompose_winograd_op", ()),
    "winograd_input_transform": ("decompose_winograd_op", ()),
    "winograd_output_transform": ("decompose_winograd_op", ()),
}
"""
Maps an operation that MLIR cannot lower directly to a transform that lowers it, and to the kinds of
operations that the transform returns.
"""
PRINTED = {"f32": "F32", "f64": "F64", "i32": "I32", "i64": "I64"}
NOTES = "(?:secret|tensor_ext|mgmt|iree_codegen|iree_encoding)"
"""Dialects whose attributes do not change results."""
ELEMENT = r"(?:f16|bf16|f32|f64|i1|i4|i8|i16|i32|i64|index)"
HEAD = re.compile(
    r"^\s*(?:util\.func|func\.func|func)\s+(?:public\s+|private\s+)?@([\w.$-]+)\s*\(", re.M
)
Array = np.ndarray[Any, np.dtype[Any]]


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each function in a file. The text contains the aliases in use."""
    for piece in re.split(r"^//\s*-----.*$", text, flags=re.M):
        lines = [re.sub(r"\s*//.*", "", line) for line in piece.splitlines()]
        piece = "\n".join(line for line in lines if line.strip())
        aliases = "".join(re.findall(r"^[#!]\w+\s*=.*\n(?:[ \t}\]].*\n)*", piece + "\n", re.M))
        aliases = re.sub(rf"^#\w+\s*=\s*#{NOTES}\..*\n", "", aliases, flags=re.M)
        heads = list(HEAD.finditer(piece))
        bodies = {f[1]: _plain(_take_function(piece[f.start() :])) for f in heads}
        for name in [f[1] for f in heads if " private " not in f[0]]:
            body = bodies[name]
            text = f"{aliases}\n{body}"
            names = dict.fromkeys(re.findall(r"\bcall @(\w+)", body))
            called = [bodies[n] for n in names if n in bodies]
            if called:
                text = _inline("\n".join([text, *called]), name)
            if "linalg." in text and "tensor<" in text and "memref<" not in text:
                yield name, text


def _inline(text: str, name: str) -> str:
    """Returns a function after MLIR inlined its callees, or unchanged if MLIR refuses."""
    text = re.sub(rf"func\.func @(?!{re.escape(name)}\()", "func.func private @", text)
    command = ["mlir-opt-22", "--inline", "--symbol-dce", "--mlir-print-local-scope"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        return text
    return re.sub(r"^module \{\n(.*)^\}\s*$", r"\1", done.stdout, flags=re.S | re.M)


def _take_function(text: str) -> str:
    depth = 0
    for brace in re.finditer(r"[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if not depth and text[brace.end() : brace.end() + 1] in ("", "\n"):
            return text[: brace.end()]
    return text


def _plain(body: str) -> str:
    """Returns a function without IREE's attributes and checks."""
    body = HEAD.sub(r"func.func @\1(", body.strip(), count=1)
    body = re.sub(r"\butil\.call\b", "call", body)
    for theirs, plain in (
        ("util.return", "return"),
        ("util.unfoldable_constant", "arith.constant"),
    ):
        body = body.replace(theirs, plain)
    body = re.sub(r"(flow\.tensor\.tie_shape .*)\{.*\}", r"\1", body)
    barrier = r"(?:util\.optimization_barrier|flow\.tensor\.tie_shape) (%[\w#]+) : (.*)"
    body = re.sub(barrier, r"tensor.cast \1 : \2 to \2", body)
    known = r"(%\w+) = flow\.tensor\.dynamic_constant ([^:]*) : (tensor<[^>]*>) -> (tensor<[^>]*>)"
    made = r"\1_known = arith.constant \2 : \3\n\1 = tensor.cast \1_known : \3 to \4"
    body = re.sub(known, made, body)
    body = re.sub(r"(\w+_config|\w+_info|__\w+__) *= *#[\w.<]+[^,}]*,? *", "", body)
    body = re.sub(r"\s+attributes\s*\{[^\n]*\}\s*\{$", " {", body, count=1, flags=re.M)
    body = re.sub(rf"\s*\{{[^{{}}]*\b{NOTES}\.[^{{}}]*\}}", "", body)
    body = re.sub(r"dense_resource<[^>]*>(\s*:\s*tensor<[^>]*x?f\d+>)", r"dense<0.25>\1", body)
    body = re.sub(r"dense_resource<[^>]*>", "dense<1>", body)
    check = r"check\.expect_\w+\s*\((%[\w#]+),.*?\) : (tensor<[^>]*>).*?$"
    expected = re.findall(check, body, re.S | re.M)
    body = re.sub(check, "", body, flags=re.S | re.M)
    read = r"%\w+ = vector\.transfer_read (%[\w#]+)\[[^:]*: (tensor<[^>]*>), vector<[^>]*>"
    if "vector.print" in body:
        expected += re.findall(read, body)
        body = re.sub(rf"{read}|vector\.print [^\n]*", "", body)
    if expected and "->" not in body.partition("{")[0]:
        names, types = (", ".join(c) for c in zip(*expected, strict=True))
        body = re.sub(r"\)\s*(attributes[^{]*)?\{", f") -> ({types}) {{", body, count=1)
        body = re.sub(r"^(\s*)return\s*$", rf"\1return {names} : {types}", body, flags=re.M)
    return body


def smaller(text: str) -> Iterator[str]:
    """Yields variants of a function with sizes divided by decreasing factors."""
    for factor in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):

        def divide(found: re.Match[str], by: int = factor) -> str:
            return str(max(int(found[0]) // by, 2)) if int(found[0]) >= 2 * by else found[0]

        def in_part(found: re.Match[str]) -> str:
            return re.sub(r"(?<![\w.%#-])\d+(?=x|\b)(?!\.)|(?<=x)\d+(?=x)", divide, found[0])

        part = r"tensor<[^>]*>|\[[\d, %\w]+\]|arith\.constant \d+ : index"
        new = re.sub(part, in_part, text) if factor > 1 else text
        sizes = [re.findall(r"\d+(?=x)", t) for t in re.findall(r"tensor<([^>]*)>", new)]
        most = max((np.prod([int(s) for s in size], dtype=float) for size in sizes), default=0)
        if LARGE / 2 < most <= LARGEST or factor == 1:
            yield new


def made_up(element: str, shape: Sequence[int], salt: int) -> Array:
    """
    Returns data for an argument: multiples of 1/8, or small integers usable as indices. Other
    values of `salt` give other data.
    """
    places = np.arange(int(np.prod(shape)), dtype=np.int64)
    numbers = (places * 5 + salt * 3) % 13
    if element in ("f16", "bf16", "f32", "f64"):
        return ((numbers - 6) / 8).reshape(shape).astype(dtype_of(element))
    made = numbers - 6 if element in ("i8", "i16") else numbers % (2 if element == "i1" else 3)
    return made.reshape(shape).astype(np.int64 if element == "index" else dtype_of(element))


def reference(text: str, function: FuncOp, arrays: Sequence[Array]) -> list[Array] | str:
    """Returns the results of MLIR's own lowering, or the reason why there are none."""
    driver: list[str] = []
    names: list[str] = []
    for number, (kind, array) in enumerate(zip(function.function_type.inputs, arrays, strict=True)):
        is_tensor = isinstance(kind, TensorType)
        element = str(kind.element_type if is_tensor else kind)
        wide = np.asarray(array).astype(np.int64 if element.startswith("i") else float)
        listed = str(wide.tolist()).replace("True", "1").replace("False", "0")
        if not is_tensor:
            driver.append(f"%a{number} = arith.constant {listed} : {element}")
        else:
            closed = f"tensor<{''.join(f'{s}x' for s in array.shape)}{element}>"
            body = listed if array.size else ""
            driver.append(f"%c{number} = arith.constant dense<{body}> : {closed}")
            driver.append(f"%m{number} = bufferization.alloc_tensor() copy(%c{number}) : {closed}")
            driver.append(f"%a{number} = tensor.cast %m{number} : {closed} to {kind}")
        names.append(f"%a{number}")
    both = function.function_type.inputs, function.function_type.outputs
    inputs, outputs = (", ".join(map(str, types)) for types in both)
    outcome = f"%r:{len(function.function_type.outputs)} = "
    name = function.sym_name.data
    driver.append(f"{outcome}func.call @{name}({', '.join(names)}) : ({inputs}) -> ({outputs})")
    for number, kind in enumerate(function.function_type.outputs):
        driver += _print_result(f"%r#{number}", kind, number)
    heads = [f"func.func private @printMemref{s}(tensor<*x{e}>)" for e, s in PRINTED.items()]
    aliases, _, rest = text.partition("func.func")
    main = "func.func @reference_driver() {\n" + "\n".join(driver) + "\nreturn }"
    return _execute("\n".join([aliases, *heads, "func.func" + rest, main]))


def _print_result(value: str, kind: Any, number: int) -> list[str]:
    """Returns operations that print a result as a type that MLIR's library can print."""
    is_tensor = isinstance(kind, TensorType)
    element = str(kind.element_type if is_tensor else kind)
    widened = {"f16": "extf f32", "bf16": "extf f32", "i1": "extui i32", "i4": "extsi i32",
               "i8": "extsi i32", "i16": "extsi i32", "index": "index_cast i64"}  # fmt: skip
    shape = str(kind)[7 : -len(element) - 1] if is_tensor else ""
    lines: list[str] = []
    if not is_tensor:
        lines.append(f"%t{number} = tensor.from_elements {value} : tensor<{element}>")
        value = f"%t{number}"
    if element.startswith("f8"):
        widened[element] = "extf f32"
    if element in widened:
        by, to = widened[element].split()
        lines.append(
            f"%w{number} = arith.{by} {value} : tensor<{shape}{element}> to tensor<{shape}{to}>"
        )
        element, value = to, f"%w{number}"
    closed, open_ = f"tensor<{shape}{element}>", f"tensor<*x{element}>"
    lines.append(f"%u{number} = tensor.cast {value} : {closed} to {open_}")
    lines.append(
        f"func.call @printMemref{PRINTED[element]}(%u{number}) : (tensor<*x{element}>) -> ()"
    )
    return lines


def _execute(text: str) -> list[Array] | str:
    with tempfile.TemporaryDirectory() as folder:
        path, lowered, steps = (Path(folder) / n for n in ("m.mlir", "l.mlir", "t.mlir"))
        path.write_text(text)
        passes = [f"--{p.replace(',', ' ')}" for p in LOWERING]
        parts: list[str] = []
        for op, (step, into) in STEPS.items():
            if f"linalg.{op} " in text:
                kinds = [f'!transform.op<"{k}">' for k in into] or ["!transform.any_op"]
                count = f"r:{len(kinds)}" if len(kinds) > 1 else "r"
                parts.append(MATCH.format(op, count, step) + f"({', '.join(kinds)})")
        if parts:
            steps.write_text(DECOMPOSED.replace("BODY", "\n".join(parts)))
            passes = [
                f"--transform-preload-library=transform-library-paths={steps}",
                "--transform-interpreter",
                *passes,
            ]
        command = ["mlir-opt-22", path, *passes, "-o", lowered]
        first = subprocess.run(command, capture_output=True, text=True)
        if first.returncode:
            return "mlir-opt: " + (re.findall(r"error:? (.*)", first.stderr) or ["ended"])[0][:90]
        libraries = f"-shared-libs={','.join(LIBRARIES)}"
        command = ["mlir-runner-22", lowered, "-e", "reference_driver",
                   "-entry-point-result=void", libraries]  # fmt: skip
        try:
            second = subprocess.run(command, capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            return "mlir-runner: 20 s"
        if second.returncode or "ERROR" in second.stderr:
            return "mlir-runner: " + (second.stderr.strip().splitlines() or ["ended"])[0][:90]
    return _read_arrays(second.stdout)


def _read_arrays(printed: str) -> list[Array]:
    found: list[Array] = []
    parts = r"sizes = \[([^]]*)\][^\n]*data =\s*(.*?)(?=Unranked|\Z)"
    for head, data in re.findall(parts, printed, re.S):
        numbers = re.findall(r"-?(?:nan|inf|\d[\d.e+-]*)", data)
        shape = [int(size) for size in head.split(",") if size.strip()]
        count = int(np.prod(shape))
        # Integers are parsed as integers: a float cannot represent 64 bits.
        kind = int if all(n.lstrip("-").isdigit() for n in numbers[:count]) else float
        found.append(np.array([kind(n) for n in numbers[:count]]).reshape(shape))
    return found


def agree(ours: Array, theirs: Array, element: str) -> bool:
    """True if results are equal within the six printed digits and the type's precision."""
    if ours.shape != theirs.shape:
        return False
    near = {"f16": 4e-3, "bf16": 3e-2}.get(element, 2e-5)
    if element[0] in "fb":
        return np.allclose(ours.astype(float), theirs, rtol=near, atol=near, equal_nan=True)
    bits = {"i1": 1, "i4": 15, "i8": 255, "i16": 65535, "i32": (1 << 32) - 1}.get(element, -1)
    return bool(np.all((ours.astype(np.int64) & bits) == (theirs.astype(np.int64) & bits)))


def judge(text: str) -> tuple[str, str]:
    """Runs a function at sizes that it accepts. Returns the kind of its outcome and the detail."""
    refusal = ""
    for text in smaller(text):
        verified = subprocess.run(["mlir-opt-22"], input=text, capture_output=True, text=True)
        refusal = (re.findall(r"error: (.*)", verified.stderr) or ["ended"])[0][:90]
        if not verified.returncode:
            break
    else:
        return "not judged", refusal
    try:
        module = parse_text(text)
    except (ProgramError, DiagnosticException, ParseError) as error:
        return _refusal(error)
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    outcome = ("not judged", "sizes")
    for salt in range(6):
        chosen = fitting_sizes(function, salt)
        arrays = [
            _argument(kind, n, salt, chosen.get(n))
            for n, kind in enumerate(function.function_type.inputs)
        ]
        expected = reference(text, function, arrays)
        if isinstance(expected, str):
            outcome = ("not judged", expected)
            if expected.startswith("mlir-opt"):
                break
            continue
        return _compare(text, arrays, expected)
    return outcome


def fitting_sizes(function: FuncOp, salt: int) -> dict[int, list[int]]:
    """Returns each argument's shape by its index. The shapes fit the loops of all operations."""
    rng = np.random.default_rng(salt)
    known: dict[int, list[int]] = {}
    for op in function.walk():
        if not isinstance(op, LinalgStructuredOperation):
            continue
        operands = [
            (value.index, known.get(value.index) or list(value.type.get_shape()), map.data.results)
            for value, map in zip(op.operands, op.get_indexing_maps(), strict=False)
            if isinstance(value, BlockArgument) and isinstance(value.type, TensorType)
            if value.owner is function.body.blocks[0]
        ]
        loops: dict[int, int] = {}
        for _, sizes, results in operands:
            for size, expression in zip(sizes, results, strict=True):
                if size >= 0 and isinstance(expression, AffineDimExpr):
                    loops[expression.position] = size
        used = {n for _, _, results in operands for e in results for n in e.used_dims()}
        steps = [
            loops.get(n, int(rng.integers(2, 6))) - 1 for n in range(max(used, default=-1) + 1)
        ]
        for index, sizes, results in operands:
            needed = [expression.eval(steps, []) + 1 for expression in results]
            pairs = zip(sizes, needed, strict=True)
            known[index] = [size if size >= 0 else least for size, least in pairs]
    return known


def _argument(kind: Any, number: int, salt: int, sizes: list[int] | None) -> Array:
    """Returns data for an argument. Without `sizes`, dynamic sizes depend on `salt`."""
    rng = np.random.default_rng(salt)
    if not isinstance(kind, TensorType):
        return np.array(made_up(str(kind), [1], number)[0])
    if sizes is not None and salt < 3:
        return made_up(str(kind.element_type), sizes, number)
    same = int(rng.integers(3, 9))
    shape = [s if s >= 0 else same if salt < 3 else [16, 4, 8][(number + i) % 3]
             for i, s in enumerate(kind.get_shape())]  # fmt: skip
    return made_up(str(kind.element_type), shape, number)


def _refusal(error: Exception) -> tuple[str, str]:
    said = str(error).strip().splitlines() or [""]
    return "refused", " ".join(s.strip() for s in said)[-160:]


def _compare(text: str, arrays: list[Array], expected: list[Array]) -> tuple[str, str]:
    ways = {
        "interpret": lambda module: interpret(module, arrays),
        "program": lambda module: _run_program(compile_module(module, "lavapipe"), arrays),
    }
    for way, results_of in ways.items():
        module = parse_text(text)
        (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
        kinds = [str(getattr(k, "element_type", k)) for k in function.function_type.outputs]
        try:
            results = results_of(module)
        except (ProgramError, InterpreterError, DiagnosticException) as error:
            if way == "interpret" and "decompose-linalg widens" in str(error):
                continue
            return "refused", f"{way}: {_refusal(error)[1]}"
        except TimeoutError:
            return "refused", f"{way}: too slow"
        except Exception as error:
            return "at fault", f"{way}: {type(error).__name__}: {str(error)[:150]}"
        for ours, theirs, kind in zip(results, expected, kinds, strict=True):
            if not agree(np.asarray(ours), theirs, kind):
                if _reads_unwritten(text, arrays):
                    return "not judged", "it reads elements that nothing wrote"
                return "wrong", f"{way}: {np.asarray(ours).ravel()[:6]}, not {theirs.ravel()[:6]}"
    return "right", ""


def _reads_unwritten(text: str, arrays: list[Array]) -> bool:
    """True if results depend on the contents of `tensor.empty`."""
    module = parse_text(text)
    for op in [op for op in module.walk() if isinstance(op, tensor.EmptyOp)]:
        element = op.tensor.type.element_type
        number = FloatAttr(7.0, element) if isinstance(element, AnyFloat) else None
        if number is None and isinstance(element, IntegerType | IndexType):
            number = IntegerAttr(1 if element == i1 else 5, element)
        if number is not None:
            seven = arith.ConstantOp(number)
            full = linalg.ops.FillOp([seven.result], [op.tensor], [op.tensor.type])
            Rewriter.insert_op([seven, full], InsertPoint.after(op))
            op.tensor.replace_uses_with_if(full.results[0], lambda use: use.operation is not full)
    both = interpret(module, arrays), interpret(parse_text(text), arrays)
    return not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*both, strict=True))


def _run_program(program: Program, arrays: Sequence[Array]) -> list[Array]:
    names = [buffer.name for buffer in program.manifest.inputs]
    return list(run(program, dict(zip(names, arrays, strict=True))).values())


def _stop_waiting(*_: object) -> NoReturn:
    raise TimeoutError


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, help="each n-th function only")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seconds", type=int, default=20, help="that a function may take")
    parser.add_argument("--only", default="", help="functions whose name has this")
    parser.add_argument("--show", action="store_true", help="print their text")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop_waiting)
    counts, details = Counter[str](), Counter[tuple[str, str]]()
    paths = sorted(p for folder in given.folders for p in folder.rglob("*.mlir"))
    found: dict[str, tuple[Path, str]] = {}
    for path in paths:
        for name, text in functions(path.read_text(errors="replace")):
            if given.only in name:
                found.setdefault(text.replace(f"@{name}(", "@main("), (path, name))
    every = list(found.items())
    with contextlib.suppress(KeyboardInterrupt):
        for text, (path, name) in every[given.start :: given.every]:
            if given.show:
                print(text)
            signal.alarm(given.seconds)
            try:
                with np.errstate(all="ignore"):
                    kind, detail = judge(text)
            except TimeoutError:
                kind, detail = "not judged", "too slow"
            except ProgramError as error:
                kind, detail = "not judged", str(error)[:90]
            signal.alarm(0)
            counts[kind] += 1
            details[kind, detail] += 1
            if kind != "right":
                print(f"{path} {name}: {kind}: {detail}", flush=True)
    print(dict(counts))
    return int(bool(counts["wrong"] + counts["at fault"]))


if __name__ == "__main__":
    sys.exit(main())
