"""Implements `xdsl-spirv debug`: debugs a kernel in an editor or in the terminal."""

from __future__ import annotations

import argparse
import socket
import sys

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import MISUSED
from xdsl_spirv.tools.options import Options
from xdsl_spirv.tools.output import take_streams
from xdsl_spirv.upstream.collection import without_collection

add_options = Options(
    """
kernel KERNEL optional  a kernel as for `test` (default: the one that the editor names)
--dap  talk to an editor on standard input and output
--port N int  wait for an editor on this port
@launch
""",
    epilog="docs/editor.md explains launch.json and the commands of the console.",
)


def debug(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv debug`."""
    in_terminal = not arguments.dap and arguments.port is None
    if in_terminal and arguments.kernel is None:
        error = ProgramError(
            "no kernel is named", "", "give the name of a kernel, or --dap or --port for an editor"
        )
        error.status = MISUSED
        raise error
    with without_collection():
        from xdsl_spirv.tools.debugger.adapter import Adapter, Connection
        from xdsl_spirv.tools.debugger.terminal import Terminal
    if in_terminal:
        Adapter(Terminal(arguments.kernel), arguments.kernel, arguments).serve()
        return 0
    if arguments.port is None:
        Adapter(Connection(*take_streams()), arguments.kernel, arguments).serve()
        return 0
    with socket.create_server(("127.0.0.1", arguments.port)) as server:
        print(f"waiting for an editor on port {server.getsockname()[1]}", file=sys.stderr)
        client, _ = server.accept()
        with client, client.makefile("rb") as reader, client.makefile("wb") as writer:
            Adapter(Connection(reader, writer), arguments.kernel, arguments).serve()
    return 0
