"""Clients for protocols with Content-Length headers: debugger and language server."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import IO, Any

Message = dict[str, Any]


class Client:
    """
    Sends messages and reads answers. Messages that are not the awaited answer are stored for
    `wait`.
    """

    def __init__(self, writer: IO[bytes], reader: IO[bytes]):
        self.writer, self.reader = writer, reader
        self.number = 0
        self.kept: deque[Message] = deque()

    def send(self, **message: Any) -> None:
        text = json.dumps(message).encode()
        self.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.writer.flush()

    def read(self) -> Message:
        length = 0
        while line := self.reader.readline().strip():
            name, _, value = line.decode().partition(":")
            length = int(value) if name.lower() == "content-length" else length
        assert length, "the server has closed the connection"
        return json.loads(self.reader.read(length))

    def wait(self, wanted: Callable[[Message], bool]) -> Message:
        """Returns the first message that `wanted` accepts. Stores all other messages."""
        for message in list(self.kept):
            if wanted(message):
                self.kept.remove(message)
                return message
        while not wanted(message := self.read()):
            self.kept.append(message)
        return message


class Debugger(Client):
    """Sends the requests of an editor to a debugger."""

    thread = 1

    def ask(self, command: str, **arguments: Any) -> Message:
        self.number += 1
        self.send(seq=self.number, type="request", command=command, arguments=arguments)
        answer = self.wait(lambda m: m.get("request_seq") == self.number)
        return answer["body"] if answer["success"] else {"failed": answer["message"]}

    def event(self, name: str) -> Message:
        return self.wait(lambda m: m.get("event") == name)["body"]

    def launch(self, kernel: str, breakpoints: list[Message], **more: Any) -> list[Message]:
        """Starts a launch. Returns the verified breakpoints."""
        assert self.ask("initialize")["supportsStepBack"]
        failed = self.ask("launch", program=kernel, **more)
        assert not failed, failed
        self.event("initialized")
        given = self.ask("setBreakpoints", source={"path": kernel}, breakpoints=breakpoints)
        self.ask("configurationDone")
        return given["breakpoints"]

    def stop(self) -> str:
        """Waits for a stop. Returns its reason."""
        body = self.event("stopped")
        self.thread = body["threadId"]
        return body["reason"]

    def go(self, command: str, **more: Any) -> str:
        """Continues the launch, or steps back. Returns the reason of the next stop."""
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
        """Returns the variables of a scope of the innermost frame, by name."""
        scopes = self.ask("scopes", frameId=self.frames()[0]["id"])["scopes"]
        found = self.variables(scopes[number]["variablesReference"])
        return {variable["name"]: variable for variable in found}

    def value(self, expression: str, **more: Any) -> str:
        answer = self.ask("evaluate", expression=expression, **more)
        return answer.get("result") or answer["failed"]


class LanguageClient(Client):
    """Sends an editor's messages to a language server."""

    def notify(self, method: str, **params: Any) -> None:
        self.send(jsonrpc="2.0", method=method, params=params)

    def ask(self, method: str, **params: Any) -> Any:
        self.number += 1
        self.send(jsonrpc="2.0", id=self.number, method=method, params=params)
        answer = self.wait(lambda m: m.get("id") == self.number and "method" not in m)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, uri: str, text: str) -> None:
        document = {"uri": uri, "languageId": "glsl", "version": 1, "text": text}
        self.notify("textDocument/didOpen", textDocument=document)

    def change(self, uri: str, text: str, version: int) -> None:
        """Changes and saves a document."""
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", textDocument=document,
                    contentChanges=[{"text": text}])  # fmt: skip
        self.notify("textDocument/didSave", textDocument={"uri": uri})

    def at(self, method: str, uri: str, line: int, character: int) -> Any:
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", textDocument={"uri": uri}, position=place)

    def diagnostics(self, uri: str) -> list[Message]:
        """Returns the next diagnostics of a file."""
        name = "textDocument/publishDiagnostics"
        told = self.wait(lambda m: m.get("method") == name and m["params"]["uri"] == uri)
        return told["params"]["diagnostics"]
