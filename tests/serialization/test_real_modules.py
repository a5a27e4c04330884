"""
Modules of real producers survive round trips and get spirv-val's verdict.

For every module, the raw layer reproduces the bytes; spirv-as and our assembler make the same
bytes from our text; the dialect gives a canonical form that a second round trip does not change;
and the validator's verdict is spirv-val's, except for documented differences.

`make test` uses some modules compiled now by glslang, mlir-translate-22 and our encoder. `make
test-long` uses all modules that scripts/make_corpus.py wrote to `.corpus` (or the folder
XDSL_SPIRV_CORPUS), and makes a corpus without PyPI's producers if there is none. For a table by
producer:

    python tests/serialization/test_real_modules.py .corpus
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.raw import binary
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.text.disassembler import disassemble
from xdsl_spirv.serialization.validation import Severity, validate
from xdsl_spirv.serialization.validation.differences import known_difference
from xdsl_spirv.tools import khronos

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = "vulkan1.3"
OPTIONS = ["--scalar-block-layout", "--allow-localsizeid"]
"""Options of spirv-val for modules that are valid with relaxed rules."""

WAYS = ("bytes", "text", "spirv-as", "dialect", "verdict")


def make(folder: Path, *options: str) -> list[Path]:
    script = ROOT / "scripts" / "make_corpus.py"
    subprocess.run([sys.executable, script, folder, *options], check=True, capture_output=True)
    return sorted(folder.glob("*/*.spv"))


def check(data: bytes, ways: Iterable[str] = WAYS) -> dict[str, str]:
    """Returns the failed checks of a module with messages. Empty if it passes all."""
    failed: dict[str, str] = {}
    for way in ways:
        try:
            CHECKS[way](data)
        except AssertionError as error:
            failed[way] = str(error).strip().splitlines()[0] if str(error) else "differs"
        except Exception as error:
            failed[way] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return failed


def accepted(data: bytes) -> bool:
    return not khronos.spirv_val(data, ENVIRONMENT, *OPTIONS)


def check_bytes(data: bytes) -> None:
    assert binary.decode(data).encode() == data, "other bytes"


def check_text(data: bytes) -> None:
    assert assemble(disassemble(binary.decode(data), raw_ids=True)).encode() == data, "other bytes"


def check_spirv_as(data: bytes) -> None:
    raw = binary.decode(data)
    version = "spv{}.{}".format(*raw.header.version)
    text = disassemble(raw, raw_ids=True).encode("utf-8", "surrogateescape")
    options = ["--preserve-numeric-ids", "--target-env", version, "-o", "-", "-"]
    command = [khronos.tool("spirv-as"), *options]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    message = done.stderr.decode(errors="replace")
    if "Invalid capability" in message:
        return  # The tool is too old for the capability. SPIRV_AS may name a newer one.
    assert not done.returncode, message
    # The tool writes its own generator number and the least bound into the header.
    assert done.stdout[:8] + done.stdout[16:] == data[:8] + data[16:], "other bytes"


def check_dialect(data: bytes) -> None:
    valid = accepted(data)
    # An invalid SPIR-V module may break a rule of the dialect.
    once = encode(decode(data, unchecked=not valid))
    assert encode(decode(once, unchecked=not valid)) == once, "the second trip differs"
    assert not valid or accepted(once), "a valid module is not valid after a trip"


def check_verdict(data: bytes) -> None:
    theirs = khronos.spirv_val(data, ENVIRONMENT)
    ours = [f for f in validate(data, ENVIRONMENT) if f.severity is Severity.ERROR]
    if bool(ours) == bool(theirs):
        return
    unknown = [f for f in ours if not known_difference(f.rule, f.cause, ENVIRONMENT)]
    assert not unknown, f"refused here only: {unknown[0]}"
    known = bool(ours) or known_difference("", theirs, ENVIRONMENT)
    assert known, f"accepted here only: {theirs}"


CHECKS = {
    "bytes": check_bytes,
    "text": check_text,
    "spirv-as": check_spirv_as,
    "dialect": check_dialect,
    "verdict": check_verdict,
}


def test_a_few_of_every_producer_here(tmp_path: Path, spirv_val: str):
    modules = make(tmp_path, "--small")
    assert modules
    failed = {f"{p.parent.name}/{p.name}": check(p.read_bytes()) for p in modules[::3]}
    assert not {name: found for name, found in failed.items() if found}


@pytest.mark.long
def test_every_module_of_the_corpus(tmp_path: Path, spirv_val: str):
    folder = Path(os.environ.get("XDSL_SPIRV_CORPUS", ROOT / ".corpus"))
    modules = sorted(folder.glob("*/*.spv")) or make(tmp_path)
    failed = {f"{p.parent.name}/{p.name}": check(p.read_bytes()) for p in modules}
    assert not {name: found for name, found in failed.items() if found}
    assert len(modules) > 100


def main() -> int:
    """Prints a table by producer: number of modules, and how many pass each check."""
    totals: Counter[str] = Counter()
    passed: Counter[tuple[str, str]] = Counter()
    valid: Counter[str] = Counter()
    for path in sorted(Path(sys.argv[1]).glob("*/*.spv")):
        producer, data = path.parent.name, path.read_bytes()
        totals[producer] += 1
        valid[producer] += not khronos.spirv_val(data, ENVIRONMENT)
        failed = check(data)
        passed.update((producer, way) for way in WAYS if way not in failed)
        for way, how in failed.items():
            print(f"{producer}/{path.name}: {way}: {how}", flush=True)
    header = ["producer", "modules", "valid", *WAYS]
    rows = [
        [p, str(n), str(valid[p]), *(str(passed[p, w]) for w in WAYS)] for p, n in totals.items()
    ]
    whole = [str(sum(int(row[k]) for row in rows)) for k in range(1, len(header))]
    for row in (header, ["---"] * len(header), *rows, ["all", *whole]):
        print(f"| {' | '.join(row)} |")
    return int(any(passed[p, w] != n for p, n in totals.items() for w in WAYS))


if __name__ == "__main__":
    sys.exit(main())
