"""
The correctness sweep: random contractions in every form, type and layout, compiled and run.

Every case is compiled for every target; each binary has to pass spirv-val; the program runs on the
interpreter with all checks on, and on a Vulkan device where one is given; each result has to lie in
the legal interval around the source's (docs/numerics.md), and the checks must find nothing.

    benchmarks/sweep.py --count 2000 [--seed 0] [--jobs 2] [--vulkan lavapipe]
    benchmarks/sweep.py --only 17 --target lavapipe        one case, with its text
    benchmarks/sweep.py --workloads my_module:my_cases     cases of your own: see sweep_cases.py

Cases that are done are kept in `build/sweep-....jsonl`, so that a sweep that was stopped goes on
(`--fresh` begins again). `--vulkan lavapipe` runs the programs of the target lavapipe on the driver
of `make lavapipe`, `--vulkan TARGET=vulkan` those of a target on whatever device there is. The
summary goes to benchmarks/results/sweep.json.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "sweep.json"
DEFAULT = "sweep_cases:case"
SHOWN = 2000
"""Characters of a message that are kept."""


@dataclass(frozen=True)
class Plan:
    """What a worker needs to know besides the seeds."""

    workloads: str
    targets: tuple[str, ...]
    vulkan: str | None
    """The target whose programs run on a Vulkan device."""


def generator_of(name: str) -> Callable[[int], Any]:
    """The function `module:function`; modules in the working folder and beside this file too."""
    module, _, function = name.partition(":")
    for folder in (str(ROOT / "benchmarks"), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return getattr(import_module(module), function)


@cache
def _device() -> Any:
    from xdsl_spirv.runtime.vulkan.worker import open_isolated

    return open_isolated("vulkan")


def _case(seed: int, plan: Plan) -> Iterator[dict[str, Any]]:
    """One record for each target."""
    made = generator_of(plan.workloads)(seed)
    for target in plan.targets:
        record = {"seed": seed, "target": target, "form": made.form, "types": made.types}
        started = time.perf_counter()
        try:
            record |= _run(made, seed, target, plan)
        except Exception as error:
            kind = type(error).__name__
            record |= {"status": "error", "what": f"{kind}: {error}"[:SHOWN]}
            if kind not in ("PassFailedException", "ProgramError", "Refusal"):
                record["where"] = traceback.format_exc()[-SHOWN:]
        record["seconds"] = round(time.perf_counter() - started, 2)
        yield record


def _run(made: Any, seed: int, target: str, plan: Plan) -> dict[str, Any]:
    import numpy as np

    from xdsl_spirv.compiler import compile_module
    from xdsl_spirv.interpreter.checks import Checks
    from xdsl_spirv.runtime import run
    from xdsl_spirv.runtime.modules import parse_text
    from xdsl_spirv.tools.khronos import spirv_val

    program = compile_module(parse_text(made.text), target)
    messages = [text for code in program.code.values() if (text := spirv_val(code.binary))]
    if messages:
        return {"status": "invalid", "what": messages[0][:SHOWN]}
    found: dict[str, Any] = {"kernels": len(program.code)}
    generator = np.random.default_rng(seed)
    draws = made.draws(generator) if hasattr(made, "draws") else [made.inputs(generator)]
    for inputs in draws:
        checks = Checks.all()
        wrong = made.verdict(program, inputs, run(program, inputs, checks=checks))
        if checks.report.findings:
            return found | {"status": "finding", "what": str(checks.report.findings[0])[:SHOWN]}
        if wrong:
            return found | {"status": "mismatch", "what": wrong[:SHOWN], "on": "interpreter"}
        if target == plan.vulkan:
            wrong = made.verdict(program, inputs, _on_device(program, inputs))
            if wrong:
                return found | {"status": "mismatch", "what": wrong[:SHOWN], "on": "vulkan"}
            found["on_device"] = True
    return found | {"status": "passed"}


def _on_device(program: Any, inputs: Any) -> Any:
    try:
        return _device().execute(program, inputs)
    except Exception:
        with contextlib.suppress(Exception):
            _device().kill()
        _device.cache_clear()
        raise


def _start_with_driver(name: str) -> None:
    """Start this program again with a software driver, if `make lavapipe` made one."""
    run = ROOT / ".lavapipe" / "run"
    if not run.exists():
        sys.exit(f"error: there is no {run}; run `make lavapipe`")
    os.environ["XDSL_SPIRV_SWEEP_DRIVER"] = name
    sys.exit(subprocess.run([run, sys.executable, *sys.argv], check=False).returncode)


def main() -> int:
    arguments = _arguments()
    target, _, device = (arguments.vulkan or "").partition("=")
    if target and not device and os.environ.get("XDSL_SPIRV_SWEEP_DRIVER") != target:
        _start_with_driver(target)
    plan = Plan(arguments.workloads, tuple(arguments.target), target or None)
    if arguments.only is not None:
        return _only(arguments.only, plan)
    name = "".join(x if x.isalnum() else "-" for x in arguments.workloads)
    state = arguments.state or ROOT / "build" / f"sweep-{arguments.seed}-{name}.jsonl"
    state.parent.mkdir(exist_ok=True)
    if arguments.part is not None:
        return _work(arguments, plan, state)
    if arguments.fresh:
        for each in _parts(state):
            each.unlink()
    command = [*_python(), *(x for x in sys.argv if x != "--fresh"), "--part"]
    parts = [subprocess.Popen([*command, str(number)]) for number in range(arguments.jobs)]
    codes = [each.wait() for each in parts]
    if any(codes):
        print(f"error: a process ended with {max(codes, key=abs)}; run again to go on")
    records = [each for each in _kept(state) if each["seed"] in _seeds(arguments)]
    summary = _summary(records, arguments, plan)
    arguments.output.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps({key: summary[key] for key in ("contractions", "runs", "status")}))
    return 1 if any(codes) or summary["failures"] else 0


def _python() -> list[str]:
    from xdsl_spirv.runtime.processes import python_command

    return python_command()


def _seeds(arguments: argparse.Namespace) -> range:
    return range(arguments.seed, arguments.seed + arguments.count)


def _parts(state: Path) -> list[Path]:
    """What each process of a sweep, and of the one before, has done."""
    return sorted(state.parent.glob(f"{state.stem}.*{state.suffix}"))


def _work(arguments: argparse.Namespace, plan: Plan, state: Path) -> int:
    """The cases of one process that are not done yet."""
    done = {each["seed"] for each in _kept(state)}
    mine = [seed for seed in _seeds(arguments) if seed % arguments.jobs == arguments.part]
    with state.with_suffix(f".{arguments.part}{state.suffix}").open("a") as out:
        for seed in mine:
            if seed in done:
                continue
            records = list(_case(seed, plan))
            out.write("".join(json.dumps(record) + "\n" for record in records))
            out.flush()
            for record in records:
                if record["status"] != "passed":
                    _report(record)
    return 0


def _kept(state: Path) -> list[dict[str, Any]]:
    """The records of a sweep, in the order of the seeds."""
    lines = [line for part in _parts(state) for line in part.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda each: each["seed"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Random contractions, compiled, run and compared.")
    parser.add_argument("--count", type=int, default=2000, help="cases (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first case's (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--target", nargs="+", default=["lavapipe", "nvidia-h200"])
    parser.add_argument("--vulkan", metavar="TARGET[=vulkan]", help="run its programs on a device")
    parser.add_argument("--workloads", default=DEFAULT, metavar="MODULE:FUNCTION")
    parser.add_argument("--only", type=int, metavar="SEED", help="one case, in detail")
    parser.add_argument("--fresh", action="store_true", help="forget the cases that were done")
    parser.add_argument("--state", type=Path, help="where the cases that were done are kept")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    return parser.parse_args()


def _only(seed: int, plan: Plan) -> int:
    print(generator_of(plan.workloads)(seed).text)
    records = list(_case(seed, plan))
    for record in records:
        _report(record)
        print(record.get("where", ""))
    return 0 if all(each["status"] == "passed" for each in records) else 1


def _report(record: dict[str, Any]) -> None:
    print(
        f"{record['seed']} {record['target']} {record['form']} {record['types']}: "
        f"{record['status']} {record.get('what', '')}",
        flush=True,
    )


def _summary(records: list[dict[str, Any]], arguments: Any, plan: Plan) -> dict[str, Any]:
    def counts(key: str) -> dict[str, int]:
        found = collections.Counter(str(each[key]) for each in records)
        return dict(sorted(found.items()))

    extra = "" if plan.workloads == DEFAULT else f" --workloads {plan.workloads}"
    failures = [
        {
            **{key: each[key] for key in ("seed", "target", "form", "types", "status", "what")},
            "reproduce": f"benchmarks/sweep.py --only {each['seed']} --target {each['target']}"
            + (f" --vulkan {arguments.vulkan}" if each.get("on") == "vulkan" else "")
            + extra,
        }
        for each in records
        if each["status"] != "passed"
    ]
    return {
        "workloads": plan.workloads,
        "seed": arguments.seed,
        "contractions": len({each["seed"] for each in records}),
        "runs": len(records),
        "on_device": sum(bool(each.get("on_device")) for each in records),
        "device": arguments.vulkan,
        "kernels": sum(each.get("kernels", 0) for each in records),
        "seconds": round(sum(each["seconds"] for each in records)),
        "status": counts("status"),
        "targets": counts("target"),
        "types": counts("types"),
        "forms": counts("form"),
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(main())
