#!/usr/bin/env python3
"""
Compares tools that find the bugs of tests/kernels: interpreter, spirv-val, validation layer.

    python benchmarks/kernel_checks.py            measure, write results/kernel_checks.json
    python benchmarks/kernel_checks.py -k NAME    measure some, write nothing
    python benchmarks/kernel_checks.py --tool T   one tool again, with -k for some kernels
    python benchmarks/kernel_checks.py --table    write the table of results into the docs

Every kernel is compiled once (`-g`, Vulkan 1.3). Each tool runs in its own process with a time
limit, because drivers crash and hang. A tool catches a bug if it reports anything for the broken
kernel. Any report for a repaired or correct kernel is false. Seconds are wall-clock time of whole
processes, including the start of Python and of the driver.

The layer runs on lavapipe with GPU-AV's descriptor checks, its race detector for shared memory and
its shader sanitizer. If the combination crashes, each half runs separately and both reports count.
The variable LAVAPIPE selects another folder made by scripts/fetch_lavapipe.py: layer 1.4.363 has
the race detector, 1.4.309 does not.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from xdsl_spirv.tools import khronos
from xdsl_spirv.tools.kernel_test.description import SUFFIX, KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.toml_file import read_test

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "tests" / "kernels"
RESULT = Path(__file__).resolve().parent / "results" / "kernel_checks.json"
PAGE = ROOT / "docs" / "comparison.md"
MARKS = ("<!-- table -->", "<!-- end -->")
LAVAPIPE = Path(os.environ.get("LAVAPIPE", ROOT / ".lavapipe")) / "run"
ENVIRONMENT = "vulkan1.3"
FULL = {
    "gpuav_enable": True,
    "gpuav_shader_instrumentation": True,
    "gpuav_descriptor_checks": True,
    "gpuav_shared_memory_data_race": True,
    "gpuav_shader_sanitizer": True,
    "gpuav_safe_mode": True,
}
HALVES = (
    FULL | {"gpuav_shared_memory_data_race": False, "gpuav_shader_sanitizer": False},
    FULL | {"gpuav_descriptor_checks": False, "gpuav_post_process_descriptor_indexing": False},
)
HUNG = "not done"
SECONDS = 60
"""Time limit for one kernel and one tool."""

VUID = re.compile(r"VUID-[\w-]+")
OF_DEVICE = (
    "VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR",
    "VUID-RuntimeSpirv-OpCooperativeMatrixMulAddKHR",
    "VUID-RuntimeSpirv-None-06285",
)
"""Messages about missing matrix shapes or float atomics of the device, not about the kernel."""
OF_SETTINGS = ("vkCreateInstance(): ", "vkCreateDevice(): ")
"""Prefix of the layer's messages about its own settings."""


@dataclass
class Verdict:
    """One tool's verdict on one kernel: the rules of its messages, or the reason of a failure."""

    said: list[str] = field(default_factory=list[str])
    failed: str = ""
    """Reason why the kernel could not be run: refused, crashed or hung."""
    seconds: float = 0.0


def kernel_name(test: KernelTest) -> str:
    return f"{test.source.parent.name}/{test.source.name.removesuffix(SUFFIX)}"


def compiled(test: KernelTest) -> KernelTest:
    """Returns the test with the compiler options that all tools use."""
    chosen = replace(test.compile, target_env=ENVIRONMENT, options=("-g",))
    return replace(test, compile=chosen)


# Functions that run in child processes.


def interpreter_child(path: Path) -> Verdict:
    """Runs the kernel with all checks. Returns the rules of all findings, also of expected ones."""
    from xdsl_spirv.tools.kernel_test.problems import COMPILE, LAUNCH, MISMATCH
    from xdsl_spirv.tools.kernel_test.running import run_test

    said: dict[str, None] = {}
    for outcome in run_test(compiled(replace(read_test(path), findings=(), error=None))):
        said |= dict.fromkeys(problem.rule for problem in outcome.problems)
        if outcome.misuse:
            said[f"refused: {outcome.misuse.splitlines()[0]}"] = None
    refused = [rule for rule in said if rule in (LAUNCH, COMPILE)]
    return Verdict(
        [rule for rule in said if rule not in refused and rule != MISMATCH],
        "the interpreter refuses it" if refused else "",
    )


def device_child(path: Path) -> Verdict:
    """Runs the kernel on the loader's device under the validation layer."""
    from xdsl_spirv.runtime.needs import Needs
    from xdsl_spirv.runtime.vulkan.device import open_device
    from xdsl_spirv.tools.kernel_test.running import DEFAULT_SUBGROUP

    test = compiled(read_test(path))
    try:
        work, contents = device_work(test)
    except Misuse:
        return Verdict(failed="not launched: an argument is missing")
    matrices = "CooperativeMatrixKHR" in Needs.of(work.kernels["kernel"]).capabilities
    sizes = test.subgroup_sizes or ((DEFAULT_SUBGROUP,) if matrices else ())
    with open_device(validation=True) as device:
        size = device.info.subgroup_size
        if sizes and size not in sizes:
            return Verdict(failed=f"the device has subgroups of {size}")
        lacking = device.lacks(work)
        if lacking:
            return Verdict(failed=f"the device lacks {lacking[0]}")
        loaded = device.load(work)
        for name, data in contents.items():
            loaded.write(name, data, SECONDS)
        loaded.repeat(SECONDS)
        device.unload(loaded)
        said = [text for text in device.messages if not text.startswith(OF_SETTINGS)]
    names = dict.fromkeys(map(message_name, said))
    about_kernel = [name for name in names if not name.startswith(OF_DEVICE)]
    lacking = len(about_kernel) < len(names) and not about_kernel
    return Verdict(about_kernel, "the device lacks what it needs" if lacking else "")


def message_name(text: str) -> str:
    """Returns a message's rule, or its first line without numbers and names."""
    rule = VUID.search(text)
    if rule:
        return rule[0]
    return re.sub(r"\"[^\"]*\"|\(Likely.*|[0-9]+|in local.*", "", text.splitlines()[0]).strip()


def device_work(test: KernelTest) -> tuple[Any, dict[str, bytes]]:
    """Returns a test as work for a device, and the contents of its buffers."""
    import struct

    from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer
    from xdsl_spirv.tools.kernel_test.arguments import UNBOUND, prepare
    from xdsl_spirv.tools.kernel_test.constants import Constants
    from xdsl_spirv.tools.kernel_test.interface import Interface, choose_entry
    from xdsl_spirv.tools.kernel_test.loading import load_kernel

    kernel = load_kernel(test)
    interface = Interface(
        kernel.index,
        choose_entry(kernel.index, test.entry),
        Constants(kernel.index, test.specialization),
    )
    arguments = prepare(interface, test.buffers, test.push_constants, test.source.parent)
    block = interface.push_constants
    addresses = tuple(
        (member.offset, str(test.push_constants[member.name])[1:])
        for member in (block.members if block else ())
        if str(test.push_constants[member.name]).startswith("&")
    )
    assert test.grid is not None
    step = Step(
        kernel="kernel",
        entry_point=interface.entry.name,
        grid=test.grid,
        bindings=tuple(
            (place[0], place[1], buffer.name)
            for buffer in arguments.buffers
            for place in buffer.places
            if place[0] != UNBOUND
        ),
        constants=tuple(
            (id, struct.pack("<f" if isinstance(value, float) else "<i", value))
            for id, value in interface.constants.values.items()
        ),
        push=arguments.push_constants,
        addresses=addresses,
    )
    buffers = tuple(WorkBuffer(b.name, b.bytes, "output") for b in arguments.buffers)
    contents = {b.name: b.data.tobytes() for b in arguments.buffers}
    return Work(buffers, {"kernel": kernel.binary}, (step,)), contents


CHILDREN: dict[str, Callable[[Path], Verdict]] = {
    "interpreter": interpreter_child,
    "gpu-av": device_child,
}


# Functions that run in the parent process.


def in_process(command: Sequence[str | Path], environment: dict[str, str]) -> tuple[int, str, str]:
    """Returns exit status, output and error output. After a timeout the error output says so."""
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return 0, "", f"{HUNG} after {SECONDS} s"
    return process.returncode, output, errors


def run_child(tool: str, test: KernelTest, settings: dict[str, bool] | None = None) -> Verdict:
    """Returns the verdict of a child process, run with the given settings of the layer."""
    command: list[str | Path] = [sys.executable, __file__, "--child", tool, test.source]
    environment: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        if settings is not None:
            lines = [f"khronos_validation.{k} = {str(v).lower()}\n" for k, v in settings.items()]
            (Path(folder) / "vk_layer_settings.txt").write_text("".join(lines))
            environment["VK_LAYER_SETTINGS_PATH"] = folder
            command = [LAVAPIPE, *command]
        start = time.perf_counter()
        status, output, errors = in_process(command, environment)
        seconds = time.perf_counter() - start
    lines = output.splitlines()
    if lines and lines[-1].startswith("{"):
        return replace(Verdict(**json.loads(lines[-1])), seconds=seconds)
    if status < 0:
        return Verdict(failed=f"crashed ({signal.Signals(-status).name})", seconds=seconds)
    last = errors.strip().splitlines()
    return Verdict(failed=last[-1][:200] if last else f"exit status {status}", seconds=seconds)


def run_layer(test: KernelTest) -> Verdict:
    """Runs all of GPU-AV, or its two halves separately if the combination crashes."""
    verdict = run_child("gpu-av", test, FULL)
    if not verdict.failed.startswith("crashed"):
        return verdict
    halves = [run_child("gpu-av", test, settings) for settings in HALVES]
    said = [name for half in halves for name in half.said]
    failed = "" if said or not all(half.failed for half in halves) else verdict.failed
    seconds = verdict.seconds + sum(half.seconds for half in halves)
    return Verdict(list(dict.fromkeys(said)), failed, seconds)


def run_spirv_val(test: KernelTest) -> Verdict:
    from xdsl_spirv.tools.kernel_test.loading import load_kernel

    binary = load_kernel(compiled(test)).binary
    with tempfile.NamedTemporaryFile(suffix=".spv") as file:
        file.write(binary)
        file.flush()
        command = [khronos.tool("spirv-val"), "--target-env", ENVIRONMENT, file.name]
        start = time.perf_counter()
        _, output, errors = in_process(command, {})
        seconds = time.perf_counter() - start
    said = (output + errors).strip()
    return Verdict([said.partition("\n")[0][:120]] if said else [], seconds=seconds)


RUNS: dict[str, Callable[[KernelTest], Verdict]] = {
    "interpreter": lambda test: run_child("interpreter", test),
    "spirv-val": run_spirv_val,
    "gpu-av": run_layer,
}
TOOLS = tuple(RUNS)


def measure(
    tests: Sequence[KernelTest], tools: Sequence[str], kept: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns verdicts by kernel and tool. Verdicts of other tools are taken from `kept`."""
    results: dict[str, dict[str, Any]] = {}
    for test in tests:
        name = kernel_name(test)
        verdicts = {tool: RUNS[tool](test) for tool in tools}
        fresh = {tool: asdict(verdict) for tool, verdict in verdicts.items()}
        results[name] = kept.get(name, {}) | fresh
        shown = "; ".join(f"{t}: {v.failed or v.said}" for t, v in verdicts.items())
        print(f"{name}: {shown}", flush=True)
    return results


# Functions that write the table.


def summarize(kernels: dict[str, dict[str, Any]], tool: str) -> str:
    """Returns a row: bugs caught, missed and not run, false reports, median seconds."""
    broken = [v[tool] for name, v in kernels.items() if name.endswith("/broken")]
    others = [v[tool] for name, v in kernels.items() if not name.endswith("/broken")]
    caught = sum(bool(v["said"]) for v in broken)
    false = sum(bool(v["said"]) for v in others)
    seconds = sorted(v[tool]["seconds"] for v in kernels.values())[len(kernels) // 2]
    not_run = sum(not v["said"] and bool(v["failed"]) and HUNG not in v["failed"] for v in broken)
    return (
        f"{caught} of {len(broken)} | {len(broken) - caught - not_run} | "
        f"{not_run} | {false} of {len(others)} correct kernels | {seconds:.2g}"
    )


def cell(kernels: dict[str, dict[str, Any]], folder: str, tool: str) -> str:
    """Returns a table cell with a tool's reports on a bug, and on the correct kernel."""
    right = kernels.get(f"{folder}/repaired") or kernels[f"{folder}/right"]
    broken = kernels.get(f"{folder}/broken")
    words: list[str] = []
    if broken is not None:
        verdict = broken[tool]
        shown = ", ".join(dict.fromkeys(_short(name) for name in verdict["said"]))
        words.append(shown or (_failure(verdict["failed"]) if verdict["failed"] else "missed"))
    if right[tool]["said"]:
        words.append("**false report on the correct kernel**")
    elif right[tool]["failed"] and (broken is None or not broken[tool]["failed"]):
        words.append(f"correct kernel not run: {_failure(right[tool]['failed'])}")
    return "; ".join(words) or "silent"


def _short(name: str) -> str:
    if name.startswith("refused: "):
        return "refused"
    if "data race" in name:
        return "data race"
    name = name.removeprefix("VUID-vkCmdDispatch-").removeprefix("VUID-")
    return re.split(r"\.| \(", name.removeprefix("vkCmdDispatch(): "))[0]


def _failure(text: str) -> str:
    first = text.split(" (")[0]
    return f"not run: {first}" if "lacks" in text else first


def table(results: dict[str, Any]) -> str:
    """Returns the page's tables in Markdown."""
    kernels = results["kernels"]
    lines = [
        "| tool | bugs caught | bugs missed | bugs not run | false reports | median seconds |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {tool} | {summarize(kernels, tool)} |" for tool in TOOLS]
    lines += ["", f"| bug or correct kernel | {' | '.join(TOOLS)} |", f"|---|{'---|' * len(TOOLS)}"]
    folders = sorted({name.split("/")[0] for name in kernels})
    folders.sort(key=lambda folder: f"{folder}/right" in kernels)
    for folder in folders:
        shown = f"{folder} (correct)" if f"{folder}/right" in kernels else folder
        cells = [cell(kernels, folder, tool) for tool in TOOLS]
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_table() -> None:
    """Writes the tables between the markers of the page."""
    text = PAGE.read_text()
    before, rest = text.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    new = table(json.loads(RESULT.read_text()))
    PAGE.write_text(f"{before}{MARKS[0]}\n{new}\n{MARKS[1]}{after}")


def layer_version() -> str:
    manifest = LAVAPIPE.parent / "layers" / "VkLayer_khronos_validation.json"
    return json.loads(manifest.read_text())["layer"]["api_version"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Who finds the bugs of tests/kernels?")
    parser.add_argument("-k", default="", help="only kernels whose names contain this")
    parser.add_argument("--tool", choices=TOOLS, action="append", help="only this tool, again")
    parser.add_argument("--table", action="store_true", help="write the tables of the page")
    parser.add_argument("--child", nargs=2, metavar=("TOOL", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["GLSLANG"] = str(ROOT / ".glslang" / "bin" / "glslang")
    if arguments.child:
        tool, path = arguments.child
        print(json.dumps(asdict(CHILDREN[tool](Path(path)))))
        return 0
    if arguments.table:
        write_table()
        return 0
    paths = sorted(KERNELS.glob(f"*/*{SUFFIX}"))
    tests = [read_test(path) for path in paths if arguments.k in str(path)]
    described = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "layer": layer_version(),
    }
    kept = json.loads(RESULT.read_text())["kernels"] if RESULT.exists() else {}
    kernels = measure(tests, arguments.tool or TOOLS, kept)
    if arguments.tool or not arguments.k:
        kernels = {name: (kept | kernels)[name] for name in map(kernel_name, map(read_test, paths))}
        RESULT.write_text(json.dumps({**described, "kernels": kernels}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
