"""
Implements `xdsl-spirv language-server`, which talks to an editor on standard input and output.

The server supports diagnostics, hovers, definitions, and the request `xdsl-spirv/lowered` (with
`uri`) for the SPIR-V of a file.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.problems import Location, Sources
from xdsl_spirv.tools.language.diagnosing import Diagnosis, diagnose
from xdsl_spirv.tools.language.explaining import definition, hover, lower, word_at
from xdsl_spirv.tools.messages import message
from xdsl_spirv.tools.options import Options
from xdsl_spirv.tools.output import take_streams

add_options = Options("--stdio  has no effect (editors pass it)")


def serve(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv language-server`."""
    try:
        import pygls.lsp.server as pygls
    except ImportError as error:
        raise ProgramError(
            "the language server needs pygls, which is not installed",
            "",
            "pip install 'xdsl-spirv[editor]'",
        ) from error
    server = pygls.LanguageServer("xdsl-spirv", "1")
    _register(server)
    server.start_io(*take_streams())
    return 0


def _register(server: Any) -> None:
    from lsprotocol import types as lsp

    newest: dict[str, int] = {}
    shown: dict[str, set[str]] = {}
    one_at_a_time = asyncio.Lock()

    async def check(given: Any) -> None:
        uri = given.text_document.uri
        newest[uri] = number = newest.get(uri, 0) + 1
        async with one_at_a_time:
            if newest[uri] != number:
                return  # A later save made these diagnostics obsolete.
            path = Path(server.workspace.get_text_document(uri).path)
            try:
                found = await asyncio.to_thread(diagnose, path)
            except Exception as error:
                text = message(error) or f"xdsl-spirv itself has a defect: {error!r}"
                server.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, text))
                return
        by_file: dict[str, list[Any]] = {uri: []}
        for diagnosis in found:
            place = diagnosis.problem.location or Location(str(path))
            by_file.setdefault(_uri(place, path), []).append(_diagnostic(diagnosis, path))
        for file in shown.get(uri, set[str]()) | by_file.keys():
            server.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(file, by_file.get(file, []))
            )
        shown[uri] = set(by_file)

    def lines_of(uri: str) -> tuple[Path, list[str]]:
        document = server.workspace.get_text_document(uri)
        return Path(document.path), [line.rstrip("\r\n") for line in document.lines]

    def show(given: Any) -> Any:
        path, lines = lines_of(given.text_document.uri)
        try:
            text = hover(path, lines, given.position.line, given.position.character)
        except Exception:
            return None  # The kernel does not compile: diagnostics show why.
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    def define(given: Any) -> Any:
        (path, lines), row = lines_of(given.text_document.uri), given.position.line
        word = word_at(lines[row], given.position.character) if row < len(lines) else ""
        found = definition(path, lines, row, word) if word else None
        if found is None:
            return None
        start = lsp.Position(*found)
        return lsp.Location(given.text_document.uri, lsp.Range(start, start))

    def show_lowered(given: Any) -> Any:
        path, _ = lines_of(given.uri)
        return {"lines": {str(line): text for line, text in sorted(lower(path).items())}}

    server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)(check)
    server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)(check)
    server.feature(lsp.TEXT_DOCUMENT_HOVER)(show)
    server.feature(lsp.TEXT_DOCUMENT_DEFINITION)(define)
    server.feature("xdsl-spirv/lowered")(show_lowered)


def _uri(place: Location, kernel: Path) -> str:
    """Returns the URI of a location's file; relative paths start at the kernel's folder."""
    return _path(place, kernel).as_uri()


def _path(place: Location, kernel: Path) -> Path:
    beside = kernel.parent / place.file
    return (beside if beside.exists() else Path(place.file)).resolve()


def _diagnostic(diagnosis: Diagnosis, kernel: Path) -> Any:
    from lsprotocol import types as lsp

    problem, severities = diagnosis.problem, lsp.DiagnosticSeverity
    place = problem.location or Location(str(kernel))
    severity = severities.Warning if diagnosis.unsure else severities.Error
    return lsp.Diagnostic(
        _range(place, kernel),
        problem.text.removeprefix(f"{problem.rule}: "),
        severities.Information if diagnosis.is_note else severity,
        problem.rule or None,
        source="xdsl-spirv",
        related_information=[
            lsp.DiagnosticRelatedInformation(
                lsp.Location(_uri(other, kernel), _range(other, kernel)),
                other.message or other.text,
            )
            for other in problem.related
        ],
    )


def _range(place: Location, kernel: Path) -> Any:
    """Returns the range of a location's line, if the file can be read."""
    from lsprotocol import types as lsp

    row = max(place.line - 1, 0)
    text = Sources(kernel).line(str(_path(place, kernel)), row + 1)
    start = len(text) - len(text.lstrip())
    return lsp.Range(lsp.Position(row, start), lsp.Position(row, max(len(text), start + 1)))
