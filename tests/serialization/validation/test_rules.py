"""
Every universal rule has a valid module and an edit that breaks the rule and that spirv-val
refuses.

The files of `cases/` are modules in assembly, each followed by chunks between lines `; ---`. A
chunk names the rule and the fault (`; MEM-03: a load from a value`), or `; valid: ` and a variant
that keeps all rules. Then follow an optional environment (`; environment: spv1.6`), lines to
remove (`-`) and lines to insert in their place (`+`). `#2` after a line means its second
occurrence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from xdsl_spirv.serialization.raw.binary import Header, RawModule, decode
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation import Severity, rules, validate
from xdsl_spirv.serialization.validation.differences import known_difference
from xdsl_spirv.tools import khronos

FOLDER = Path(__file__).parent / "cases"
ENVIRONMENT = "vulkan1.3"


@dataclass(frozen=True)
class Case:
    """A module that breaks a rule, or a file's valid module if `rule` is empty."""

    file: str
    rule: str
    what: str
    text: str
    environment: str

    def binary(self) -> bytes:
        return assemble(self.text).encode()

    def __str__(self) -> str:
        return f"{self.file}-{self.rule}-{self.what.replace(' ', '_')}"


def read_cases() -> list[Case]:
    """Returns every case of every file, each file's valid module first."""
    found: list[Case] = []
    for file in sorted(FOLDER.glob("*.spvasm")):
        base, *chunks = re.split(r"^; ---\n", file.read_text(), flags=re.M)
        universal = "OpCapability Kernel" in base
        found.append(Case(file.stem, "", "", base, "spv1.6" if universal else ENVIRONMENT))
        found += [_case(file.stem, base, chunk) for chunk in chunks]
    return found


def _case(file: str, base: str, chunk: str) -> Case:
    head = re.match(r"; ([A-Z]+-\d+|valid): (.*)\n", chunk)
    if head is None:
        raise ValueError(f"{file}: a chunk does not name its rule: {chunk[:60]}")
    environment = re.search(r"^; environment: (\S+)$", chunk, re.M)
    lines: list[str | None] = [*base.splitlines()]
    for hunk in re.findall(r"(?:^-.*\n)+(?:^\+.*\n?)*", chunk, re.M):
        _apply(file, lines, base.splitlines(), hunk)
    text = "\n".join(line for line in lines if line is not None)
    rule = "" if head[1] == "valid" else head[1]
    return Case(file, rule, head[2], text, environment[1] if environment else ENVIRONMENT)


def _apply(file: str, lines: list[str | None], base: list[str], hunk: str) -> None:
    removed = [line[2:] for line in hunk.splitlines() if line.startswith("-")]
    added = [line[2:] for line in hunk.splitlines() if line.startswith("+")]
    places: list[int] = []
    for line in removed:
        text, _, number = line.partition(" #")
        found = [k for k, other in enumerate(base) if other.strip() == text.strip()]
        if not found or (len(found) > 1 and not number):
            raise ValueError(f"{file}: {len(found)} lines are {text!r}")
        places.append(found[int(number or 1) - 1])
    for place in places:
        lines[place] = None
    lines[places[0]] = "\n".join(added) if added else None


CASES = read_cases()
VALID = [c for c in CASES if not c.rule]
BROKEN = [c for c in CASES if c.rule]
OTHERS = frozenset({"ID-07", "DIA-01", "DIA-02"})
"""Rules that no text can break. They have separate tests."""


@pytest.mark.parametrize("case", VALID, ids=str)
def test_a_valid_module_has_no_findings(case: Case, spirv_val: str):
    assert [str(f) for f in validate(case.binary(), case.environment)] == []
    assert khronos.spirv_val(case.binary(), case.environment) == ""


@pytest.mark.parametrize("case", BROKEN, ids=str)
def test_a_broken_module_has_the_finding(case: Case, spirv_val: str):
    found = validate(case.binary(), case.environment)
    assert case.rule in {f.rule for f in found}, [str(f) for f in found]
    for finding in found:
        assert finding.cause
        assert finding.remedy
    if khronos.spirv_val(case.binary(), case.environment):
        return
    errors = [f for f in found if f.severity is Severity.ERROR]
    unknown = [str(f) for f in errors if not known_difference(f.rule, f.cause, case.environment)]
    assert unknown == [], "spirv-val accepts it, and no difference is known"


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_the_advice_for_a_dot_of_integers_is_valid(width: int, sign: int):
    """OpDot on integers is refused with a suggested instruction, which is valid."""
    capabilities = ["Shader", "DotProduct", "DotProductInputAll", "DotProductInput4x8Bit"]
    capabilities += [f"Int{width}"] * (width != 32)
    head = "".join(f"OpCapability {name}\n" for name in capabilities)
    for size in (2, 3, 4):
        text = f"""{head}
            OpMemoryModel Logical GLSL450
            OpEntryPoint GLCompute %main "main"
            OpExecutionMode %main LocalSize 1 1 1
            %void = OpTypeVoid
            %fn = OpTypeFunction %void
            %int = OpTypeInt {width} {sign}
            %vector = OpTypeVector %int {size}
            %one = OpConstant %int 1
            %ones = OpConstantComposite %vector {"%one " * size}
            %main = OpFunction %void None %fn
            %entry = OpLabel
            %r = OpDot %int %ones %ones
            OpReturn
            OpFunctionEnd"""
        (finding,) = validate(assemble(text).encode(), "spv1.6")
        advised = re.findall(r"Op[SU]+Dot", finding.remedy)
        assert finding.rule == "OPR-07"
        assert len(advised) == 2
        for name in advised:
            mended = assemble(text.replace("OpDot", name)).encode()
            found = [str(f) for f in validate(mended, "spv1.6")]
            # The unsigned instruction accepts only a type without a sign.
            assert found == [] or (name == "OpUDot" and sign), found


def test_every_rule_has_a_case():
    universal = {r.id for r in rules().values() if r.section != "docs/rules.md"}
    assert universal - {c.rule for c in BROKEN} == OTHERS & universal


def test_the_bound_covers_every_id():
    module = assemble("OpCapability Shader\n%9 = OpTypeVoid")
    header = Header(module.header.version, 0, 5)
    short = RawModule.build(header, [i.words for i in module])
    (finding,) = (f for f in validate(short, "spv1.6") if f.rule == "ID-07")
    assert finding.index == 1
    assert finding.word == 7


def test_findings_have_source_lines():
    text = """
        OpCapability Shader
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main "main"
        OpExecutionMode %main LocalSize 1 1 1
        %file = OpString "kernel.comp"
        OpName %sum "sum"
        %void = OpTypeVoid
        %fn = OpTypeFunction %void
        %u32 = OpTypeInt 32 0
        %f32 = OpTypeFloat 32
        %one = OpConstant %u32 1
        %half = OpConstant %f32 0.5
        %main = OpFunction %void None %fn
        %entry = OpLabel
        OpLine %file 7 3
        %sum = OpIAdd %u32 %one %half
        OpReturn
        OpFunctionEnd"""
    binary = assemble(text)
    (finding,) = validate(binary)
    place = next(i for i in decode(binary.encode()) if i.name == "OpIAdd")
    assert finding.rule == "OPR-01"
    assert (finding.index, finding.word, finding.opcode) == (
        place.index,
        place.offset,
        place.opcode,
    )
    assert (finding.instruction, finding.id, finding.name) == ("OpIAdd", place.words[2], "sum")
    assert finding.source == "kernel.comp:7:3"
    assert str(finding) == (
        "error: OPR-01: operand_2 %9 must be an integer of the shape and width of uint32, but has "
        "type float32; convert the operand, or use the instruction for its type "
        f'(word {place.offset}, instruction 15 OpIAdd %{place.words[2]} "sum", kernel.comp:7:3)'
    )


def test_all_findings_are_reported():
    text = "OpCapability Int64\nOpCapability Int64\n%1 = OpTypeVoid\n%2 = OpTypeVoid\nOpReturn"
    found = {f.rule for f in validate(assemble(text), "vulkan1.3")}
    assert {"LAY-01", "LAY-02", "TYP-01", "ENT-01"} <= found


def test_environments_by_name():
    module = assemble("OpCapability Shader")
    assert validate(module, "universal1.6") == validate(module, "spv1.6")
    with pytest.raises(ValueError, match=r"'vulkan1.9'.*vulkan1.4"):
        validate(module, "vulkan1.9")


def test_bytes_behind_a_string_are_a_known_difference(spirv_val: str):
    case = next(c for c in VALID if 'OpName %main "main"' in c.text)
    binary = bytearray(case.binary())
    binary[binary.rindex(b"main\0") + 5] = 1
    (finding,) = validate(bytes(binary), case.environment)
    assert known_difference(finding.rule, finding.cause)
    assert khronos.spirv_val(bytes(binary), case.environment) == ""
