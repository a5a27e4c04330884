"""Runs the debugger in a terminal, where each typed line is a request."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from queue import Queue
from typing import Any

Body = dict[str, Any]

MOVES = {
    "n": "next",
    "s": "stepIn",
    "o": "stepOut",
    "b": "stepBack",
    "c": "continue",
    "r": "reverseContinue",
}
HELP = """\
n next line, s into a call, o out of it, b a line back, c continue, r back to the breakpoint before,
break LINE [CONDITION], locals, q quit, help; p EXPRESSION (as in p tile[l + 1]; p may be left out)
"""
SHOWN = 16
"""Number of array elements to print."""


class Terminal:
    """Replaces the connection to an editor by standard input and printed answers."""

    def __init__(self, kernel: str):
        self._waiting = deque[Body]()
        self._events = Queue[tuple[str, Body]]()
        self._thread, self._frame, self._path = 1, 0, kernel
        self._breaks: list[Body] = []
        self._runs = True
        self._add("launch", program=kernel)
        self._add("configurationDone")
        print(HELP, end="")

    def read(self) -> Body | None:
        """Returns the next request, or None at the end of the session."""
        while not self._waiting:
            if self._runs:
                self._wait()
            else:
                print("> ", end="", flush=True)
                self._take(sys.stdin.readline())
        return self._waiting.popleft()

    def send(self, type: str, **answer: Any) -> None:
        """Prints the answer to a request."""
        command, body = answer["command"], answer.get("body") or {}
        if not answer["success"]:
            print(f"error: {answer['message']}")
            self._runs = False
            if command == "launch":
                self._waiting = deque([Body(command="disconnect")])
        elif command == "stackTrace":
            frame = body["stackFrames"][0]
            self._frame, self._path = frame["id"], frame.get("source", {}).get("path", self._path)
            print(f"{self._path}:{frame['line']}: {self._text(frame['line'])}")
        elif command == "setBreakpoints":
            place = body["breakpoints"][-1]
            print(place.get("message") or f"breakpoint at line {place['line']}")
        elif command == "scopes":
            self._add("variables", variablesReference=body["scopes"][0]["variablesReference"])
        elif command == "variables":
            print(*(f"  {one['name']} = {one['value']}" for one in body["variables"]), sep="\n")
        elif command == "evaluate":
            print(body["result"])
            if body.get("variablesReference"):
                part = {"filter": "indexed", "start": 0, "count": SHOWN}
                part = part if body.get("indexedVariables") else {}
                self._add("variables", variablesReference=body["variablesReference"], **part)

    def event(self, name: str, **body: Any) -> None:
        """Prints output of the launch, and queues stops and the end of the launch."""
        if name == "output":
            print(body["output"], end="")
        elif name in ("stopped", "terminated"):
            self._events.put((name, body))

    def _wait(self) -> None:
        name, body = self._events.get()
        if name == "terminated":
            self._add("disconnect")
            return
        self._thread, self._runs = body["threadId"], False
        self._add("stackTrace", threadId=self._thread)

    def _take(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        if not line or word == "q":
            self._add("disconnect")
        elif word in MOVES and not rest:
            self._add(MOVES[word], threadId=self._thread)
            self._runs = True
        elif word == "break" and rest.partition(" ")[0].isdecimal():
            number, _, condition = rest.partition(" ")
            self._breaks.append({"line": int(number), "condition": condition.strip()})
            self._add("setBreakpoints", source={"path": self._path}, breakpoints=self._breaks)
        elif word == "locals":
            self._add("scopes", frameId=self._frame)
        elif word == "help":
            print(HELP, end="")
        elif word:
            text = rest if word == "p" else line.strip()
            self._add("evaluate", expression=text, frameId=self._frame, context="repl")

    def _add(self, command: str, **arguments: Any) -> None:
        self._waiting.append(Body(command=command, arguments=arguments))

    def _text(self, line: int) -> str:
        try:
            return Path(self._path).read_text(errors="replace").splitlines()[line - 1].strip()
        except (OSError, IndexError):
            return ""
