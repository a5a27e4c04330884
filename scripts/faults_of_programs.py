"""
Cases of `faults.py` for programs, stores, workers, `opt` sessions and other parts.

The other parts are completion, conversion, kernels in Python, the runner in C and the site.
"""

from __future__ import annotations

import atexit
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from fault_cases import ANY, FAILED, Case, bad_files

ROOT = Path(__file__).resolve().parents[1]
TUNE = (
    *("tune", "--contraction", "8x8x8:f16->f32", "--target", "lavapipe"),
    *("--candidates", "1", "--runs", "1", "--seconds", "1"),
)
NO_SCHEDULER = "tcp://127.0.0.1:1"
SUM = """func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = linalg.add ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>)
    -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
"""


@cache
def compiled() -> Path:
    """Returns a directory with a program, compiled once, and an input."""
    from xdsl_spirv.compiler.api import compile
    from xdsl_spirv.runtime.modules import parse_text

    folder = Path(mkdtemp(prefix="faults-program-"))
    atexit.register(shutil.rmtree, folder)
    compile(parse_text(SUM), "lavapipe").save(folder / "program")
    return folder / "program"


@cache
def runner() -> tuple[str, ...]:
    """Returns the command of the runner in C with sanitizers, or () if it cannot be built."""
    compiler, lavapipe = shutil.which("cc"), ROOT / ".lavapipe" / "run"
    headers = ("vulkan/vulkan.h", "cjson/cJSON.h")
    if compiler is None or not all(Path("/usr/include", name).exists() for name in headers):
        return ()
    built = compiled().parent / "runner"
    source = ROOT / "examples" / "runner-c" / "runner.c"
    options = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=undefined,bounds")
    libraries = ("-lvulkan", "-lcjson", "-static-libubsan")
    subprocess.run([compiler, *options, "-o", built, source, *libraries], check=True)
    return (*([str(lavapipe)] if lavapipe.exists() else []), str(built))


def program_with(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Returns a function that writes a program with a changed manifest."""

    def prepare(folder: Path) -> None:
        shutil.copytree(compiled(), folder / "program")
        path = folder / "program" / "program.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))
        np.save(folder / "x.npy", np.zeros((4, 8), np.float32))

    return prepare


REQUIRES: Mapping[str, Any] = {
    "is null": None,
    "is a list": [],
    "is empty": {},
    "is a number": 7,
    "has Vulkan 9.9": {"vulkan": "9.9", "spirv": "1.6", "features": []},
    "has no version": {"vulkan": "one", "spirv": "\x00", "features": []},
    "has a number for a version": {"vulkan": 1.3, "spirv": 1.6, "features": []},
    "has features of no name": {"vulkan": "1.3", "spirv": "1.6", "features": [{"any": [{}]}]},
    "has a feature that is text": {"vulkan": "1.3", "spirv": "1.6", "features": ["x"]},
    "has no way": {"vulkan": "1.3", "spirv": "1.6", "features": [{"because": "x", "any": []}]},
    "has a huge subgroup": {"vulkan": "1.3", "spirv": "1.6", "subgroup_size": 1 << 80},
    "has a subgroup of nothing": {"vulkan": "1.3", "spirv": "1.6", "subgroup_size": 0},
    "has a negative limit": {
        "vulkan": "1.3",
        "spirv": "1.6",
        "limits": [{"limit": "maxComputeSharedMemorySize", "least": -1, "because": "x"}],
    },
    "has a limit that nobody knows": {
        "vulkan": "1.3",
        "spirv": "1.6",
        "limits": [{"limit": "__class__", "least": 1, "because": "x"}],
    },
    "has 100,000 features": {
        "vulkan": "1.3",
        "spirv": "1.6",
        "features": [{"because": "x", "any": [{"feature": "y", "structure": "z"}]}] * 100_000,
    },
}


def requirements() -> Iterator[Case]:
    """Yields cases with invalid requirements, or fewer requirements than the kernels have."""
    for name, requires in REQUIRES.items():

        def change(manifest: dict[str, Any], requires: Any = requires) -> None:
            manifest["requires"] = requires

        prepare = program_with(change)
        # Missing requirements are harmless: the kernels' own capabilities are checked.
        yield Case(f"run, requires {name}", ("run", "program", "--random", "1"), ANY, prepare)
        words = ("program", "x=x.npy", "-o", "out")
        yield Case(f"runner, requires {name}", words, ANY, prepare, command=runner)


def stores() -> Iterator[Case]:
    """Yields cases with damaged stores, stores of other formats, or results of unknown jobs."""
    for kind, make in bad_files("x.db"):
        statuses = ANY if kind == "empty" else FAILED
        yield Case(f"results x.db, {kind}", ("results", "x.db"), statuses, make)
        statuses = ANY if kind in ("missing", "empty", "a link to nothing") else FAILED
        yield Case(f"tune --store x.db, {kind}", (*TUNE, "--store", "x.db"), statuses, make)

    def database(*statements: str) -> Callable[[Path], object]:
        def prepare(folder: Path) -> None:
            with sqlite3.connect(folder / "x.db") as connection:
                for statement in statements:
                    connection.execute(statement)
            connection.close()

        return prepare

    def store(*values: object) -> Callable[[Path], object]:
        def prepare(folder: Path) -> None:
            from xdsl_spirv.jobs.store import COLUMNS, Store

            Store(folder / "x.db").close()
            with sqlite3.connect(folder / "x.db") as connection:
                marks = ", ".join("?" * 13)
                connection.execute(f"INSERT INTO results ({COLUMNS}) VALUES ({marks})", values)
            connection.close()

        return prepare

    def row(data: object, value: object, status: object = "ok") -> tuple[object, ...]:
        return "k", "d", "v", 1.0, "kind", "cores", data, "c", status, value, "\x1b[2J", 0.1, "w"

    listed = ("results", "x.db", "--failures")
    broken = {
        "another's tables": database("CREATE TABLE results (a)"),
        "our number, other tables": database(
            "PRAGMA application_id=2018734166", "PRAGMA user_version=1", "CREATE TABLE t (a)"
        ),
        "of a later version": database(
            "PRAGMA application_id=2018734166", "PRAGMA user_version=99", "CREATE TABLE t (a)"
        ),
        "a view that never ends": database(
            "PRAGMA application_id=2018734166",
            "PRAGMA user_version=1",
            "CREATE VIEW results AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n)"
            " SELECT x FROM n",
        ),
        "rows of no JSON": store(*row(b"{", b"{")),
        "rows of deep JSON": store(*row(b"[" * 100_000, b"[" * 100_000)),
        "rows of other types": store(*row(7, 8.5)),
        "a status that is none": store(*row(b"{}", b"{}", "\x1b[2J")),
        "bytes that are none": store(*row(b'{"bytes": 7}', b'{"bytes": "\xc3"}')),
    }
    for kind, make in broken.items():
        yield Case(f"results x.db, {kind}", listed, ANY, make)
    merge = ("results", "y.db", "--merge", "x.db")
    for kind in ("another's tables", "rows of no JSON", "rows of other types"):
        yield Case(f"results --merge, {kind}", merge, ANY, broken[kind])
    twice = ("results", "x.db", "--merge", "x.db", "x.db")
    yield Case("results --merge with itself", twice, ANY, store(*row(b"{}", b"{}")))


def workers() -> Iterator[Case]:
    """Yields cases of workers with wrong options, with unusable schedulers, and with signals."""
    for address in (NO_SCHEDULER, "nonsense", "http://x", "tcp://", "tcp://127.0.0.1:99999", ""):
        words = ("worker", "--scheduler", address)
        yield Case(f"worker, scheduler {address!r}", words)
        yield Case(f"tune, scheduler {address!r}", (*TUNE, "--scheduler", address))
    for option, value in (("--cores", "0"), ("--cores", "-3"), ("--device", "99")):
        words = ("worker", "--scheduler", NO_SCHEDULER, option, value)
        yield Case(f"worker, {option} {value}", words)
    for name in ("local:0", "local:-1", "local:x", "local:99999999999999999999"):
        yield Case(f"tune, scheduler {name!r}", (*TUNE, "--scheduler", name))
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for moment in (0.3, 1.5, 4.0):
            yield Case(
                f"worker, {number.name} after {moment} s",
                ("worker", "--scheduler", NO_SCHEDULER),
                FAILED | {status, -number},
                signal=(number, moment),
            )


def conversions() -> Iterator[Case]:
    """Yields conversions with missing or malformed models, calibrations and paths."""

    def model(folder: Path) -> None:
        import onnx

        text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y)'
        text += " <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }"
        onnx.save(onnx.parser.parse_model(text), str(folder / "x.onnx"))

    for kind, make in bad_files("x.onnx"):
        words = ("convert", "x.onnx", "--to", "f16", "-o", "y.onnx")
        statuses = ANY if kind == "empty" else FAILED
        yield Case(f"convert, a model that is {kind}", words, statuses, make)
    for kind, make in bad_files("c/x.npz"):

        def prepare(folder: Path, make: Callable[[Path], object] = make) -> None:
            model(folder)
            (folder / "c").mkdir()
            make(folder)

        words = ("convert", "x.onnx", "--to", "int8", "-o", "y.onnx", "--calibration", "c")
        yield Case(f"convert, a calibration that is {kind}", words, ANY, prepare)
    for place in ("nothing/y.onnx", ".", "/dev/full", "x.onnx"):
        words = ("convert", "x.onnx", "--to", "f16", "-o", place)
        yield Case(f"convert to {place}", words, ANY, model)


def sessions() -> Iterator[Case]:
    """Yields cases of `opt --interactive` with various standard inputs."""

    def module(folder: Path) -> None:
        (folder / "x.mlir").write_text(SUM)

    words = ("opt", "x.mlir", "--interactive")
    inputs = {
        "nothing": "",
        "nonsense": "nonsense\n\x00\x1b[A\n" + "a" * 100_000,
        "commands without their words": "\n".join("run set add diff goto save back next".split()),
        "numbers that are none": "goto 99999999999999999999\ngoto -1\nback 7\nnext 1e9\n",
        "places that are none": "save /nothing/x.mlir\nsave .\nsave /dev/full\nsave\n",
        "passes that are none": "add nothing\nadd form-dispatches{a=}\nadd {{{\nremove 99\n",
        "no newline at its end": "help",
        "10,000 steps": "next\nback\n" * 5_000,
    }
    for kind, text in inputs.items():
        yield Case(f"opt --interactive, {kind}", words, ANY, module, text=text)
    yield Case("opt --interactive, output full", words, ANY, module, output="full", text="help\n")
    closed = ANY | {141}
    yield Case("opt --interactive, no reader", words, closed, module, output="closed pipe")
    for kind in ("missing", "no text", "a folder"):
        make = dict(bad_files("x.mlir"))[kind]
        yield Case(f"opt --interactive, a file that is {kind}", words, FAILED, make, text="help\n")


def completions() -> Iterator[Case]:
    """Yields cases that complete invalid command lines or name an invalid shell."""
    for line, point in (
        ("xdsl-spirv ", "11"),
        ("xdsl-spirv compile --target ", "-7"),
        ("xdsl-spirv opt -p '", "19"),
        ("xdsl-spirv run \x1b[2J", "99999999999"),
        ("xdsl-spirv é --device ", "none"),
        ("", "0"),
    ):
        asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": point, "IFS": "\013"}
        # argcomplete writes to a descriptor that the shell opens. Without it, the status is 1.
        yield Case(f"completion of {line!a} at {point}", (), ANY, environment=asked)
    yield Case("completion of no shell", ("completion", "nothing"))
    yield Case("completion, output full", ("completion", "bash"), FAILED, output="full")


KERNELS: Mapping[str, str] = {
    "no buffer": "def f(): pass\nk.kernel(workgroup=1)(f)",
    "a workgroup of nothing": "@k.kernel(workgroup=0)\ndef f(x=k.buffer(k.f32)): x[0] = 1.0",
    "a workgroup of text": "@k.kernel(workgroup='a')\ndef f(x=k.buffer(k.f32)): x[0] = 1.0",
    "a huge workgroup": "@k.kernel(workgroup=1 << 70)\ndef f(x=k.buffer(k.f32)): x[0] = 1.0",
    "an index of text": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32)): x['a'] = 1.0",
    "an index of floats": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32)): x[1.5] = 1.0",
    "a value of text": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32)): x[0] = 'a'",
    "a slice": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32)): x[0:4] = 1.0",
    "a parameter without a type": "@k.kernel(workgroup=1)\ndef f(x): x[0] = 1.0",
    "a parameter that is a number": "@k.kernel(workgroup=1)\ndef f(x=4): pass",
    "a condition of a value": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32)):\n"
    "    if x[0] > 1: x[0] = 1.0",
    "a loop over a value": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.u32)):\n"
    "    for i in range(x[0]): x[i] = i",
    "a lambda": "k.kernel(workgroup=1)(lambda x=k.buffer(k.f32): x)",
    "a class": "k.kernel(workgroup=1)(dict)",
    "a negative size": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32, -4)): x[0] = 1.0",
    "a size beyond memory": "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32)):\n"
    "    y = k.shared(k.f32, 1 << 62)\n    y[0] = 1.0\n    x[0] = y[0]",
    "a launch of nothing": "{ok}f.launch(0, x)",
    "a launch of less than nothing": "{ok}f.launch(-1, x)",
    "a launch of text": "{ok}f.launch('a', x)",
    "a launch of four dimensions": "{ok}f.launch((1, 1, 1, 1), x)",
    "too many buffers": "{ok}f.launch(1, x, x)",
    "a buffer of another type": "{ok}f.launch(1, x.astype('f8'))",
    "a buffer of objects": "{ok}f.launch(1, np.array([None]))",
    "a buffer that is text": "{ok}f.launch(1, 'x')",
    "a buffer every second of which counts": "{ok}f.launch(1, np.zeros(8, 'f4')[::2])",
    "a device that is none": "{ok}f.launch(1, x, device='nothing')",
    "a buffer that is too small": "{ok}f.launch(8, x[:0], checks='all')",
}
SCRIPT = """
import sys
import numpy as np
from xdsl_spirv import kernels as k
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.runtime.errors import ProgramError
x = np.zeros(4, np.float32)
try:
    exec(compile(sys.stdin.read(), "kernel.py", "exec"), globals())
except (KernelError, ProgramError, InterpreterError) as error:
    sys.exit(f"error: {error}")
"""
SOUND = "@k.kernel(workgroup=1)\ndef f(x=k.buffer(k.f32)): x[k.global_id()] = 1.0\n"


def kernels() -> Iterator[Case]:
    """Yields cases with faulty kernels in Python. The package's error must describe the fault."""
    python = (sys.executable, "-c", SCRIPT)
    for kind, text in KERNELS.items():
        code = text.replace("{ok}", SOUND)
        yield Case(f"a kernel with {kind}", (), ANY, command=lambda: python, text=code)


def runners() -> Iterator[Case]:
    """Yields cases that run programs with invalid fields, by the runner in C and by `run`."""
    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "no dispatches": lambda m: m.pop("dispatches"),
        "a grid of text": lambda m: m["dispatches"][0].update(grid=["os.system", 1, 1]),
        "a huge grid": lambda m: m["dispatches"][0].update(grid=[1 << 40, 1, 1]),
        "a buffer of nothing": lambda m: m["buffers"][0].update(shape=[0, 8]),
        "a huge buffer": lambda m: m["buffers"][0].update(shape=[1 << 30, 1 << 30]),
        "a kernel elsewhere": lambda m: m["kernels"][0].update(binary="/etc/passwd"),
        "a version that is none": lambda m: m.update(version=99),
        "a device that is a path": lambda m: m.update(target="../../etc/passwd"),
    }
    for kind, change in changes.items():
        changed = program_with(change)
        words = ("run", "program", "--random", "1")
        yield Case(f"run, a program with {kind}", words, ANY, changed)
        words = ("program", "x=x.npy", "-o", "out")
        yield Case(f"runner, a program with {kind}", words, ANY, changed, command=runner)
    for name, make in bad_files("x.npy"):

        def prepare(folder: Path, make: Callable[[Path], object] = make) -> None:
            shutil.copytree(compiled(), folder / "program")
            make(folder)

        words = ("program", "x=x.npy", "-o", "out")
        yield Case(f"runner, an input that is {name}", words, FAILED, prepare, command=runner)


def sites() -> Iterator[Case]:
    """Yields a case that builds the site from a page with a dead link."""

    def prepare(folder: Path) -> None:
        for name in ("docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        for name in ("scripts", "src"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "build").mkdir()
        (folder / "docs" / "index.md").write_text("[x](nothing.md)")

    mkdocs = (sys.executable, "-m", "mkdocs")
    yield Case("site, a dead link", ("build", "--strict"), FAILED, prepare, command=lambda: mkdocs)


def newer_cases() -> list[Case]:
    makers = (requirements, stores, workers, conversions, sessions, completions, kernels)
    return [case for maker in (*makers, runners, sites) for case in maker()]
