"""The options of `tune`."""

from __future__ import annotations

import argparse

from xdsl_spirv.tools.program_options import as_json, target


def tune(command: argparse.ArgumentParser) -> None:
    as_json(
        command,
        "table (the file), contractions (contraction, candidates, statuses, schedule, "
        "microseconds, default_microseconds, gain, entered), outcomes (of each its candidates)",
    )
    from xdsl_spirv.jobs.options import add_options

    command.add_argument("input", metavar="INPUT.mlir", nargs="?", help="linalg on tensors")
    command.add_argument(
        "--contraction",
        action="append",
        default=[],
        metavar="MxNxK:T->R",
        help="a matmul instead: 1024x1024x512:f16->f32 (repeat)",
    )
    command.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="ARGUMENT",
        help="an argument that is the same in every run, and packed once (repeat)",
    )
    target(command, required=True)
    command.add_argument(
        "--device",
        metavar="NAME",
        help="vulkan:N, or a resource of workers, as vulkan:nvidia-h200 (the most GPUs of a kind)",
    )
    add_options(command)
    _effort(command)
    command.add_argument(
        "--replay", metavar="STORE", help="search among what a store holds, without a device"
    )
    command.add_argument(
        "--page", metavar="FILE.html", help="write the search as a page: the best, times, failures"
    )
    command.add_argument(
        "-o", "--output", metavar="FILE.json", help="the table (where assign-schedule reads it)"
    )


def _effort(command: argparse.ArgumentParser) -> None:
    """Options for the number of candidates, the duration and the timing of a search."""
    command.add_argument(
        "--candidates", type=int, default=64, metavar="N", help="at most (%(default)s)"
    )
    command.add_argument(
        "--runs", type=int, default=20, metavar="N", help="timed for each (%(default)s)"
    )
    command.add_argument(
        "--timeout",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="for each run of a candidate (%(default)g)",
    )
    command.add_argument(
        "--seconds", type=float, metavar="N", help="at most for each contraction (no limit)"
    )
    command.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes that propose and compile candidates (%(default)s)",
    )
    command.add_argument(
        "--until-gain",
        default="1%",
        metavar="SHARE",
        help="end a search where the next step is expected to gain less (1%%)",
    )
    command.add_argument(
        "--no-prune",
        action="store_true",
        help="also time what the driver says spills registers or fills a compute unit's memory",
    )
    command.add_argument(
        "--load-ahead",
        action="store_true",
        help="have the driver compile kernels in other processes first, for its cache on disk",
    )
