"""
`xdsl-spirv completion SHELL`: prints the code for a shell's completion, and answers its requests.

argcomplete runs the command itself, so commands, options, choices, targets and passes are always
those that exist. It is loaded only for a shell's request.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from xdsl_spirv.runtime.errors import ProgramError


def completion(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv completion bash|zsh|fish`: prints code for the shell to evaluate."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        raise ProgramError(
            "argcomplete is not installed", "xdsl-spirv completion", "pip install argcomplete"
        ) from error
    print(shellcode(["xdsl-spirv"], shell=arguments.shell))
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Answers a shell's completion request and exits; does nothing without argcomplete."""
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)


def name_values(parser: argparse.ArgumentParser) -> None:
    """Declares completions for options without a list of choices."""
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
"""Completions for an option's value."""
