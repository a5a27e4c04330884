"""
Represents jobs and results as data that can be sent to another machine and stored in a file.

A job names its `kind`; the function of the kind turns the job's data into a value. The function
raises `Wrong` for a wrong result, and `ProgramError` for data that it refuses.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from xdsl_spirv.runtime.errors import ProgramError

Status: TypeAlias = Literal[
    "ok", "wrong", "refused", "crashed", "late", "out of memory", "lost"
]  # fmt: skip
"""
Outcome of a job, such as `ok`, `wrong` (the function raised `Wrong`), `refused` (it raised
`ProgramError`), `crashed` (its process died, or an unexpected error), `lost` (its workers died).
"""
STATUSES: tuple[Status, ...] = get_args(Status)

CORES = "cores"
INTERPRETER = "interpreter"
LAVAPIPE = "lavapipe"
GPU = "vulkan:"
"""Prefix of the names of GPU resources."""
SHARE = 1 / 64
"""Share of a GPU that a shared job uses."""
BESIDE = 1 / 8
"""Share of a GPU for a job that runs nothing on the GPU. Its process still uses device memory."""
SECONDS = 60.0


class Wrong(Exception):
    """Raised if a result is not the expected one. `value` has the result."""

    def __init__(self, cause: str, value: Any = None):
        super().__init__(cause)
        self.value = value


@dataclass(frozen=True)
class Kind:
    """
    A kind of job. `function` is `module:name`, importable on all workers.

    The result of a `measured` kind depends on data, device and driver. Other results also depend
    on this package's code, so results of other code are not reused.
    """

    function: str
    measured: bool = False


KINDS: dict[str, Kind] = {
    "nothing": Kind("xdsl_spirv.jobs.kinds:nothing"),
    "differential": Kind("xdsl_spirv.testing.differential.comparing:compare"),
    "fuzz": Kind("xdsl_spirv.testing.fuzzing.batch:fuzz"),
    "graph": Kind("xdsl_spirv.testing.differential.onnx_judging:graph_job"),
    "judge": Kind("xdsl_spirv.testing.judging:judge"),
    "node case": Kind("xdsl_spirv.testing.node_cases:node_case"),
    "reduce": Kind("xdsl_spirv.tools.reduce.judging:failures"),
    "sweep": Kind("xdsl_spirv.testing.sweep:sweep"),
}
"""The kinds of jobs by name. Stores refer to the names, so a name must not change."""


@dataclass(frozen=True)
class Job:
    """
    A call of the function of a `kind` on `data`. Data is JSON that may also contain bytes.

    - `needs`: a resource: `cores`, `interpreter`, `lavapipe`, or a GPU such as `vulkan:nvidia-h200`
    - `seconds`, `memory`: limits of time, and of allocated bytes (None for no limit)
    - `shared`: other jobs may run on the GPU at the same time; for jobs that are not timed
    - `runs`: False if the job only compiles with the GPU's driver
    - `near`: name of a group of jobs that share loaded data, so that one device should run them
    - `note`: any value for the caller
    """

    kind: str
    data: Any
    needs: str = CORES
    seconds: float = SECONDS
    memory: int | None = None
    shared: bool = False
    runs: bool = True
    near: str = ""
    note: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ProgramError(f"{self.kind!r} is not a kind of job", "", f"use {', '.join(KINDS)}")

    @property
    def alone(self) -> bool:
        """True if the job uses a whole GPU."""
        return self.needs.startswith(GPU) and self.runs and not self.shared

    @property
    def share(self) -> float:
        """Share of a GPU that the job uses."""
        if not self.runs:
            return BESIDE
        return 1.0 if self.alone else SHARE

    @cached_property
    def key(self) -> str:
        """The key under which a store saves the result, together with device and driver."""
        code = "" if KINDS[self.kind].measured else code_digest()
        text = f"{self.kind}\n{code}\n".encode() + to_bytes(self.data)
        return hashlib.sha256(text).hexdigest()[:32]


@dataclass(frozen=True)
class Result:
    """The result of a job: the `value` or the `cause` of a failure, and where the job ran."""

    status: Status
    value: Any = None
    cause: str = ""
    seconds: float = 0.0
    worker: str = ""
    device: str = ""
    driver: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def to_bytes(value: Any) -> bytes:
    """
    Encodes data as JSON with sorted keys; bytes become `{"bytes": base64}`.

    Raises `ProgramError` for values that JSON cannot express.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_encode_bytes)
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"a job's data cannot be written as JSON: {error}", "", "use only JSON values and bytes"
        ) from error
    return text.encode()


def _encode_bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is neither JSON nor bytes")


def from_bytes(data: bytes) -> Any:
    """Decodes data that `to_bytes` encoded."""
    return json.loads(data, object_hook=_decode_table)


def _decode_table(table: dict[str, Any]) -> Any:
    return base64.b64decode(table["bytes"]) if table.keys() == {"bytes"} else table


def job_to_bytes(job: Job) -> bytes:
    """Encodes the job for another process, with the function of its kind and without `note`."""
    table = asdict(job) | {"function": KINDS[job.kind].function}
    del table["note"]
    return to_bytes(table)


def job_from_bytes(data: bytes) -> Job:
    """Decodes a job, and registers its kind in this process."""
    table = from_bytes(data)
    function = table.pop("function")
    KINDS.setdefault(table["kind"], Kind(function))
    return Job(**table)


@cache
def code_digest() -> str:
    """Returns the package's version and a digest of its modules, which differs if code changed."""
    import xdsl_spirv

    digest = hashlib.sha256()
    root = os.path.dirname(xdsl_spirv.__file__)
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()
        for name in sorted(name for name in files if name.endswith(".py")):
            path = os.path.join(folder, name)
            digest.update(os.path.relpath(path, root).encode())
            digest.update(Path(path).read_bytes())
    return f"{xdsl_spirv.__version__}+{digest.hexdigest()[:12]}"
