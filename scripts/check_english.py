#!/usr/bin/env python3
"""
Finds sentences that need a second reading, in docstrings, comments, errors, names and pages.

    scripts/check_english.py                 fail on sentences beyond the baseline
    scripts/check_english.py FILE ...        print all such sentences in these files or folders
    scripts/check_english.py --write         shrink the baseline to the sentences that are left

The baseline (english_baseline.json, beside this script) counts the sentences of each file that
were there before the check. A count can only go down. Each pattern below names a better form.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BASELINE = Path(__file__).with_name("english_baseline.json")

PREPOSITIONS = (
    "about|as|at|before|behind|beside|between|but|by|for|from|in|into|like|of|on|than|through|"
    "to|with"
)


class Pattern(NamedTuple):
    """A form of sentence, the places where it is searched, and a better form."""

    name: str
    regex: str
    better: str
    starts: bool = False
    """True if the pattern is searched only at the start of sentences, and not in questions."""
    titles: bool = True
    """True if headings of pages are searched, too."""


PATTERNS = (
    Pattern(
        "starts with 'What'",
        r"What\b(?! to | if )",
        "name the thing: 'Instructions without an effect on results.'",
        starts=True,
        titles=False,
    ),
    Pattern(
        "starts with 'How'",
        r"How\b(?! to )",
        "start with a noun or a verb: 'Number of tiles.', 'Writes an event as ...'",
        starts=True,
        titles=False,
    ),
    Pattern(
        "starts with 'Of'",
        r"Of\b(?! course)",
        "put the subject first: 'Bytes of Workgroup memory used by the tiles.'",
        starts=True,
    ),
    Pattern(
        "starts with a question word",
        r"(?:Who|Whose|Whom|Which|Why|Whoever|Whatever|Whichever|Wherever)\b",
        "say what is returned or done: 'The invocations that ...', 'Derives ...'",
        starts=True,
        titles=False,
    ),
    Pattern(
        "starts with a preposition and 'which'",
        r"(?:By|From|In|For|On|To|With|At|Until) (?:what|which|whom)\b",
        "name the thing: 'The lowest bit of the index that ...'",
        starts=True,
    ),
    Pattern(
        "'whether what'",
        r"\bwhether (?:what|who|which)\b",
        "name the subject: 'True if the producer ...'",
    ),
    Pattern(
        "'nobody'",
        r"\bnobody\b",
        "say it of the thing: 'unused', 'not known', 'not read by any operation'",
    ),
    Pattern(
        "'is none'",
        r"(?<![Tt]here )\b(?:is|are|was|were) none\b(?! of)",
        "repeat the noun: 'is not a schedule', 'has no name'",
    ),
    Pattern(
        "'is no <noun>'",
        r"(?<![Tt]here )\b(?:is|are|was|were|be) no "
        r"(?!(?:longer|more|less|fewer|larger|earlier|later)\b)[a-z]",
        "'is not a ...'",
    ),
    Pattern("starts with 'Those'", r"Those\b", "name them", starts=True),
    Pattern(
        "'those of'",
        r"\b[Tt]hose (?:of|in|at|on|for|by|with|from)\b",
        "repeat the noun: 'the sizes of ...'",
    ),
    Pattern(
        "'what' behind a preposition",
        rf"\b(?:{PREPOSITIONS}) what\b",
        "name the thing: 'of the values that ...'",
    ),
    Pattern(
        "a clause that starts with 'what'",
        r"[,;:] (?:and |or |but |that )?what (?!to\b|if\b)[^?]*$",
        "name the thing: '; fields of later versions may be missing'",
    ),
    Pattern(
        "an inversion",
        r"(?:(?:There|Here|(?:Beside|Behind|Under|Before) \w+) (?:stands?|lies?|goes|comes?)"
        r"|(?:So|Nor|Neither|Such) (?:is|are|was|does|do|has|have|can|may|must)"
        r"|(?:As|Nor) \w+ (?:has|have) it)\b",
        "subject, verb, object",
        starts=True,
    ),
    Pattern(
        "'says nothing of'",
        r"\b(?:say|says|said|know|knows|tell|tells) (?:nothing|something) (?:of|about)\b",
        "name the missing property: 'does not give the size'",
    ),
    Pattern(
        "'nothing' as an agent or a place",
        r"\b(?:by|from|for|of|with|into|to) nothing\b(?! else)",
        "say what is missing: 'without operands', 'is not computed by an operation'",
    ),
)

PARTICLES = set(
    "of whole beside behind put said given held made found left kept built rebuilt bound laid met "
    "drawn known seen shown told cut worth alike apart aside ahead along within without beyond "
    "sought given_away taken written spoken chosen broken hidden".split()
)
"""Names that are a particle or an irregular participle. Regular participles end in `ed`."""
VERBS = {"embed", "feed", "seed", "need", "shed", "speed", "proceed", "exceed", "succeed", "shred"}


class Riddle(NamedTuple):
    """A sentence and the pattern that it matches."""

    path: Path
    line: int
    pattern: str
    sentence: str
    better: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.pattern}: {self.sentence!r}; better: {self.better}"


SENTENCE = re.compile(
    r"(?:(?!\n\s*\n|\n\s*[-*|>]|\n\s*\d+\. | \| |[.?!:][\"')*]*(?:\s|$)).)+.?", re.DOTALL
)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each sentence. Empty lines, list items and cells end a sentence."""
    for match in SENTENCE.finditer(text):
        sentence = match.group()
        yield match.end() - len(sentence.lstrip(" \n-*>|#")), match.end()


def problems(text: str, title: bool = False) -> Iterator[tuple[int, Pattern, str]]:
    """Yields line, first matching pattern and text of faulty sentences. Code is not searched."""
    code = re.compile(r"`[^`]*`|\]\([^)]*\)|\{[^{}]*\}")
    searched = code.sub(lambda match: re.sub(r"\S", "x", match.group()), text)
    for start, end in sentences(searched):
        sentence = " ".join(searched[start:end].split())
        for pattern in PATTERNS:
            if (title and not pattern.titles) or (pattern.starts and sentence.endswith("?")):
                continue
            search = re.match if pattern.starts else re.search
            if search(pattern.regex, sentence):
                yield text.count("\n", 0, start), pattern, " ".join(text[start:end].split())
                break


def _name_problem(name: str) -> str | None:
    """Returns the matching pattern if a function's name is a single participle or particle."""
    bare = name.strip("_")
    if bare.startswith("test_"):
        if re.match(r"test_(?:what|how|who|of|those|nobody|which|why)_", bare):
            return "a test's name starts with a question word: say what holds"
        return None
    participle = re.fullmatch(r"[a-z]{3,}ed", bare) and bare not in VERBS
    if participle or bare in PARTICLES:
        return "a function named by a participle or a particle"
    return None


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in node.values)
            parts = (part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in inside:
                yield node.lineno, node.value


def _comments(text: str) -> Iterator[tuple[int, str]]:
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or token.string.startswith("#!"):
            continue
        line, words = token.start[0], token.string.lstrip("# ")
        if block and line == last + 1:
            block.append(words)
        else:
            if block:
                yield start, "\n".join(block)
            block, start = [words], line
        last = line
    if block:
        yield start, "\n".join(block)


def _python(path: Path, text: str) -> Iterator[Riddle]:
    tree = ast.parse(text)
    for start, prose in (*_strings(tree), *_comments(text)):
        if len(prose.split()) < 2 or "// CHECK" in prose:
            continue
        for line, pattern, sentence in problems(prose):
            yield Riddle(path, start + line, pattern.name, sentence, pattern.better)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (cause := _name_problem(node.name)):
            if not any("property" in ast.unparse(d) for d in node.decorator_list):
                yield Riddle(path, node.lineno, cause, node.name, "a verb and its object")


def _page(path: Path, text: str) -> Iterator[Riddle]:
    blocks = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
    prose = blocks.sub(lambda block: "\n" * block.group().count("\n"), text)
    for start, line in enumerate(prose.split("\n"), 1):
        if line.startswith("#"):
            for _, pattern, sentence in problems(line, title=True):
                yield Riddle(path, start, pattern.name, sentence, pattern.better)
    body = re.sub(r"^#.*$", "", prose, flags=re.MULTILINE)
    for line, pattern, sentence in problems(body):
        yield Riddle(path, line + 1, pattern.name, sentence, pattern.better)


def riddles(path: Path, text: str) -> Iterator[Riddle]:
    """Yields the sentences and names of a Python file or Markdown page that match a pattern."""
    return _python(path, text) if path.suffix == ".py" else _page(path, text)


def tracked_files(places: Iterable[str] = ()) -> list[Path]:
    """Returns Python files and pages relative to the root, without this script and its test."""
    command = ["git", "ls-files", *places]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    apart = {"scripts/check_english.py", "tests/test_english.py"}
    return [
        Path(name)
        for name in output.splitlines()
        if name not in apart and name.endswith((".py", ".md")) and not (ROOT / name).is_symlink()
    ]


def find_all(files: Iterable[Path]) -> Iterator[Riddle]:
    for path in files:
        if (ROOT / path).is_file():
            yield from riddles(path, (ROOT / path).read_text())


def beyond(found: list[Riddle], baseline: dict[str, int]) -> list[Riddle]:
    """Returns the riddles in files that have more riddles than the baseline allows."""
    counts = Counter(str(riddle.path) for riddle in found)
    return [r for r in found if counts[str(r.path)] > baseline.get(str(r.path), 0)]


def shrink(found: list[Riddle], baseline: dict[str, int] | None) -> dict[str, int]:
    """Returns the baseline with counts lowered to the sentences found. No file is added."""
    counts = Counter(str(riddle.path) for riddle in found)
    if baseline is None:
        return dict(sorted(counts.items()))
    kept = {name: min(count, counts[name]) for name, count in baseline.items()}
    return {name: count for name, count in sorted(kept.items()) if count}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("places", nargs="*", help="files or folders to print every sentence of")
    parser.add_argument("--write", action="store_true", help="shrink the baseline")
    options = parser.parse_args(arguments)
    found = [*find_all(tracked_files(options.places))]
    if options.places:
        print(*found, sep="\n")
        return bool(found)
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else None
    if options.write:
        BASELINE.write_text(json.dumps(shrink(found, baseline), indent=1) + "\n")
        return 0
    new = beyond(found, baseline or {})
    if not new:
        return 0
    print(*new, sep="\n")
    count = len({riddle.path for riddle in new})
    print(f"{count} files have more such sentences than scripts/english_baseline.json allows")
    return 1


if __name__ == "__main__":
    sys.exit(main())
