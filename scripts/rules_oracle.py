"""
Writes docs/rules-oracle.md: spirv-val's verdicts on programs that break a rule.

    python scripts/rules_oracle.py [--spirv-val PATH ...] [--check]

The programs come from `tests/filecheck/rules`. Some break a static rule. Others lack one of the
capabilities that a rule requires. Each binary is validated by each spirv-val. Programs that cannot
be encoded are skipped. `--check` compares with the file instead of writing it, for the given
versions.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.test import Test
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv.abi import VerCapExtAttr
from xdsl_spirv.dialects.spirv.control_flow import ReturnOp
from xdsl_spirv.dialects.spirv.enums import ExecutionMode, ExecutionModel, MemoryModel
from xdsl_spirv.dialects.spirv.function import FuncOp
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import EntryPointOp, ExecutionModeOp
from xdsl_spirv.passes.spirv.update_vce import deduce, update
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.tools import khronos

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "tests" / "filecheck" / "rules"
PAGE = ROOT / "docs" / "rules-oracle.md"
TARGET_ENVIRONMENT = "spv1.6"


@dataclass(frozen=True)
class Case:
    """A binary that breaks a rule, or keeps all rules if `what` is empty."""

    rule: str
    what: str
    binary: bytes


def context() -> Context:
    dialects = Context()
    for dialect in (Arith, Builtin, Func, Linalg, SPIRV, Test):
        dialects.load_dialect(dialect)
    return dialects


def chunks(rule: str) -> Iterator[str]:
    yield from (RULES / f"{rule.lower()}.mlir").read_text().split("// -----\n")


def rules() -> Iterator[tuple[str, str]]:
    """Yields each rule with its kind."""
    page = (ROOT / "docs" / "rules.md").read_text()
    yield from re.findall(r"^\| ([A-Z]+-\d+) \| ([A-Z-]) \|", page, re.M)


def as_module(text: str) -> ModuleOp:
    """
    Parses a text as one SPIR-V module. Results of `test.op` become arguments of a function.

    Raises `ParseError` or `VerifyException` if the text cannot be parsed.
    """
    top = Parser(context(), text).parse_module()
    first = top.body.block.first_op
    if isinstance(first, ModuleOp):
        first.detach()
        return with_entry_point(first)
    return with_entry_point(wrapped(top))


def wrapped(top: BuiltinModuleOp) -> ModuleOp:
    block = Block()
    module = ModuleOp()
    for op in list(top.body.block.ops):
        op.detach()
        if op.name == "test.op":
            for result in op.results:
                argument = block.insert_arg(result.type, len(block.args))
                result.replace_all_uses_with(argument)
        elif op.name in ("spirv.SpecConstant", "spirv.SpecConstantComposite", "spirv.func"):
            module.body.block.add_op(op)
        elif op.name == "spirv.GlobalVariable":
            module.body.block.add_op(op)
        else:
            block.add_op(op)
    block.add_op(ReturnOp())
    module.body.block.add_op(FuncOp("wrapped", (block.arg_types, ()), Region(block)))
    return module


def with_entry_point(module: ModuleOp) -> ModuleOp:
    ops = module.body.block.ops
    if not any(isinstance(op, EntryPointOp) for op in ops):
        function = FuncOp("entry", ((), ()), Region(Block([ReturnOp()])))
        mode = ExecutionModeOp("entry", ExecutionMode.LocalSize, (1, 1, 1))
        kernel = module.memory_model.data is MemoryModel.OpenCL
        model = ExecutionModel.Kernel if kernel else ExecutionModel.GLCompute
        for op in (function, EntryPointOp(model, "entry"), mode):
            module.body.block.add_op(op)
    return module


def static_cases(rule: str) -> Iterator[Case]:
    """Yields the programs of a static rule's test that can be encoded, valid and invalid."""
    for text in chunks(rule):
        refused = f"// CHECK: {rule}: " in text
        if not refused and f"// CHECK-NOT: {rule}:" not in text:
            continue
        try:
            module = as_module(text)
            if module.vce_triple is None:
                update(module)
            binary = encode(module)
        except (ParseError, VerifyException, DiagnosticException, ValueError, TypeError):
            continue
        yield Case(rule, cause(module) if refused else "", binary)


def cause(module: ModuleOp) -> str:
    """Returns the verifier's sentence about the fault, without the remedy."""
    try:
        module.verify()
    except VerifyException as error:
        rule = re.search(r"((?:DOT|CM|ROT|BF)-\d\d: [^;\n]*)", str(error))
        if rule:
            return rule[1]
    return "is accepted"


def deduction_cases(rule: str) -> Iterator[Case]:
    """Yields a capability rule's complete program, and one without each required capability."""
    sentence = next(
        line
        for line in (ROOT / "docs" / "rules.md").read_text().splitlines()
        if f"| {rule} |" in line
    )
    for text in chunks(rule):
        if f"// CHECK: {rule}: " in text:
            continue
        module = as_module(text)
        complete = module.vce_triple = deduce(module)
        yield Case(rule, "", encode(module))
        capabilities = [c.data for c in complete.capabilities]
        for capability in capabilities:
            if not re.search(rf"\b{capability.name}\b", sentence):
                continue
            fewer = [c for c in capabilities if c is not capability]
            extensions = [e.data for e in complete.extensions]
            module.vce_triple = VerCapExtAttr((1, 6), fewer, extensions)
            yield Case(rule, f"{capability.name} is not declared", encode(module))


def cases() -> list[Case]:
    listed: list[Case] = []
    for rule, kind in rules():
        if (kind == "V" and rule != "CM-29") or rule in ("CM-02", "CM-12"):
            listed += static_cases(rule)
        elif kind == "C":
            listed += deduction_cases(rule)
    return listed


def version_of(program: str) -> str:
    """Returns a tool's version, such as `2025.5`."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    number = re.search(r"SPIRV-Tools v(\d+\.\d+)", done.stdout + done.stderr)
    return number[1] if number else "unknown"


def accepts(program: str, binary: bytes) -> bool:
    command = [program, "--target-env", TARGET_ENVIRONMENT, "-"]
    return subprocess.run(command, input=binary, capture_output=True, check=False).returncode == 0


def table(programs: Sequence[str]) -> tuple[list[str], dict[tuple[str, str], list[str]], int]:
    """
    Returns the versions of spirv-val, their verdicts on each faulty program by (rule, cause), and
    the number of valid programs.

    Raises `SystemExit` if a version refuses a program that keeps all rules.
    """
    verdicts: dict[tuple[str, str], list[str]] = {}
    kept = 0
    refused: list[Case] = []
    for case in cases():
        taken = [accepts(p, case.binary) for p in programs]
        if case.what:
            key = (case.rule, case.what)
            verdicts.setdefault(key, ["accepts" if t else "refuses" for t in taken])
        else:
            kept += 1
            if not all(taken):
                refused.append(case)
    if refused:
        sys.exit(f"spirv-val refuses valid programs for {', '.join(c.rule for c in refused)}")
    return [version_of(p) for p in programs], verdicts, kept


def page(versions: list[str], verdicts: dict[tuple[str, str], list[str]], kept: int) -> str:
    """
    Returns the page: a table of verdicts in the order of the rules. `kept` is the number of valid
    programs.
    """
    counts = ", ".join(
        f"spirv-val {version} refuses {sum(v[i] == 'refuses' for v in verdicts.values())}"
        for i, version in enumerate(versions)
    )
    lines = [
        "# Verdicts of spirv-val on programs that break a rule",
        "",
        "This page shows which programs that break a rule are refused by spirv-val, too.",
        "`scripts/rules_oracle.py` writes it from the programs of `tests/filecheck/rules`.",
        f"The table has {len(verdicts)} programs that break a rule: {counts}. This project refuses",
        "all of them, except that it adds a missing capability itself (`spirv-update-vce`).",
        f"Every listed version accepts the {kept} programs that keep all rules.",
        "",
        "| rule | error in the program | " + " | ".join(f"spirv-val {v}" for v in versions) + " |",
        "|---|---|" + "---|" * len(versions),
    ]
    for (rule, what), verdict in verdicts.items():
        text = what.removeprefix(f"{rule}: ").replace("|", "\\|")
        lines.append(f"| {rule} | {text} | {' | '.join(verdict)} |")
    return "\n".join(lines) + "\n"


def columns(text: str) -> dict[str, list[tuple[str, str, str]]]:
    """Maps each version of spirv-val to the rows (rule, error, verdict) of a page's table."""
    rows = [
        [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    head, *body = rows
    return {
        name.removeprefix("spirv-val "): [(r[0], r[1], r[2 + i]) for r in body]
        for i, name in enumerate(head[2:])
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spirv-val", action="append", default=[])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = page(*table(arguments.spirv_val or [khronos.tool("spirv-val")]))
    if not arguments.check:
        PAGE.write_text(text)
        return
    recorded, now = columns(PAGE.read_text()), columns(text)
    for version in now:
        if version not in recorded:
            sys.exit(f"docs/rules-oracle.md has no column for spirv-val {version}")
        if recorded[version] != now[version]:
            differing = sorted(set(recorded[version]) ^ set(now[version]))
            sys.exit("docs/rules-oracle.md is stale: " + "; ".join(map(str, differing)))


if __name__ == "__main__":
    main()
