"""
Stores results of jobs in a file. Job key, device and driver identify a result.

The file is an SQLite database, to which rows are only added. Jobs with stored results are not run
again, so an interrupted run continues. Several processes may write to one file, and files of
several machines can be merged.
"""

from __future__ import annotations

import errno
import hashlib
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl_spirv.jobs.job import Job, Result, code_digest, from_bytes, to_bytes
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.runtime.closing import Closing
from xdsl_spirv.runtime.errors import ProgramError

APPLICATION = 0x78537056
"""The application id in SQLite's header."""
VERSION = 1
WAIT_SECONDS = 30.0
"""Seconds to wait for a write of another process."""
SHORT = 4096
"""Maximum bytes of a value in a job's stored data. A digest replaces longer values."""

SCHEMA = (
    f"PRAGMA application_id={APPLICATION}",
    f"PRAGMA user_version={VERSION}",
    """
    CREATE TABLE results (
      key TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL, at REAL NOT NULL,
      kind TEXT NOT NULL, needs TEXT NOT NULL, data BLOB NOT NULL, code TEXT NOT NULL,
      status TEXT NOT NULL, value BLOB NOT NULL, cause TEXT NOT NULL, seconds REAL NOT NULL,
      worker TEXT NOT NULL,
      PRIMARY KEY (key, device, driver, at)
    )""",
    """
    CREATE TRIGGER results_stay BEFORE DELETE ON results
    BEGIN SELECT RAISE(ABORT, 'results are only added'); END""",
    """
    CREATE TRIGGER results_are_final BEFORE UPDATE ON results
    BEGIN SELECT RAISE(ABORT, 'results are only added'); END""",
)
COLUMNS = "key, device, driver, at, kind, needs, data, code, status, value, cause, seconds, worker"
TYPES = [str, str, str, float, str, str, bytes, str, str, bytes, str, float, str]
ADD = f"INSERT OR IGNORE INTO results ({COLUMNS}) VALUES ({', '.join('?' * 13)})"


@dataclass(frozen=True)
class Record:
    """A row of the store: a result, the kind and data of its job, and the time of the result."""

    key: str
    kind: str
    needs: str
    data: Any
    """The job's data. Bytes longer than `SHORT` are `{"sha256": digest, "length": number}`."""
    result: Result
    at: float
    code: str


class Store(Closing):
    """
    A file of results, and a context manager that closes it.

    Raises `ProgramError` for a file that cannot be read or written, or is not a store.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock = threading.Lock()
        with self._guard_file():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(
                self.path, WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._prepare()

    def _prepare(self) -> None:
        """Creates the tables of a new file. Refuses a file that is not a store."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        if not self._pragma("schema_version"):
            for statement in SCHEMA:
                execute(statement)
        execute("COMMIT")
        version = self._pragma("user_version")
        if self._pragma("application_id") != APPLICATION:
            raise ProgramError(
                "the file is not a store of results", str(self.path), "name another file"
            )
        if version != VERSION:
            raise ProgramError(
                f"the store has version {version}, but this package reads version {VERSION}",
                str(self.path),
                "update xdsl-spirv, or name another file",
            )
        execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=NORMAL")

    def _pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _guard_file(self) -> Generator[None]:
        """Locks the file for one thread, and converts the file's errors to `ProgramError`."""
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as error:
            full = "full" in str(error) or getattr(error, "errno", None) == errno.ENOSPC
            raise ProgramError(
                f"the store cannot be {'written' if full else 'used'}: {error}",
                str(self.path),
                "free disk space and run the command again: stored results are reused"
                if full
                else "name another file",
            ) from error

    def find(self, job: Job, place: Place) -> Result | None:
        """Returns the latest result of a job for a device and driver, or None."""
        with self._guard_file():
            row = self.connection.execute(
                f"SELECT {COLUMNS} FROM results WHERE key=? AND device=? AND driver=? "
                "ORDER BY at DESC LIMIT 1",
                (job.key, place.device, place.driver),
            ).fetchone()
        return None if row is None else self._read(row).result

    def add(self, job: Job, result: Result) -> None:
        """Stores a result permanently."""
        row = (
            *(job.key, result.device, result.driver, time.time()),
            *(job.kind, job.needs, to_bytes(_shorten_bytes(job.data)), code_digest()),
            *(result.status, to_bytes(result.value), result.cause, result.seconds, result.worker),
        )
        with self._guard_file():
            self.connection.execute(ADD, row)

    def records(self, kind: str | None = None) -> Iterator[Record]:
        """Yields the records by time, of one kind if `kind` is given."""
        where, values = ("WHERE kind=?", (kind,)) if kind else ("", ())
        with self._guard_file():
            rows = self.connection.execute(
                f"SELECT {COLUMNS} FROM results {where} ORDER BY at", values
            ).fetchall()
        return map(self._read, rows)

    def _read(self, row: Sequence[Any]) -> Record:
        try:
            if [type(value) for value in row] != TYPES:
                raise TypeError("a column has a wrong type")
            return _record(row)
        except (ValueError, TypeError, RecursionError) as error:
            raise ProgramError(
                f"a result is damaged: {error}", str(self.path), "name another file"
            ) from error

    def merge(self, other: Store) -> int:
        """Copies the results that only the other store has. Returns their number."""
        with other._guard_file():
            rows = other.connection.execute(f"SELECT {COLUMNS} FROM results").fetchall()
        for row in rows:
            other._read(row)
        with self._guard_file():
            before = self.connection.total_changes
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                self.connection.executemany(ADD, rows)
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")
            return self.connection.total_changes - before

    def __len__(self) -> int:
        with self._guard_file():
            return self.connection.execute("SELECT count(*) FROM results").fetchone()[0]

    def close(self) -> None:
        self.connection.close()


def _record(row: Sequence[Any]) -> Record:
    key, device, driver, at, kind, needs, data, code, *rest = row
    status, value, cause, seconds, worker = rest
    result = Result(status, from_bytes(value), cause, seconds, worker, device, driver)
    return Record(key, kind, needs, from_bytes(data), result, at, code)


def _shorten_bytes(data: Any) -> Any:
    """Replaces long bytes in data by their digest."""
    if isinstance(data, bytes) and len(data) > SHORT:
        return {"sha256": hashlib.sha256(data).hexdigest(), "length": len(data)}
    if isinstance(data, Mapping):
        return {name: _shorten_bytes(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_shorten_bytes(value) for value in data]
    return data
