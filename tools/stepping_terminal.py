"""
Implements `xdsl-spirv opt FILE --interactive`: reads commands from a terminal or standard input.

A failing command prints the reason and changes nothing. If the input is not a terminal, commands
are echoed, and the exit status is 1 if any command failed.
"""

from __future__ import annotations

import cmd
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields

from xdsl.utils.exceptions import ArgSpecParseError

from xdsl_spirv.compare.translation import find_broken
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.speech import counted, did_you_mean
from xdsl_spirv.targets import names as target_names
from xdsl_spirv.tools.ir_diff import Row, hunks, summary
from xdsl_spirv.tools.messages import failure
from xdsl_spirv.tools.output import check_place, write
from xdsl_spirv.tools.stepping import Session, UnitDiff, spec
from xdsl_spirv.tools.stepping_runs import Runs

SHORT = {
    "a": "apply", "c": "check", "d": "diff", "h": "help", "j": "jump", "l": "list", "n": "next",
    "p": "pipeline", "q": "quit", "r": "run", "s": "show", "u": "undo", "?": "help",
}  # fmt: skip

MOST_LINES = 200
"""Maximum length of a unit's diff in lines, if the unit is not requested by name."""

RED, GREEN, SOFT, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


class Terminal(cmd.Cmd):
    """A command interpreter for a session of passes."""

    def __init__(self, session: Session, runs: Runs, title: str):
        super().__init__()
        self.session, self.runs = session, runs
        self.failed = False
        self.is_typed = sys.stdin.isatty()
        self.is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        units = len(session.text().splitlines())
        self.intro = (
            f"{title}: {units} lines, {counted(len(session.plan), 'pass')} planned; help for help"
        )
        self._set_prompt()

    # ---- the loop

    def onecmd(self, line: str) -> bool:
        """Runs a command and prints its errors. Returns True if the session ends."""
        if not self.is_typed and line not in ("", "EOF"):
            self._say(f"> {line}")
        try:
            return bool(super().onecmd(line))
        except KeyboardInterrupt:
            print("interrupted; nothing has changed")
        except BrokenPipeError:
            raise
        # xDSL's error about a pass's arguments is a BaseException, like the exceptions that end a
        # process.
        except (Exception, ArgSpecParseError) as error:
            self._say(f"error: {failure(error)[0]}")
            self.failed = True
        return False

    def cmdloop(self, intro: object = None) -> None:
        """Runs commands until `quit` or the end of the input. Ctrl-C discards the current line."""
        self.use_rawinput = self.is_typed
        _set_delimiters()
        while True:
            try:
                super().cmdloop(intro)
                return
            except KeyboardInterrupt:
                print("\n(quit ends the session)")
                intro = ""

    def postcmd(self, stop: bool, line: str) -> bool:
        self._set_prompt()
        return stop

    def emptyline(self) -> bool:
        """Does nothing. The base class would repeat the last command."""
        return False

    def precmd(self, line: str) -> str:
        word, _, rest = line.strip().partition(" ")
        if line.strip().startswith("#"):
            return ""
        return f"{SHORT.get(word, word)} {rest}".strip()

    def default(self, line: str) -> None:
        """Reports an unknown command."""
        word = line.split()[0]
        remedy = did_you_mean(word, self._commands(), "help lists them")
        if word.partition("{")[0] in self.session.passes:
            remedy = f"to apply that pass: apply {word}"
        raise ProgramError(f"the command {word!r} does not exist", "", remedy)

    def _commands(self) -> list[str]:
        names = [name.removeprefix("do_") for name in vars(Terminal) if name.startswith("do_")]
        return [name for name in names if name != "EOF"]

    def _set_prompt(self) -> None:
        session = self.session
        after = f" after {session.plan[session.position - 1].name}" if session.position else ""
        shown = f"({session.position}/{len(session.plan)}{after}) "
        self.prompt = shown if self.is_typed else ""

    def _say(self, text: str) -> None:
        """Prints text without control characters."""
        print("".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text))

    def _number(self, text: str, default: int) -> int:
        if text and not text.isdecimal():
            raise ProgramError(f"{text!r} is not a number", "", "give a whole number")
        return int(text or default)

    # ---- commands: forward and back

    def do_next(self, text: str) -> None:
        """next [N]: apply the next pass of the plan, or the next N passes."""
        for _ in range(self._number(text, 1)):
            self.session.next()
            self._say(self._step())

    def do_apply(self, text: str) -> None:
        """apply NAME{option=value ...}: insert and apply a pass, or several separated by commas."""
        if not text:
            raise ProgramError("no pass is named", "", "apply NAME; Tab completes names")
        first = self.session.position
        self.session.apply(text)
        for number in range(first + 1, self.session.position + 1):
            self._say(self._step(number))

    def do_undo(self, text: str) -> None:
        """undo [N]: undo the last pass, or the last N passes. They remain in the plan."""
        self.session.undo(self._number(text, 1))
        self._say(self._step())

    def do_redo(self, text: str) -> None:
        """redo [N]: apply the last undone pass again, or N undone passes."""
        self.session.redo(self._number(text, 1))
        self._say(self._step())

    def do_jump(self, text: str) -> None:
        """jump NUMBER|NAME: go to the state after that pass; 0 is the source."""
        if not text:
            raise ProgramError("no pass is named", "", "jump NUMBER or jump NAME; see list")
        self.session.jump(text)
        self._say(self._step())

    def do_skip(self, text: str) -> None:
        """skip: remove the next pass from the plan."""
        self._say(f"skipped {self.session.skip()}")

    def do_load(self, text: str) -> None:
        """load PIPELINE: append passes to the plan, without applying them."""
        self._say(f"{counted(self.session.load(text), 'pass')} planned")

    # ---- commands: looking

    def do_list(self, text: str) -> None:
        """list: show the passes of the plan; a mark shows the current position."""
        session = self.session
        self._say(f"{'>' if not session.position else ' '}  0 source")
        for number, member in enumerate(session.plan, 1):
            mark = ">" if number == session.position else " "
            known = f": {self._what(number)}" if number < len(session.states) else ""
            undone = " (undone)" if known and number > session.position else ""
            self._say(f"{mark} {number:2} {spec(member)}{known}{undone}")

    def do_show(self, text: str) -> None:
        """show [NAME]: show the current module, or one of its functions or kernels."""
        shown = self.session.text(text or None)
        if self.is_typed and sys.stdout.isatty():
            import pydoc

            pydoc.pager(shown)
        else:
            self._say(shown)

    def do_diff(self, text: str) -> None:
        """
        diff [NUMBER] [NAME]: show the changes of a pass (default: the last), or of one kernel.
        """
        words = text.split()
        number = int(words.pop(0)) if words and words[0].isdecimal() else None
        name = words[0].removeprefix("@") if words else None
        changes = self.session.changes(number)
        if name is not None:
            changes = [change for change in changes if change.name == name]
        if not changes:
            self._say("nothing changed" + (f" in {name}" if name else ""))
        for change in changes:
            self._say(f"--- {change.name}: {summary(change.rows)}")
            lines = list(_lines(change))
            for line in lines if name else lines[:MOST_LINES]:
                self._print(line)
            if not name and len(lines) > MOST_LINES:
                self._say(f"... {len(lines) - MOST_LINES} more lines: diff {change.name}")

    def do_run(self, text: str) -> None:
        """run [SEED]: run the current module on random inputs, and compare the results."""
        for line in self.runs.run(self._number(text.removeprefix("--random").strip(), 0)):
            self._say(line)

    def do_check(self, text: str) -> None:
        """check: verify the module, and encode and decode its kernels."""
        session = self.session
        before = session.states[max(0, session.position - 1)].module
        if finding := find_broken(before, session.module):
            raise ProgramError(finding.failure, "", "show the changes of the last pass: diff")
        self._say("the module is valid")

    def do_passes(self, text: str) -> None:
        """passes [TEXT]: list all passes, or the passes with TEXT in their names."""
        for name in sorted(name for name in self.session.passes if text in name):
            self._say(name)

    # ---- commands: saving

    def do_pipeline(self, text: str) -> None:
        """pipeline: show the applied passes as a pipeline for `opt -p`."""
        self._say(self.session.applied or "no pass is applied")

    def do_save(self, text: str) -> None:
        """save FILE: write the pipeline of the applied passes."""
        self._write(text, self.session.applied + "\n")

    def do_write(self, text: str) -> None:
        """write FILE: write the current module."""
        self._write(text, self.session.text())

    def do_help(self, arg: str) -> None:
        """help [COMMAND]: list all commands, or explain one."""
        for name in [SHORT.get(arg, arg)] if arg else self._commands():
            method = getattr(self, f"do_{name}", None)
            if method is None:
                remedy = did_you_mean(name, self._commands(), "help lists them")
                raise ProgramError(f"the command {name!r} does not exist", "", remedy)
            self._say(" ".join(method.__doc__.split()))
        if not arg:
            self._say("The first letters of a command are enough; Tab completes names.")

    def do_quit(self, text: str) -> bool:
        """quit: end the session."""
        return True

    def do_EOF(self, text: str) -> bool:
        """Ctrl-D ends the session, too."""
        if self.is_typed:
            print()
        return True

    def _write(self, path: str, text: str) -> None:
        if not path:
            raise ProgramError("no file is given", "", "give the name of a file")
        check_place(path)
        write(path, text.encode())
        self._say(f"wrote {path}")

    # ---- what is shown

    def _step(self, number: int | None = None) -> str:
        session = self.session
        number = session.position if number is None else number
        if not number:
            return "0 source"
        seconds = session.states[number].seconds
        took = f" ({seconds:.1f} s)" if seconds >= 0.1 else ""
        return f"{number} {spec(session.plan[number - 1])}: {self._what(number)}{took}"

    def _what(self, number: int) -> str:
        """Returns a one-line summary of a pass's changes."""
        changes = self.session.changes(number)
        if not changes:
            return "changed nothing"
        told = [f"{change.name} {summary(change.rows)}" for change in changes[:3]]
        more = f", {len(changes) - 3} more" if len(changes) > 3 else ""
        return ", ".join(told) + more

    def _print(self, line: tuple[str, str]) -> None:
        mark, text = line
        colour = {"+": GREEN, "-": RED, "@": SOFT}.get(mark, "")
        if not self.is_coloured or not colour:
            self._say(f"{mark}{text}")
            return
        print(colour, end="")
        self._say(f"{mark}{text}")
        print(PLAIN, end="", flush=True)

    # ---- completion

    def complete_apply(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Completes names of passes, their options after `{`, and targets after `target=`."""
        before = line[:begin]
        name = re.search(r"([\w-]+)\{[^{}]*$", before)
        if name is None:
            return _starting(self.session.passes, text)
        if re.search(r"target=$", before):
            return _starting(target_names(), text)
        factory = self.session.passes.get(name[1])
        options = [f.name.replace("_", "-") + "=" for f in fields(factory())] if factory else []
        return _starting(options, text)

    complete_load = complete_passes = complete_apply

    def complete_jump(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Completes the passes of the plan."""
        return _starting((member.name for member in self.session.plan), text)

    def complete_show(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Completes the module's functions and kernels."""
        from xdsl_spirv.tools.trace import units_of

        return _starting(units_of(self.session.module), text)

    complete_diff = complete_show


def _starting(names: Iterable[str], text: str) -> list[str]:
    return sorted({name for name in names if name.startswith(text)})


def _set_delimiters() -> None:
    """Sets the delimiters of completion, because names of passes contain hyphens."""
    try:
        import readline
    except ImportError:
        return
    readline.set_completer_delims(" \t\n{},=")


def _lines(change: UnitDiff) -> Iterable[tuple[str, str]]:
    """Formats the lines of a diff, each with its mark (`+`, `-`, `~`)."""
    for part in hunks(change.rows):
        first = next((row.new for row in part if row.new is not None), 0)
        yield "@", f"@ line {first + 1}"
        yield from _part(change, part)


def _part(change: UnitDiff, rows: Sequence[Row]) -> Iterable[tuple[str, str]]:
    for row in rows:
        if row.kind in ("same", "renamed") and row.new is not None:
            yield " ", change.new[row.new]
            continue
        if row.old is not None:
            yield "-", change.old[row.old]
        if row.new is not None:
            yield "+", change.new[row.new]
