"""`xdsl-spirv debug`: a session of the Debug Adapter Protocol on standard input, or on a port."""

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
kernel KERNEL optional  as for test, if the editor names no other one
--dap  talk on standard input and output
--port N int  or wait for an editor on this port
@launch
""",
    epilog="docs/editor.md has a launch.json and the commands of the console.",
)


def debug(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv debug`."""
    if not arguments.dap and arguments.port is None:
        error = ProgramError(
            "an editor leads the debugger",
            "",
            "give --dap, as editors do, or --port 4711; docs/editor.md shows how. In a terminal "
            "use `xdsl-spirv interpret --break`",
        )
        error.status = MISUSED
        raise error
    with without_collection():
        from xdsl_spirv.tools.debugger.adapter import Adapter, Connection
    if arguments.port is None:
        Adapter(Connection(*take_streams()), arguments.kernel, arguments).serve()
        return 0
    with socket.create_server(("127.0.0.1", arguments.port)) as server:
        print(f"waiting for an editor on port {server.getsockname()[1]}", file=sys.stderr)
        client, _ = server.accept()
        with client, client.makefile("rb") as reader, client.makefile("wb") as writer:
            Adapter(Connection(reader, writer), arguments.kernel, arguments).serve()
    return 0
