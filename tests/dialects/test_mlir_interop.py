"""
MLIR and we parse each other's output to the same modules, in both syntaxes.

The corpus is every module of tests/filecheck/dialects/spirv within MLIR's syntax. A module
(between `// -----` lines) outside of MLIR's syntax has a comment: `// EXTENSION` if MLIR has no
syntax for it, `// MLIR-CUSTOM-ONLY` or `// MLIR-GENERIC-ONLY` if one of the syntaxes is not
compared.
"""

import os
import re
import shutil
import subprocess
from enum import IntEnum
from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.universe import Universe
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_spirv.dialects.spirv import OPERATIONS, attributes
from xdsl_spirv.upstream.equality import is_same

CORPUS = Path(__file__).parent.parent / "filecheck" / "dialects" / "spirv"
FILES = sorted(
    path for path in CORPUS.rglob("*.mlir") if "--verify-diagnostics" not in path.read_text()
)
SEPARATOR = "\n// -----\n"
MLIR_OPT = shutil.which("mlir-opt-22")

pytestmark = pytest.mark.skipif(
    MLIR_OPT is None, reason="mlir-opt-22 is not installed (Debian: mlir-22-tools)"
)


def sources(path: Path, *left_out: str) -> list[str]:
    """Returns a file's modules without comments, except modules marked EXTENSION or `left_out`."""
    chunks = re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE)
    kept = [c for c in chunks if not any(f"// {mark}" in c for mark in ("EXTENSION", *left_out))]
    return [re.sub(r"^\s*//.*\n", "", chunk, flags=re.MULTILINE) for chunk in kept]


def parse(text: str) -> ModuleOp:
    context = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def show(module: ModuleOp, *, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def mlir(texts: list[str], *flags: str) -> list[str]:
    """Returns mlir-opt's output for each text."""
    command = [str(MLIR_OPT), "--split-input-file", "--allow-unregistered-dialect", *flags]
    done = subprocess.run(
        command, input=SEPARATOR.join(texts), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return re.split(r"^// -----$", done.stdout, flags=re.MULTILINE)


def corpus(*left_out: str) -> list[str]:
    return [source for path in FILES for source in sources(path, *left_out)]


def check(texts: list[str], *, generic: bool):
    ours = [parse(text) for text in texts]
    printed = [show(module, generic=generic) for module in ours]
    flags = ("--mlir-print-op-generic",) if generic else ()
    assert mlir(printed, *flags) == mlir(texts, *flags)
    for text, module, theirs in zip(texts, ours, mlir(printed, *flags), strict=True):
        assert is_same(module, parse(theirs)), text


def test_the_corpus_is_not_empty():
    assert len(corpus()) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_custom_syntax(path: Path):
    if texts := sources(path, "MLIR-GENERIC-ONLY"):
        check(texts, generic=False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_generic_syntax(path: Path):
    if texts := sources(path, "MLIR-CUSTOM-ONLY"):
        check(texts, generic=True)


# Every operation of both dialects is in the corpus.

LEFT_OUT: dict[str, dict[str, str]] = {
    "custom": {
        "spirv.INTEL.SubgroupBlockWrite": "MLIR's printer leaves out what its parser wants",
    },
    "generic": dict.fromkeys(
        [f"spirv.ARM.Graph{rest}" for rest in ("", "Constant", "EntryPoint", "Outputs")],
        "MLIR prints a graph's type as a function's, which its parser refuses",
    ),
}
"""Common operations that are not compared in one of the syntaxes, with the reason."""


def theirs() -> set[str]:
    """Returns the operations of this package that mlir-opt also defines."""
    names = sorted(operation.name for operation in OPERATIONS)
    command = [str(MLIR_OPT), "--split-input-file"]
    text = SEPARATOR.join(names)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    unknown = set(re.findall(r"custom op '([^']+)' is unknown", done.stderr))
    return set(names) - unknown


def operations_of(texts: list[str]) -> set[str]:
    return {op.name for text in texts for op in parse(text).walk()}


@pytest.mark.parametrize(
    ("syntax", "left_out"), [("custom", "MLIR-GENERIC-ONLY"), ("generic", "MLIR-CUSTOM-ONLY")]
)
def test_every_operation_that_mlir_has_is_compared(syntax: str, left_out: str):
    shared = theirs()
    assert {"spirv.IAdd", "spirv.KHR.CooperativeMatrixMulAdd", "spirv.module"} <= shared
    assert not {"spirv.Nop", "spirv.KHR.Abort"} & shared
    assert shared - operations_of(corpus(left_out)) == set(LEFT_OUT[syntax])


ENUMERATIONS = [
    value
    for value in vars(attributes).values()
    if isinstance(value, type)
    and issubclass(value, attributes.EnumerationAttr)
    and value is not attributes.EnumerationAttr
]


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda e: e.name)
def test_every_enumerant_of_mlir_is_read_and_printed_by_its_name(
    enumeration: type[attributes.EnumerationAttr[IntEnum]],
):
    op = f'"test.op"() {{a = #{enumeration.name}<nothing>}} : () -> ()'
    command = [str(MLIR_OPT), "--allow-unregistered-dialect"]
    message = subprocess.run(command, input=op, capture_output=True, text=True, check=False).stderr
    listed = re.search(r"to be one of: (.*)", message)
    if listed is None:
        assert "unknown SPIR-V attribute kind" in message
        return
    names = listed[1].split(", ")
    values = {name: enumeration.from_text(name) for name in names}
    assert {n: "" if v is None else enumeration.spell(v) for n, v in values.items()} == {
        n: n for n in names
    }


LLVM = os.environ.get("XDSL_SPIRV_LLVM")
GENERIC = "--mlir-print-op-generic"


def read_accepted(path: Path) -> list[str]:
    """Returns the parts of an LLVM test that mlir-opt accepts, without comments."""
    chunks = re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE)
    texts = [re.sub(r"^\s*//.*\n", "", chunk, flags=re.MULTILINE) for chunk in chunks]
    command = [str(MLIR_OPT), "--allow-unregistered-dialect", "-o", os.devnull]
    return [
        text
        for text in texts
        if "spirv." in text
        and not subprocess.run(
            command, input=text, capture_output=True, text=True, check=False
        ).returncode
    ]


def is_kept(text: str) -> bool:
    """True if a text is the same program for mlir-opt after we parsed and printed it."""
    try:
        printed = show(parse(text), generic=False)
        return mlir([printed], GENERIC) == mlir([text], GENERIC)
    except (ParseError, VerifyException, AssertionError):
        return False


@pytest.mark.long
@pytest.mark.skipif(LLVM is None, reason="XDSL_SPIRV_LLVM does not name LLVM's mlir/test")
def test_programs_of_llvms_tests_keep_their_meaning():
    folders = [Path(str(LLVM)) / room / "SPIRV" for room in ("Dialect", "Target")]
    texts = [
        text
        for folder in folders
        for path in folder.rglob("*.mlir")
        for text in read_accepted(path)
    ]
    lost = [text for text in texts if not is_kept(text)]
    assert len(texts) > 600
    assert len(lost) <= len(texts) // 16, "\n// -----\n".join(lost)
