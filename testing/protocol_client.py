"""A client of a protocol with Content-Length headers: the debugger's and the language server's."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import IO, Any

Message = dict[str, Any]


class Client:
    """Sends messages and reads answers; other messages are kept for `wait`."""

    def __init__(self, writer: IO[bytes], reader: IO[bytes]):
        self.writer, self.reader = writer, reader
        self.number = 0
        self.kept: deque[Message] = deque()

    def send(self, **message: Any) -> int:
        self.number += 1
        named = {key.rstrip("_"): value for key, value in message.items()}
        text = json.dumps({**named, "seq": self.number}).encode()
        self.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.writer.flush()
        return self.number

    def read(self) -> Message:
        length = 0
        while line := self.reader.readline().strip():
            name, _, value = line.decode().partition(":")
            length = int(value) if name.lower() == "content-length" else length
        assert length, "the other side has closed the connection"
        return json.loads(self.reader.read(length))

    def wait(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message that is wanted; the others are kept."""
        for message in list(self.kept):
            if wanted(message):
                self.kept.remove(message)
                return message
        while not wanted(message := self.read()):
            self.kept.append(message)
        return message


class Debugger(Client):
    """The requests of an editor to a debugger."""

    thread = 1

    def ask(self, command: str, **arguments: Any) -> Message:
        number = self.send(type="request", command=command, arguments=arguments)
        answer = self.wait(lambda m: m.get("request_seq") == number)
        return answer["body"] if answer["success"] else {"failed": answer["message"]}

    def event(self, name: str) -> Message:
        return self.wait(lambda m: m.get("event") == name)["body"]

    def launch(self, kernel: str, breakpoints: list[Message], **more: Any) -> list[Message]:
        """Begin; the verified breakpoints."""
        assert self.ask("initialize")["supportsStepBack"]
        failed = self.ask("launch", program=kernel, **more)
        assert not failed, failed
        self.event("initialized")
        given = self.ask("setBreakpoints", source={"path": kernel}, breakpoints=breakpoints)
        self.ask("configurationDone")
        return given["breakpoints"]

    def stop(self) -> str:
        """Wait for a stop; its reason."""
        body = self.event("stopped")
        self.thread = body["threadId"]
        return body["reason"]

    def go(self, command: str, **more: Any) -> str:
        """Go on, or back; the reason of the next stop."""
        failed = self.ask(command, threadId=self.thread, **more)
        assert "failed" not in failed, failed
        return self.stop()

    def frames(self, thread: int | None = None) -> list[Message]:
        return self.ask("stackTrace", threadId=thread or self.thread)["stackFrames"]

    def line(self) -> int:
        return self.frames()[0]["line"]

    def variables(self, reference: int, **part: int) -> list[Message]:
        return self.ask("variables", variablesReference=reference, **part)["variables"]

    def scope(self, number: int) -> dict[str, Message]:
        """The variables of a scope of the innermost frame, by name."""
        scopes = self.ask("scopes", frameId=self.frames()[0]["id"])["scopes"]
        found = self.variables(scopes[number]["variablesReference"])
        return {variable["name"]: variable for variable in found}

    def value(self, expression: str, **more: Any) -> str:
        answer = self.ask("evaluate", expression=expression, **more)
        return answer.get("result") or answer["failed"]
