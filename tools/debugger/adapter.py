"""
Answers an editor's requests (Debug Adapter Protocol 1.6x) about one launch.

A thread of the protocol is an invocation of the workgroup in focus. All invocations stop together,
because the interpreter runs them in lockstep. A single thread reads the requests; the launch's
thread reports stops.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from xdsl_spirv.interpreter.checks.places import function_of, text_of
from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.interpreter.inspection import Scene, View
from xdsl_spirv.interpreter.source import source_of
from xdsl_spirv.interpreter.stepper import (
    End,
    Follow,
    Line,
    Moment,
    Stepper,
    Wish,
    follows,
    line_of,
)
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools.debugger.connection import Connection
from xdsl_spirv.tools.debugger.launching import Launched, find_test
from xdsl_spirv.tools.debugger.showing import Shower
from xdsl_spirv.tools.debugger.terminal import Terminal
from xdsl_spirv.tools.debugger.watching import Watch
from xdsl_spirv.tools.messages import message
from xdsl_spirv.tools.options import Options

Body = dict[str, Any]

CAPABILITIES: Body = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsStepBack": True,
    "supportsSteppingGranularity": True,
    "supportsExceptionInfoRequest": True,
    "supportsTerminateRequest": True,
    "exceptionBreakpointFilters": [
        {
            "filter": "findings",
            "label": "Findings",
            "description": "Stop at undefined behaviour that a check finds, and at wrong results",
            "default": True,
        }
    ],
}

MOST_THREADS = 64
"""Maximum number of listed invocations. If a workgroup has more, only one subgroup is listed."""

FOLLOWS: tuple[Follow, ...] = ("invocation", "subgroup", "workgroup")

HELP = """\
An expression has the names of the source: tile[l + s], i < n && value > 2.0, %5 (a result).
focus 17, focus 2:17        look at invocation 17 of this workgroup, or of workgroup 2
follow invocation|subgroup|workgroup   whose next line ends a step"""


class _Quiet(argparse.ArgumentParser):
    def error(self, message: str):
        raise ProgramError(f"args: {message}", "", "use options of `xdsl-spirv test`")


@dataclass
class Adapter:
    """A debugging session. A launch request of the editor may override `kernel` and `arguments`."""

    connection: Connection | Terminal
    kernel: str | None = None
    arguments: argparse.Namespace = field(default_factory=argparse.Namespace)
    launched: Launched | None = None
    moment: Moment | None = None
    """The point at which the launch has stopped; None while the launch runs."""
    over: End | None = None
    focus: tuple[int, int] = (0, 0)
    """Index of the workgroup in the grid, and index of the invocation in the workgroup."""
    follow: Follow = "invocation"
    _breaks: dict[str, dict[Line, str]] = field(default_factory=dict[str, dict[Line, str]])
    """Maps each file of the editor to the conditions of its breakpoints, by line."""
    _shower: Shower | None = None
    _frames: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """For each frame id, the invocation and the call depth."""
    _wish: Wish = lambda moment: ""
    _pausing: bool = False
    _problem: tuple[str, str] = ("", "")
    """Rule and text of the finding at which the launch has stopped."""

    def __post_init__(self) -> None:
        self.stepper = Stepper(self._launch, self._listen)

    def _launch(self, stepper: Stepper) -> None:
        assert self.launched is not None
        self.launched.run(stepper)

    def serve(self) -> None:
        """Answers requests until the editor ends the session."""
        while (request := self.connection.read()) is not None:
            command = str(request.get("command"))
            answer: Callable[[Body], Body | None] | None = getattr(self, f"_on_{command}", None)
            reply: Body = {"request_seq": request.get("seq", 0), "command": command}
            try:
                if answer is None:
                    raise ProgramError(f"{command} is not a request of this debugger", "", "")
                body = answer(request.get("arguments") or {})
                self.connection.send("response", success=True, body=body or {}, **reply)
            except Exception as error:
                text = message(error) or f"xdsl-spirv itself has a defect: {error!r}"
                shown = {"id": 1, "format": text.replace("{", "("), "showUser": True}
                body = {"error": shown}
                self.connection.send("response", success=False, message=text, body=body, **reply)
                continue
            if command in ("launch", "terminate"):
                self.connection.event("initialized" if command == "launch" else "terminated")
            if command == "disconnect":
                return

    # Beginning and end.

    def _on_initialize(self, given: Body) -> Body:
        return CAPABILITIES

    def _on_launch(self, given: Body) -> None:
        kernel = given.get("program") or self.kernel
        if not isinstance(kernel, str):
            raise ProgramError("no kernel is named", "launch", 'write "program": "${file}"')
        parser = _Quiet(add_help=False)
        Options("@launch")(parser)
        options = [str(option) for option in given.get("args") or ()]
        said = parser.parse_args(options, argparse.Namespace(**vars(self.arguments)))
        test, note = find_test(kernel, said)
        self.launched = Launched(test)
        self._wish = self._running
        if given.get("stopOnEntry"):
            self._wish = lambda moment: "entry"
            self.stepper.at_instructions = not self.launched.lines
        self.follow = _choose(str(given.get("follow") or "invocation"))
        if given.get("focus") is not None:
            self._set_focus(str(given["focus"]))
        if note:
            self._print(note)

    def _on_configurationDone(self, given: Body) -> None:
        assert self.launched is not None
        self.stepper.start(self._wish)

    def _on_terminate(self, given: Body) -> None:
        """Ends the process if the launch is running, else ends only the launch."""
        if self.moment is not None:
            self.stepper.end()
            self.moment = None

    def _print(self, text: str, category: str = "console") -> None:
        self.connection.event("output", category=category, output=text + "\n")

    _on_disconnect = _on_terminate

    # Stops.

    def _listen(self, moment: Moment | End, reason: str) -> None:
        """
        Reports to the editor that the launch has stopped for a `reason`, such as a breakpoint, or
        ended.
        """
        assert self.launched is not None
        self._pausing = False
        if isinstance(moment, End):
            self._tell_end(moment)
            return
        self._problem = ("", "")
        if moment.finding is not None:
            self._look_at(moment.finding, moment)
            self._problem = moment.finding.rule, str(moment.finding)
        elif reason == "breakpoint":
            self._choose_focus(moment, self._hits(moment))
        elif not follows(moment, self.focus, "invocation"):
            self._choose_focus(moment, moment.batch.active())
        self._tell(moment, reason)

    def _tell(self, moment: Moment, reason: str) -> None:
        self._shower, self._frames = Shower(moment), []
        self.moment = moment
        rule, text = self._problem
        body: Body = {"reason": reason, "threadId": self._thread(self.focus[1])}
        if rule:
            body |= {"text": rule, "description": f"{rule}: stopped at a finding"}
            self._print(text, "stderr")
        self.connection.event("stopped", allThreadsStopped=True, **body)

    def _tell_end(self, end: End) -> None:
        """Reports the problems of the finished launch, and selects its last line for inspection."""
        assert self.launched is not None
        last = self.stepper.now()
        problems: list[str] = []
        if end.error is not None:
            problems = [message(end.error) or f"xdsl-spirv itself has a defect: {end.error!r}"]
        problems += self.launched.problems(not self.stepper.breaks_on_findings)
        self.over = end
        if problems and last is not None and self.stepper.breaks_on_findings:
            rule = problems[0].partition(":")[0]
            self._problem = (rule if rule.isupper() or "-" in rule else "LAUNCH"), problems[0]
            self._tell(last, "exception")
            return
        self._print("\n".join(problems) or f"the launch has ended: {self.launched.report}")
        self._finish()

    def _finish(self) -> None:
        assert self.launched is not None
        wrong = self.launched.report.findings or self._problem[0]
        self.connection.event("exited", exitCode=1 if wrong else 0)
        self.connection.event("terminated")

    def _look_at(self, finding: Finding, moment: Moment) -> None:
        """Sets the focus to the first invocation of a finding."""
        if finding.places:
            x, y, z = finding.places[0].workgroup
            gx, gy, _ = moment.batch.geometry.grid
            self.focus = x + gx * (y + gy * z), finding.places[0].invocation

    def _choose_focus(self, moment: Moment, lanes: Any) -> None:
        """Focuses the first invocation of `lanes`, unless the focused one is in `lanes`."""
        full = np.broadcast_to(lanes, moment.batch.shape).reshape(moment.batch.workgroups, -1)
        row = moment.row(self.focus[0])
        if row is not None and full[row, self.focus[1]]:
            return
        found = np.argwhere(full)
        if len(found):
            self.focus = int(found[0, 0]) + moment.batch.first, int(found[0, 1])

    # Continuing.

    def _running(self, moment: Moment) -> str:
        if self._pausing:
            return "pause"
        return "breakpoint" if moment.enters and np.any(self._hits(moment)) else ""

    def _hits(self, moment: Moment) -> Any:
        """Returns a mask of the active invocations in which a breakpoint's condition is true."""
        line, active = line_of(moment.op), moment.batch.active()
        hits = np.zeros((1, 1, 1), np.bool_)
        for lines in self._breaks.values():
            condition = None if line is None else lines.get(line)
            if condition == "":
                return active
            if condition is not None:
                try:
                    value = Watch(Scene(moment, moment.frames[0]), active).evaluate(condition)
                    value = value.read(active) if isinstance(value, View) else value
                    hits = hits | (active & np.asarray(value).astype(np.bool_))
                except Exception as error:
                    self._print(f"the condition {condition}: {message(error) or error!r}", "stderr")
                    return active
        return hits

    def _stepping(self, start: Moment, kind: str, by_instruction: bool) -> Wish:
        """
        Returns a function that decides when a step from `start` ends. `kind` is `in`, `over` or
        `out`.

        A step ends at the next line, or with `by_instruction` at the next instruction.
        """
        line, follow, focus = line_of(start.op), self.follow, self.focus

        def wish(moment: Moment) -> str:
            if why := self._running(moment):
                return why
            deeper = moment.depth - start.depth
            if (deeper > 0 and kind != "in") or not follows(moment, focus, follow):
                return ""
            if deeper < 0 or (by_instruction and kind != "out"):
                return "step"
            if kind == "out" or not moment.enters:
                return ""
            again = moment.op is start.op
            return "step" if deeper or again or line_of(moment.op) != line else ""

        return wish

    def _go(self, given: Body, wish: Wish, at_instructions: bool) -> None:
        if self.moment is None:
            raise ProgramError("the launch is running", "", "pause it")
        if self.over is not None:
            self.moment = None
            self._finish()
            return
        self.moment = None
        self.stepper.at_instructions = at_instructions
        self.stepper.go(wish)

    def _step(self, given: Body, kind: str) -> None:
        self._take_thread(given)
        moment = self._require_stop()
        fine = given.get("granularity") == "instruction"
        self._go(given, self._stepping(moment, kind, fine), True)

    def _take_thread(self, given: Body) -> None:
        if isinstance(given.get("threadId"), int):
            self.focus = self.focus[0], self._invocation(given["threadId"])

    def _on_continue(self, given: Body) -> Body:
        self._take_thread(given)
        self._go(given, self._running, False)
        return {"allThreadsContinued": True}

    def _on_next(self, given: Body) -> None:
        self._step(given, "over")

    def _on_stepIn(self, given: Body) -> None:
        self._step(given, "in")

    def _on_stepOut(self, given: Body) -> None:
        self._step(given, "out")

    def _on_pause(self, given: Body) -> None:
        self._pausing = True

    def _on_stepBack(self, given: Body) -> None:
        self._take_thread(given)
        moment = self._require_stop()
        fine = given.get("granularity") == "instruction"
        focus, follow = self.focus, self.follow

        def wish(one: Moment) -> str:
            here = one.depth <= moment.depth and follows(one, focus, follow)
            return "step" if here and (fine or one.enters) else ""

        self._back(moment, wish, fine)

    def _on_reverseContinue(self, given: Body) -> None:
        self._take_thread(given)
        self._back(self._require_stop(), self._running, False)

    def _back(self, moment: Moment, wish: Wish, fine: bool) -> None:
        ended, self.moment, self.over = self.over is not None, None, None
        self.stepper.at_instructions = fine
        self.stepper.back(inf if ended and not fine else moment.number, wish)

    def _require_stop(self) -> Moment:
        if self.moment is None:
            raise ProgramError("the launch is running", "", "pause it")
        return self.moment

    # Breakpoints.

    def _on_setBreakpoints(self, given: Body) -> Body:
        assert self.launched is not None
        path = str(given.get("source", {}).get("path", ""))
        lines: dict[Line, str] = {}
        answers: list[Body] = []
        for wanted in given.get("breakpoints") or ():
            line = self.launched.line(path, int(wanted["line"]))
            if line is None:
                answers.append(
                    {"verified": False, "message": "there is no instruction at this line or below"}
                )
                continue
            lines[line] = str(wanted.get("condition") or "")
            answers.append({"verified": True, "line": line[1]})
        self._breaks[path] = lines
        return {"breakpoints": answers}

    def _on_setExceptionBreakpoints(self, given: Body) -> None:
        self.stepper.breaks_on_findings = "findings" in (given.get("filters") or ())

    def _on_exceptionInfo(self, given: Body) -> Body:
        rule, text = self._problem
        return {"exceptionId": rule or "none", "description": text, "breakMode": "always"}

    # Inspection.

    def _thread(self, invocation: int) -> int:
        assert self._shower is not None
        geometry = self._shower.moment.batch.geometry
        return self.focus[0] * geometry.invocations + invocation + 1

    def _invocation(self, thread: int) -> int:
        assert self._shower is not None
        return (thread - 1) % self._shower.moment.batch.geometry.invocations

    def _on_threads(self, given: Body) -> Body:
        if self._shower is None:
            return {"threads": [{"id": 1, "name": "invocation 0"}]}
        moment, (workgroup, invocation) = self._shower.moment, self.focus
        geometry = moment.batch.geometry
        active, first, count = moment.active(workgroup), 0, geometry.invocations
        if count > MOST_THREADS:
            first = invocation // geometry.lanes * geometry.lanes
            count = min(geometry.lanes, count - first)
        threads = [
            {"id": self._thread(n),
             "name": f"invocation {n} of workgroup {workgroup}" + " (inactive)" * (not active[n])}
            for n in range(first, first + count)
        ]  # fmt: skip
        return {"threads": threads}

    def _on_stackTrace(self, given: Body) -> Body:
        moment, invocation = self._require_stop(), self._invocation(int(given["threadId"]))
        frames: list[Body] = []
        active = moment.active(self.focus[0])[invocation]
        for number, frame in enumerate(moment.frames):
            op = frame.op
            last = None if active or number else self._last_op(moment, invocation)
            name = function_of(op).partition("(")[0]
            self._frames.append((invocation, number))
            shown = op if last is None else last
            body: Body = {"id": len(self._frames), "column": 1, "line": 0,
                          "name": name if active else f"{name} (inactive)"}  # fmt: skip
            body |= self._place(shown)
            frames.append(body)
        start = int(given.get("startFrame") or 0)
        end = start + (int(given.get("levels") or 0) or len(frames))
        return {"stackFrames": frames[start:end], "totalFrames": len(frames)}

    def _last_op(self, moment: Moment, invocation: int) -> Any:
        """Returns the last executed operation that starts a source line, in one invocation."""
        last, row = self.stepper.last.get(moment.batch.first), moment.row(self.focus[0])
        if last is None or row is None:
            return None
        number = int(last[row].reshape(-1)[invocation])
        return self.stepper.ops[number] if number >= 0 else None

    def _place(self, op: Any) -> Body:
        """Returns the file and line of an operation, or its text if it has no line."""
        assert self.launched is not None
        line, source = line_of(op), source_of(op)
        if line is None:
            return {"presentationHint": "subtle", "name": text_of(op)}
        path = self.launched.path(line[0])
        column = 1 if source is None else max(source.column, 1)
        return {"line": line[1], "column": column,
                "source": {"name": path.name, "path": str(path)}}  # fmt: skip

    def _scene(self, frame: Any) -> tuple[Scene, tuple[int, int]]:
        """Returns the variables of a frame, and the workgroup and invocation to show."""
        moment, number, invocation = self._require_stop(), 0, self.focus[1]
        if isinstance(frame, int) and 0 < frame <= len(self._frames):
            invocation, number = self._frames[frame - 1]
        return Scene(moment, moment.frames[number]), (self.focus[0], invocation)

    def _on_scopes(self, given: Body) -> Body:
        scene, focus = self._scene(given.get("frameId"))
        assert self._shower is not None
        shower = self._shower

        def scope(name: str, views: Callable[[], Any], **more: Any) -> Body:
            def children(start: int, count: int | None) -> list[Body]:
                end = None if count is None else start + count
                return [shower.show(view, focus) for view in list(views())[start:end]]

            return {"name": name, "variablesReference": shower.refer(children),
                    "expensive": False, **more}  # fmt: skip

        return {
            "scopes": [
                scope("Locals", scene.locals, presentationHint="locals"),
                scope("Buffers and shared memory", lambda: scene.variables(False)),
                scope("Built-ins", lambda: scene.variables(True)),
                scope("Results of instructions", scene.values, expensive=True),
            ]
        }

    def _on_variables(self, given: Body) -> Body:
        self._require_stop()
        assert self._shower is not None
        number = int(given["variablesReference"])
        if not 0 < number <= len(self._shower.references):
            raise ProgramError("this variable belongs to an earlier stop", "", "expand it again")
        start, count = int(given.get("start") or 0), int(given.get("count") or 0)
        return {"variables": self._shower.references[number - 1](start, count or None)}

    def _on_evaluate(self, given: Body) -> Body:
        text = str(given.get("expression", "")).strip()
        if given.get("context") == "repl":
            command, _, rest = text.partition(" ")
            if command == "help":
                return {"result": HELP, "variablesReference": 0}
            if command in ("focus", "follow") and rest:
                if command == "focus":
                    self._set_focus(rest.strip())
                else:
                    self.follow = _choose(rest.strip())
                if self.moment is not None:
                    self._tell(self.moment, "step")
                return {"result": text, "variablesReference": 0}
        scene, focus = self._scene(given.get("frameId"))
        assert self._shower is not None
        several, mask = self._shower.masks(focus)
        value = Watch(scene, mask).evaluate(text)
        if isinstance(value, View):
            shown = self._shower.show(value, focus, text)
        else:
            try:
                value, mask = Watch(scene, several).evaluate(text), several
            except ProgramError:
                pass  # The expression has a value in this invocation, but not in all.
            shown = self._shower.show_value(value, focus, mask)
        return {"result": shown.pop("value"), **shown}

    def _set_focus(self, text: str) -> None:
        workgroup, colon, invocation = text.rpartition(":")
        if not invocation.isdecimal() or (colon and not workgroup.isdecimal()):
            raise ProgramError(f"focus {text}: this is not an invocation", "", "write 17, or 2:17")
        place = int(workgroup) if colon else self.focus[0], int(invocation)
        if self.moment is not None:
            row, geometry = self.moment.row(place[0]), self.moment.batch.geometry
            if row is None or place[1] >= geometry.invocations:
                raise ProgramError(
                    f"focus {text}: this invocation is not running",
                    "",
                    "name an invocation of a running workgroup",
                )
        self.focus = place


def _choose(text: str) -> Follow:
    for follow in FOLLOWS:
        if follow == text:
            return follow
    raise ProgramError(
        f"the debugger cannot follow {text}", "", did_you_mean(text, FOLLOWS, ", ".join(FOLLOWS))
    )
