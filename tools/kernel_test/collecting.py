"""Collects the kernel tests that a command line or a folder contains."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools.kernel_test.description import KERNELS, SUFFIX, KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.toml_file import beside, read_test


@dataclass
class Collection:
    """Tests, errors of unreadable files, and kernels without a description."""

    tests: list[KernelTest] = field(default_factory=list[KernelTest])
    refused: list[tuple[Path, Misuse]] = field(default_factory=list[tuple[Path, Misuse]])
    undescribed: list[Path] = field(default_factory=list[Path])

    def add_file(self, path: Path) -> None:
        """
        Adds the test that a file describes. The file is a description, or a kernel with or without
        a description.
        """
        if path.name.endswith(SUFFIX):
            self._read(path)
        elif path.suffix not in KERNELS:
            error = Misuse(
                f"{path} is not a kernel",
                "",
                f"give a file that ends in {', '.join(KERNELS)}, a {SUFFIX} file, or a folder",
            )
            self.refused.append((path, error))
        elif beside(path).is_file():
            self._read(beside(path), path)
        else:
            self.tests.append(KernelTest(path, path))

    def _read(self, path: Path, kernel: Path | None = None) -> None:
        try:
            test = read_test(path)
        except Misuse as error:
            self.refused.append((path, error))
            return
        if kernel is not None and not _same(test.kernel, kernel):
            error = Misuse(
                f"{path} describes {test.kernel.name}, not {kernel.name}", "",
                "correct `kernel` there",
            )  # fmt: skip
            self.refused.append((path, error))
            return
        self.tests.append(test)

    def add_folder(self, folder: Path) -> None:
        """Adds the tests in a folder and its subfolders. Lists other kernels as `undescribed`."""
        first = len(self.tests)
        descriptions = sorted(folder.rglob(f"*{SUFFIX}"))
        for path in descriptions:
            self._read(path)
        described = {test.kernel.resolve() for test in self.tests[first:]}
        for path in sorted(p for suffix in KERNELS for p in folder.rglob(f"*{suffix}")):
            if path.resolve() not in described and path.is_file():
                self.undescribed.append(path)


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()


def collect(paths: Iterable[str]) -> Collection:
    """Collects the tests in files and folders."""
    collection = Collection()
    for text in paths:
        path = Path(text)
        if path.is_dir():
            collection.add_folder(path)
        elif path.exists():
            collection.add_file(path)
        else:
            collection.refused.append((path, missing(path)))
    return collection


def missing(path: Path) -> Misuse:
    """Returns an error for a file that cannot be read, with similar file names."""
    if path.is_symlink():
        try:
            path.stat()
        except OSError as error:
            remedy = "name the file itself"
            return Misuse(
                f"{path} is a symbolic link to a missing file: {error.strerror}", "", remedy
            )
    names = os.listdir(path.parent) if path.parent.is_dir() else ()
    return Misuse(f"there is no {path}", "", did_you_mean(path.name, names, "name a file"))
