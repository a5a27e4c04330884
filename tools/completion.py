"""
Implements `xdsl-spirv completion SHELL`: prints a shell's completion code, and completes command
lines.

argcomplete runs the command itself, so that the completions are always up to date.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from xdsl_spirv.runtime.errors import ProgramError


def completion(arguments: argparse.Namespace) -> int:
    """Prints the completion code that bash, zsh or fish evaluates."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        raise ProgramError(
            "argcomplete is not installed", "xdsl-spirv completion", "pip install argcomplete"
        ) from error
    print(shellcode(["xdsl-spirv"], shell=arguments.shell))
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Completes a command line and exits, if a shell requests it; else does nothing."""
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)


def name_values(parser: argparse.ArgumentParser) -> None:
    """Attaches the completers of `VALUES` to the parser's options."""
    for action in parser._actions:
        for option in action.option_strings:
            if option in VALUES:
                action.completer = VALUES[option]  # pyright: ignore[reportAttributeAccessIssue]


def _targets(**_: object) -> list[str]:
    from xdsl_spirv.targets import names

    return names()


def _devices(**_: object) -> list[str]:
    return ["interpreter", "vulkan", "vulkan:0"]


def _passes(**_: object) -> list[str]:
    from xdsl.universe import Universe

    return sorted(Universe.get_multiverse().all_passes)


def _environments(**_: object) -> list[str]:
    from xdsl_spirv.serialization.validation import ENVIRONMENTS

    return list(ENVIRONMENTS)


VALUES: dict[str, Callable[..., list[str]]] = {
    "--target": _targets,
    "--device": _devices,
    "--passes": _passes,
    "--target-env": _environments,
}
"""Maps an option to the function that lists its completions."""
