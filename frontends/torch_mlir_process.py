"""
torch-mlir in a process of its own, with a timeout, and what it complains of as an error.

The worker takes one job after the other, so that many small models cost one start. After a crash or
a timeout the next job starts another.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from xdsl_spirv.frontends.errors import FrontendError

TIMEOUT = 600.0
"""Seconds for one model. The largest that was tried takes three."""

NODE = re.compile(r'"([^"]+)"\)?:? error: |error: "([^"]+)"|loc\("([^"]+)"')
OPERATOR = re.compile(r'"onnx\.([A-Z]\w+)"')
REASON = re.compile(r"error: (?:\"[^\"]*\": ?)?(.+)")


Process = tuple["subprocess.Popen[bytes]", IO[bytes]]
"""A worker, and the file that takes its complaints."""

_early: list[Process] = []


def start_early() -> None:
    """
    Start a worker that the next `TorchMLIR` takes over: its packages take a second to read.

    For programs that will import a model and have other things to do before. Nothing happens if
    the packages are not installed.
    """
    if not _early and _missing() is None:
        _early.append(_started())


def end_early() -> None:
    """End the worker that nobody took over."""
    while _early:
        process, errors = _early.pop()
        process.kill()
        process.communicate()
        errors.close()


def _missing() -> str | None:
    """A package that the worker needs and that is not installed."""
    wanted = ("onnx", "torch_mlir")
    return next((name for name in wanted if importlib.util.find_spec(name) is None), None)


def _started() -> Process:
    errors = tempfile.TemporaryFile()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "xdsl_spirv.frontends.torch_mlir_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    return process, errors


class TorchMLIR:
    """The worker process; `with TorchMLIR() as worker: worker.run(job, folder)`."""

    def __init__(self, timeout: float = TIMEOUT):
        self.timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and the one that it forked for a job."""
        if self._process is not None:
            if hasattr(os, "killpg") and self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
            self._process.communicate()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def run(self, job: Mapping[str, Any], folder: Path) -> None:
        """
        Do a job that writes into `folder`.

        Raises `FrontendError` with the node at fault where torch-mlir names one.
        """
        process = self._running()
        assert process.stdin is not None
        started = self._errors.tell() if self._errors is not None else 0
        try:
            process.stdin.write(json.dumps(dict(job) | {"out": str(folder)}).encode() + b"\n")
            process.stdin.flush()
            finished = self._wait(process)
        except BrokenPipeError:
            finished = False
        if not finished:
            self._fail(process, folder, started)
        killed = folder / "signal"
        if killed.exists():
            raise self._crashed(-int(killed.read_text()), folder, started)
        report = folder / "error.json"
        if report.exists():
            found = json.loads(report.read_text())
            if "refused" in found:
                raise FrontendError(**found["refused"])
            raise explain(found["stage"], found["text"] + "\n" + self._said(started))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        if (package := _missing()) is not None:
            raise FrontendError(
                f"the package {package.replace('_', '-')} is not installed",
                "",
                "pip install 'xdsl-spirv[onnx]'",
                "missing",
            )
        self._process, self._errors = _early.pop() if _early else _started()
        return self._process

    def _wait(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the job was finished, in time and by a live process."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            end = time.monotonic() + self.timeout
            while (left := end - time.monotonic()) > 0:
                if selector.select(left):
                    # Libraries print here too; the worker's own line is a path.
                    line = process.stdout.readline()
                    if not line:
                        return False
                    if line.startswith(b"/"):
                        return True
        return False

    def _said(self, started: int) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(started)
        return self._errors.read().decode("utf-8", "replace")

    def _fail(self, process: subprocess.Popen[bytes], folder: Path, started: int) -> None:
        """Raise for a process that died or did not finish."""
        alive = process.poll() is None and process.stdout is not None
        try:
            code = process.wait(0.5)
            alive = False
        except subprocess.TimeoutExpired:
            code = 0
        if not alive:
            found = self._crashed(code, folder, started)
            self.close()
            raise found
        self.close()
        raise FrontendError(
            f"torch-mlir did not finish within {self.timeout:g} s",
            f"step: {_stage(folder)}",
            "simplify the model, or import it as linalg yourself",
            "timeout",
        )

    def _crashed(self, code: int, folder: Path, started: int) -> FrontendError:
        """What to raise for a process, or a fork of it, that ended with a code (-SIGNAL)."""
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        found = explain(_stage(folder), self._said(started), f"torch-mlir crashed ({how})")
        found.kind = "crash"
        return found


def _stage(folder: Path) -> str:
    """The step that a job had come to."""
    path = folder / "stage"
    return path.read_text() if path.exists() else "starting"


def explain(stage: str, text: str, fallback: str = "the import failed") -> FrontendError:
    """The error that torch-mlir's own words amount to: reason, node, operator."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((x for x in lines if "error:" in x), lines[0] if lines else "")
    reason = REASON.search(line)
    cause = reason.group(1) if reason else line
    node = NODE.search(line) or NODE.search(text)
    operator = OPERATOR.search(line) or OPERATOR.search(text)
    cause = re.split(r" : \(|: %\w+|, but found", cause)[0].strip() or fallback
    if "failed to legalize operation 'torch.operator'" in cause:
        cause = "it does not lower this operator, or not in this form"
    where = [f"step: {stage}"]
    kind = operator.group(1) if operator is not None else None
    if kind is not None:
        where.insert(0, f"operator {kind}")
    name = next(filter(None, node.groups())) if node is not None else None
    if name is not None:
        where.insert(0, f"node {name!r}")
    shown = cause if len(cause) < 300 else cause[:297] + "..."
    if fallback != "the import failed":
        shown = f"{fallback}: {shown}" if cause != fallback else fallback
    return FrontendError(
        f"torch-mlir refuses the model: {shown}",
        ", ".join(where),
        "replace the node, or cut the model there",
        operator=kind,
        node=name,
    )
