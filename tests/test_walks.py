"""
The walks (worked examples) of CONTRIBUTING.md work as written, with the stated numbers of files.

A block whose fence names a file is applied to a copy of the tree: a new file is written, an
existing one is extended, a `diff` is located by its context. The commands of the `sh` block run
there, and their output must contain every line of the `text` block. Files without a folder do not
count.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINKED = ROOT / "src" / "xdsl_spirv"

COPIED = ("src", "scripts", "docs/passes", "docs/syntax.md", "docs/instructions.md", "tests")
"""Files that a walk changes or runs, in addition to the folders that `src` links to."""

NEEDED = {
    "An ONNX operator": ("onnx", "onnxruntime"),
    "A language model's architecture": ("gguf", "cyllama"),
}
"""Packages that walks need."""

TITLE = re.compile(r"### (?P<title>.+): (?P<count>\d+) files?")
BLOCK = re.compile(
    r"^(?P<fence>```+)(?P<kind>\w+) ?(?P<path>\S*)\n(?P<text>.*?)^(?P=fence)\n", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it names or "", and its text."""

    kind: str
    path: str
    text: str


@dataclass(frozen=True)
class Walk:
    """A section of CONTRIBUTING.md, and the number of files in its title."""

    title: str
    count: int
    blocks: tuple[Block, ...]


def sections(text: str) -> dict[str, str]:
    """Returns the text below each heading. Headings in fenced blocks do not count."""
    found, heading, fence = {"": ""}, "", ""
    for line in text.splitlines(keepends=True):
        ticks = re.match("```+|", line)
        if ticks and ticks[0] and ticks[0] == (fence or ticks[0]):
            fence = "" if fence else ticks[0]
        if line.startswith("#") and not fence:
            heading = line.strip()
        found[heading] = found.get(heading, "") + line
    return found


def walks() -> list[Walk]:
    return [
        Walk(
            title["title"],
            int(title["count"]),
            tuple(Block(b["kind"], b["path"], b["text"]) for b in BLOCK.finditer(body)),
        )
        for heading, body in sections((ROOT / "CONTRIBUTING.md").read_text()).items()
        if (title := TITLE.fullmatch(heading))
    ]


WALKS = walks()


def patched(text: str, diff: str) -> str:
    """Applies the hunks of a diff. The old lines of each hunk must occur once in the text."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        new = "".join(line[1:] for line in lines if line[0] != "-")
        assert text.count(old) == 1, f"{text.count(old)} times in the file:\n{old}"
        text = text.replace(old, new)
    return text


def apply(block: Block, folder: Path) -> None:
    path = folder / block.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if block.kind == "diff":
        path.write_text(patched(path.read_text(), block.text))
    elif path.exists() and "/" in block.path:
        separator = "\n\n" if path.suffix == ".py" else ""
        path.write_text(path.read_text() + separator + block.text)
    else:
        path.write_text(block.text)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of the files that walks change and run. File times are copied, too."""
    folder = tmp_path_factory.mktemp("tree")
    rooms = [
        str(path.resolve().relative_to(ROOT)) for path in LINKED.iterdir() if path.is_symlink()
    ]
    for name in (*COPIED, *rooms):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            shutil.copy2(source, target)
        else:
            ignored = shutil.ignore_patterns("corpus", "Output", "*.npz", "*.spv")
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
    shutil.copy2(ROOT / "pyproject.toml", folder)
    return folder


def files_of(tree: Path, folders: set[str]) -> dict[str, bytes]:
    """Returns the contents of the files in some folders of a tree, without hidden ones."""
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for folder in folders
        for path in (tree / folder).rglob("[!.]*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_there_are_seven_walks():
    assert [walk.title.split()[-1] for walk in WALKS] == [
        *("instruction", "operator", "activation", "pass", "kernel", "architecture", "device")
    ]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.title.split()[-1])
def test_a_walk_works_as_written(walk: Walk, tree: Path):
    missing = [name for name in NEEDED.get(walk.title, ()) if not importlib.util.find_spec(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    folders = {path.name for path in tree.iterdir() if path.is_dir()}
    before = files_of(tree, folders)
    for block in walk.blocks:
        if block.path:
            apply(block, tree)
    (commands,) = (block.text for block in walk.blocks if block.kind == "sh")
    (expected,) = (block.text for block in walk.blocks if block.kind == "text")
    bin = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-ec", commands],
        cwd=tree,
        env={
            **os.environ,
            "PATH": os.pathsep.join([bin, os.environ["PATH"]]),
            "PYTHONPATH": str(tree / "src"),
        },
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    for line in expected.splitlines():
        assert line in printed, f"not printed: {line}\n{printed}"
    after = files_of(tree, folders)
    touched = [name for name in after if after[name] != before.get(name)]
    assert len(touched) == walk.count, sorted(touched)
