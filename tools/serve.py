"""
Implements `xdsl-spirv serve`: serves a language model with OpenAI's chat and completions API.

All options are checked before the model is compiled. Ctrl-C or SIGTERM ends the server.
"""

from __future__ import annotations

import argparse
import ipaddress
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from xdsl_spirv.llm.loading import ModelFile, find_place
from xdsl_spirv.llm.model import LanguageModel
from xdsl_spirv.llm.packages import needed
from xdsl_spirv.llm.queueing import Queue
from xdsl_spirv.llm.serving import Server
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.failing import Terminated
from xdsl_spirv.tools.options import jobs_of


def serve(arguments: argparse.Namespace) -> int:
    """Serves a model until Ctrl-C or SIGTERM."""
    for name in ("slots", "waiting"):
        if getattr(arguments, name) < 1:
            raise ProgramError(
                f"--{name} {getattr(arguments, name)} is too small", "", "give at least 1"
            )
    token = _token_of(arguments)
    uvicorn = needed("uvicorn", "serve")
    needed("starlette", "serve")
    jobs = jobs_of(arguments)
    file = ModelFile.read(arguments.model, arguments.context, arguments.kv_type)
    place = find_place(arguments.device, arguments.target)
    file.refuse_beyond(place, arguments.slots)
    _say(f"running on {place.description}")
    slots = arguments.slots
    program = file.program(place, _say, kept=not arguments.no_cache, jobs=jobs, slots=slots)
    with ExitStack() as stack:
        session = program.session(place.device, isolated=not arguments.in_process)
        texts = file.texts(stack.enter_context(session), slots)
        models = [LanguageModel(file.prompts, texts, file.context, i) for i in range(slots)]
        queue = Queue(models, arguments.waiting)
        stack.callback(queue.close)
        name = arguments.name or Path(arguments.model).stem
        app = Server(name, file.prompts, file.context, queue, token).app
        _say(f"serving {name} at http://{arguments.host}:{arguments.port}/v1")
        # uvicorn finishes the requests, and then raises SIGTERM again.
        with suppress(Terminated):
            uvicorn.run(app, host=arguments.host, port=arguments.port, log_level="warning")
    return 0


def _token_of(arguments: argparse.Namespace) -> str | None:
    """Returns the clients' token. Raises `ProgramError` if a token is required, but missing."""
    if arguments.token_file is None:
        if not _is_loopback(arguments.host):
            raise ProgramError(
                f"with --host {arguments.host}, other machines could connect without a token",
                "serve",
                "give --token-file FILE, or serve on 127.0.0.1",
            )
        return None
    try:
        token = Path(arguments.token_file).read_text().strip()
    except OSError as error:
        raise ProgramError(
            f"cannot read the token's file: {error.strerror}",
            arguments.token_file,
            "name a file that contains the token",
        ) from error
    if not token:
        raise ProgramError(
            "the token is empty", arguments.token_file, "write a token into the file"
        )
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
