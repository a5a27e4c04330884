"""
Runs `xdsl-opt` and `filecheck` as forks of one process that has imported all modules.

A FileCheck test spends 1.2 s on imports and some milliseconds on its work. `start(folder)` writes
programs with the commands' names into a folder, which is put first on PATH. Each passes its
arguments, directory, environment and standard streams to a server. The server forks, and the fork
runs the same `main` as the stock command, so that tests do not affect each other. The tests remain
shell commands that anyone can type.

The server ends with the process that started it, when its standard input is closed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

COMMANDS = ("xdsl-opt", "filecheck")
ADDRESS = "server"
READY = b"r"
STREAMS = (0, 1, 2)

CLIENT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
server.sendall(request)
status = server.recv(1)
sys.exit(status[0] if status else "the process that ran {name} died")
"""


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Writes the commands into a folder, starts their server, and waits until it listens."""
    address = str(folder / ADDRESS)
    for name in COMMANDS:
        program = folder / name
        program.write_text(CLIENT.format(python=sys.executable, address=address, name=name))
        program.chmod(0o755)
    command = [sys.executable, __file__, address]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    if server.stdout.read(len(READY)) != READY:
        raise RuntimeError(f"{' '.join(command)} ended with status {server.wait()}")
    return server


def _mains() -> dict[str, Callable[[], object]]:
    """Returns each command's main function, after importing all modules that it may use."""
    from filecheck.main import main as filecheck
    from xdsl.tools.xdsl_opt import main as xdsl_opt
    from xdsl.universe import Universe

    universe = Universe.get_multiverse()
    for table in (universe.all_dialects, universe.all_passes, universe.all_targets):
        for load in table.values():
            with contextlib.suppress(
                ImportError
            ):  # Some of xDSL's modules need packages that are not installed.
                load()
    return {"xdsl-opt": xdsl_opt, "filecheck": filecheck}


def _serve(address: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    mains = _mains()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, READY)
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            return
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = _run(client, mains)
            client.send(bytes([status]))
            os._exit(0)
        client.close()


def _run(client: socket.socket, mains: dict[str, Callable[[], object]]) -> int:
    """Runs a client's command on its streams like a script. Returns the exit status."""
    header, streams, _, _ = socket.recv_fds(client, 8, len(STREAMS))
    request = b""
    while len(request) < int.from_bytes(header, "big"):
        request += client.recv(1 << 20)
    name, arguments, directory, environment = json.loads(request)
    for stream, number in zip(streams, STREAMS, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    # The server's own stream objects cache properties of their files, such as seekability.
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    try:
        return _status(mains[name]())
    except SystemExit as end:
        return _status(end.code)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    _serve(sys.argv[1])
