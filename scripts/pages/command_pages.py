"""Makes the reference of the command line from the parsers of `xdsl-spirv`."""

from __future__ import annotations

import argparse
from contextlib import redirect_stdout, suppress
from functools import cache
from html import escape
from io import StringIO

from xdsl_spirv.tools.main import COMMANDS, DESCRIPTION, parser

INTRODUCTION = """\
Every command takes `--help`. A failure is one message on standard error and an
[exit status](../runtime.md#exit-status) that says whose it is; `--debug` shows where it was raised.
"""


@cache
def pages() -> dict[str, str]:
    """Returns the overview and a page for each command."""
    rows = [f"| [`{name}`]({name}.md) | {words} |" for name, (words, *_) in COMMANDS.items()]
    table = ["| command | purpose |", "|---|---|", *rows]
    overview = "\n".join(["# xdsl-spirv", "", DESCRIPTION, "", INTRODUCTION, *table, ""])
    own = {f"commands/{name}.md": page_of(name, p) for name, p in command_parsers().items()}
    return {"commands/index.md": overview, **own}


def command_parsers() -> dict[str, argparse.ArgumentParser]:
    """Returns each command's parser. Formatting the help makes a parser declare its options."""
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for command in commands.choices.values():
        with suppress(SystemExit), redirect_stdout(StringIO()):
            command.parse_args(["--help"])
    return commands.choices


def page_of(name: str, parser: argparse.ArgumentParser) -> str:
    """Returns a command's page: usage, arguments by group, and epilog."""
    lines = [f"# {name}", "", parser.description or "", ""]
    lines += ["```text", parser.format_usage().strip(), "```", ""]
    for group in parser._action_groups:
        rows = [_row(action, parser) for action in group._group_actions]
        if any(rows):
            title = (group.title or "").capitalize()
            lines += [f"## {title}", "", "| argument | meaning |", "|---|---|"]
            lines += [*filter(None, rows), ""]
    lines += _epilog(parser.epilog or "")
    return "\n".join([*lines, ""])


def _epilog(text: str) -> list[str]:
    if not text.startswith("examples:\n"):
        return [text]
    examples, _, rest = text.partition("\n\n")
    commands = [line.strip() for line in examples.splitlines()[1:]]
    return ["## Examples", "", "```sh", *commands, "```", "", rest]


def _row(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """Returns the table row of an argument, or "" for a hidden one."""
    if action.help == argparse.SUPPRESS:
        return ""
    value = _value(action)
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
    formatter = parser._get_formatter()
    words = formatter._expand_help(action) if action.help else ""
    spelled = ", ".join(f"<code>{escape(name).replace('|', '&#124;')}</code>" for name in names)
    return f"| {spelled} | {_escaped(words)} |"


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar is None and action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    return action.metavar or (action.dest.upper() if action.option_strings else action.dest)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
