"""
Finds code blocks in the documentation, and checks the commands in them.

Commands are not run. Their options, passes, targets, extras and files must exist.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile, pairwise
from pathlib import Path

from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.xdsl_opt_main import xDSLOptMain

from xdsl_spirv.tools.main import parser

ROOT = Path(__file__).resolve().parent.parent

FENCE = re.compile(
    r"^(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
OWN_PASS = re.compile(r'^    name = "([\w-]+)"', re.MULTILINE)
"""Matches the name of a pass that a page defines."""

ASSIGNMENT = re.compile(r"[A-Z_]+=")
INDENTED = re.compile(r"(?:\A|\n\n)    (\S.*)")

ELSEWHERE = {
    "source": "fish",
    "cc": "gcc",
    "cp": "coreutils",
    "node": "nodejs",
    "npm": "npm",
    "dask": "distributed",
    "./runner": "",
    "pytest": "pytest",
}
"""Maps commands of other projects to the package that contains them."""


@dataclass(frozen=True)
class Block:
    """A code block: its page, line number, language and text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str) -> list[Block]:
    """Returns the code blocks of a page of the repository, in order."""
    text = (ROOT / page).read_text()
    return [
        Block(page, text[: m.start()].count("\n") + 1, m["language"], m["text"])
        for m in FENCE.finditer(text)
    ]


def indented_code(page: str) -> list[str]:
    """Returns the first lines of indented code blocks, which have no language."""
    return INDENTED.findall(FENCE.sub("", (ROOT / page).read_text()))


def commands(block: Block) -> Iterator[list[str]]:
    """Yields each command in a shell block as a list of words. Leaves out redirections."""
    for line in block.text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";<>|")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= {";", "|"}:
                yield words
                words = []
            else:
                words.append(word)
        if words:
            redirected = (n for n, word in enumerate(words) if word in ("<", ">"))
            yield words[: next(redirected, None)]


def problem_of(words: list[str], page: str) -> str:
    """Describes what is wrong with a command on a page. Returns "" if nothing is."""
    own_passes = frozenset(OWN_PASS.findall((ROOT / page).read_text()))
    program, *arguments = dropwhile(ASSIGNMENT.match, words)
    match program:
        case "xdsl-spirv" if arguments[:1] != ["opt"]:
            return _refused_arguments(parser(), arguments) or _passes(arguments, own_passes)
        case "xdsl-spirv":
            return _refused_arguments(_opt_parser(), arguments[1:]) or _passes(
                arguments, own_passes
            )
        case "xdsl-opt":
            return _refused_arguments(_opt_parser(), arguments) or _passes(arguments, own_passes)
        case "make":
            known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            return "" if arguments[0] in known else f"make has no {arguments[0]}"
        case "eval":
            return problem_of(shlex.split(arguments[0].strip("$()")), page)
        case ".lavapipe/run":
            return problem_of([Path(arguments[1]).name, *arguments[2:]], page)
        case "pip":
            return _extras(arguments)
        case "python":
            return _module(arguments, (ROOT / page).parent)
        case _:
            return "" if program in ELSEWHERE else f"unknown program {program}"


@cache
def _opt_parser() -> argparse.ArgumentParser:
    from xdsl_spirv.tools.opt import SPIRVOpt

    arguments = argparse.ArgumentParser("xdsl-opt")
    tool = xDSLOptMain.__new__(SPIRVOpt)
    tool.given = []
    tool.available_passes, tool.available_targets = {}, {}
    tool.available_frontends = {}
    tool.register_all_arguments(arguments)
    return arguments


def _refused_arguments(parser: argparse.ArgumentParser, arguments: list[str]) -> str:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parser.parse_args(arguments)
    except SystemExit:
        return said.getvalue()
    return ""


def _passes(arguments: list[str], own_passes: frozenset[str]) -> str:
    universe = Universe.get_multiverse()
    for option, value in pairwise(arguments):
        if option not in ("-p", "--passes", "-t"):
            continue
        known = universe.all_targets if option == "-t" else universe.all_passes
        try:
            for spec in parse_pipeline(value):
                if spec.name in own_passes or (option == "-t" and spec.name in known):
                    continue
                PassPipeline.parse_spec(universe.all_passes, str(spec))
        except Exception as error:
            return f"{value}: {error}"
    return ""


def _extras(arguments: list[str]) -> str:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = [re.match(r"(?:\.|xdsl-spirv)\[(.*)\]$", argument) for argument in arguments]
    missing = {name for match in asked if match for name in match[1].split(",")} - set(known)
    return f"no extra {', '.join(missing)}" if missing else ""


def _module(arguments: list[str], folder: Path) -> str:
    """
    Describes a missing script or module. Returns "" if it exists. Scripts are in the repository or
    next to the page.
    """
    name = arguments[1] if arguments[0] == "-m" else arguments[0]
    known = (
        importlib.util.find_spec(name)
        if arguments[0] == "-m"
        else any((place / name).is_file() for place in (ROOT, folder))
    )
    return "" if known else f"no {name}"
