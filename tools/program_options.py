"""The options of the commands that compile, run and tune programs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.paths import Limits

ORDERS = ("order", "share", "work", "moved")
"""Sort orders of the rows of `explain`: the order of execution, or the most first."""


def as_json(command: argparse.ArgumentParser, fields: str) -> None:
    """Declares `--json`; `fields` says what the object holds, for the help and the manual."""
    command.add_argument(
        "--json", action="store_true", help=f"print one JSON object and nothing else: {fields}"
    )


RESULTS = "results (name, shape, type, least, mean, greatest)"
FINDINGS = "findings, allowed and counters as --check-json writes them (with checks)"


def doctor(command: argparse.ArgumentParser) -> None:
    as_json(command, "steps (status: ok, warning, failed, do, device or note; text)")


def compile(command: argparse.ArgumentParser) -> None:
    as_json(
        command,
        "dispatches (kernel, entry_point, grid, spirv_bytes); of a model the numbers of dispatches "
        "and kernels, paths (dispatches by path), target, spirv_bytes, memory_bytes, "
        "temporary_bytes, seconds",
    )
    command.add_argument(
        "input", metavar="INPUT.onnx|.gguf|.mlir", help="a model, or linalg on tensors"
    )
    target(command, default="the best device there is")
    drivers(command)
    dims(command)
    constants(command)
    states(command)
    limits(command)
    jobs(command)
    no_cache(command)
    command.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="where to write the program"
    )
    command.add_argument(
        "--form",
        choices=("kernels", "graph"),
        default="kernels",
        help="graph: one graph of TOSA operators (SPV_ARM_graph), not kernels; an output that ends "
        "in .vgf is a VGF file (kernels)",
    )
    command.add_argument(
        "--text", action="store_true", help="also write each kernel as text, kernels/NAME.mlir"
    )
    command.add_argument(
        "--trace-passes",
        metavar="DIR",
        help="write the module after every pass, and a page of each one's changes",
    )
    function(command)
    command.add_argument(
        "--functions",
        metavar="NAME,NAME",
        help="several functions in one program, which share weights and states",
    )
    command.add_argument(
        "--weights",
        metavar="FILE.safetensors",
        help="values of the arguments that are called like its tensors",
    )


def convert(command: argparse.ArgumentParser) -> None:
    as_json(
        command,
        "output, bytes, bytes_before, results (name, largest_difference as a part of the largest "
        "element, cosine)",
    )
    command.add_argument("input", metavar="MODEL.onnx", help="the model to convert")
    command.add_argument(
        "--to", required=True, choices=("f16", "int8"), help="the type of the converted model"
    )
    command.add_argument(
        "-o", "--output", required=True, metavar="FILE.onnx", help="where to write it"
    )
    command.add_argument(
        "--calibration",
        metavar="DIR",
        help="inputs as .npz files, one a run: for calibration of int8, and for the comparison",
    )
    command.add_argument(
        "--dynamic", action="store_true", help="int8: weights alone, activations at run time"
    )
    command.add_argument(
        "--all", action="store_true", help="f16: the model's inputs and outputs, too"
    )
    dims(command)


def explain(command: argparse.ArgumentParser) -> None:
    as_json(
        command,
        "what --format json writes: layers, nodes, buffers, sums; or values, with --list",
    )
    listing(command)
    command.add_argument(
        "input",
        metavar="MODEL.onnx|.gguf|.mlir|DIR",
        help="a model, or a program made by `compile`",
    )
    target(command, default="the driver's, or the best device there is")
    drivers(command)
    dims(command)
    constants(command)
    states(command)
    limits(command)
    jobs(command)
    function(command)
    command.add_argument("--weights", metavar="FILE.safetensors", help="as for `compile`")
    command.add_argument(
        "--format",
        choices=("text", "json", "html"),
        help="the output's format (by default as the output's name says, or else text)",
    )
    command.add_argument("-o", "--output", metavar="FILE", help="where to write it (prints)")
    command.add_argument(
        "--sort",
        choices=ORDERS,
        default="order",
        help="of the text's rows: in the order of execution, or the largest first",
    )
    command.add_argument(
        "--group", action="store_true", help="one row for all dispatches of a kernel, in the text"
    )
    command.add_argument(
        "--device",
        metavar="NAME",
        help="also run it there and show each layer's time: interpreter, vulkan or vulkan:N",
    )
    command.add_argument(
        "--profile", metavar="FILE", help="show the times that `run --time N --profile FILE` wrote"
    )
    _comparison_options(command)
    command.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="for a device (300), or the interpreter"
    )
    command.add_argument(
        "--in-process", action="store_true", help="use a Vulkan driver in this process"
    )
    command.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=x.npy",
        help="an input's value with --device (random where none is given)",
    )
    media(command)
    command.set_defaults(random=None)


def _comparison_options(command: argparse.ArgumentParser) -> None:
    """Options of the comparison, and files for other viewers."""
    command.add_argument(
        "--against",
        metavar="MODEL|DIR",
        help="compare with another model or program (the same one, with --against-target)",
    )
    command.add_argument("--against-target", metavar="TARGET", help="compare with another target")
    command.add_argument(
        "--against-profile",
        metavar="FILE",
        help="as --profile, for the other side of the comparison",
    )
    command.add_argument(
        "--chrome-trace",
        metavar="FILE.json",
        help="also write the run over time as Perfetto and chrome://tracing open it",
    )
    command.add_argument(
        "--node-data",
        metavar="FILE.json",
        help="also write what nodes take as node data of Model Explorer",
    )


def run(command: argparse.ArgumentParser) -> None:
    as_json(
        command,
        f"{RESULTS}; comparisons (name, max_abs, passed, bound; with --check, or onnxruntime); of "
        "a model also what compile says of it; device and times (kernel, entry_point, nanoseconds "
        "of each run, median; with --time); statistics; layers (with --compare-layers); "
        f"{FINDINGS}; values (function, kind, name, type, shape; with --list)",
    )
    listing(command)
    command.add_argument(
        "program",
        metavar="DIR|MODEL.onnx|.gguf|.mlir",
        help="a program made by `xdsl-spirv compile`, or a model for it",
    )
    target(command, default="the best device there is; of a model")
    dims(command)
    constants(command)
    states(command)
    limits(command)
    jobs(command)
    no_cache(command)
    command.add_argument(
        "--no-compare", action="store_true", help="of a model: do not compare with onnxruntime"
    )
    _on_a_device(command)
    command.add_argument(
        "--unsafe",
        action="store_true",
        help="believe that a program's kernels are valid and what its manifest says they are",
    )
    command.add_argument(
        "--compare-layers",
        action="store_true",
        help="run every dispatch on the reference's values of its inputs, and stop at the first "
        "that differs: its node, dispatch and kernel",
    )
    command.add_argument("--function", help="of a program of several: which one to run")
    command.add_argument(
        "--load-state", metavar="FILE", help="begin with the states that --save-state wrote"
    )
    command.add_argument(
        "--save-state", metavar="FILE", help="write the program's states after the run"
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="compare with the linalg reference; exit 1 beyond the error bound",
    )
    command.add_argument(
        "--sanitize",
        metavar="NAMES",
        help="look for undefined behaviour, as `interpret --check`: all, races, bounds, ...",
    )
    inputs(command)


def _on_a_device(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--device",
        metavar="NAME",
        help="interpreter, vulkan or vulkan:N (XDSL_SPIRV_DEVICE, or else the best device there "
        "is that can run the program, or else the interpreter); of a model also reference: as it "
        "was imported, not compiled",
    )
    command.add_argument(
        "--time",
        type=int,
        metavar="N",
        help="run N times more on a Vulkan device and print its own time of each dispatch",
    )
    command.add_argument(
        "--profile", metavar="FILE", help="write the times of --time, for explain --profile FILE"
    )
    command.add_argument(
        "--statistics",
        action="store_true",
        help="print what a Vulkan driver says of each kernel's code: registers, spills, memory",
    )
    command.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="how long one run may take: on a Vulkan device (300), on the interpreter (no limit)",
    )
    command.add_argument(
        "--in-process",
        action="store_true",
        help="use a Vulkan driver in this process, which a bad kernel may crash",
    )


def generate(command: argparse.ArgumentParser) -> None:
    as_json(
        command,
        "answer, end (stop, limit, capacity, interrupted), seed, device, prompt_tokens, "
        "answer_tokens, work (of prefill and decode: tokens, seconds, rate), weight_bytes, "
        "state_bytes, context, temporary_bytes, kernels (kind, count, seconds; with --times)",
    )
    command.add_argument(
        "model", metavar="MODEL.gguf", nargs="?", help="a language model, or a package that has one"
    )
    command.add_argument("--prompt", metavar="TEXT", help="what to say; - for standard input")
    command.add_argument("--system", metavar="TEXT", help="how to behave, where the model knows it")
    command.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without chat template"
    )
    command.add_argument(
        "--device", metavar="NAME", help="interpreter, vulkan or vulkan:N (the best there is)"
    )
    target(command, default="the device's")
    command.add_argument(
        "--context", type=int, metavar="N", help="tokens of prompt and answer (2048, or fewer)"
    )
    command.add_argument(
        "--max-tokens", type=int, metavar="N", help="end the answer after N tokens"
    )
    command.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="how freely tokens are drawn (%(default)g: always the likeliest)",
    )
    command.add_argument("--top-k", type=int, metavar="N", help="sample of the N likeliest")
    command.add_argument(
        "--top-p", type=float, metavar="P", help="sample of the likeliest that together have P"
    )
    command.add_argument("--seed", type=int, metavar="N", help="sample the same again")
    jobs(command)
    command.add_argument(
        "--times",
        type=int,
        metavar="N",
        help="run a token N times more, and say what took how long",
    )
    command.add_argument(
        "--in-process", action="store_true", help="use a Vulkan driver in this process"
    )
    no_cache(command)
    command.add_argument(
        "--empty-cache", action="store_true", help="remove all programs that were kept"
    )


def serve(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model", metavar="MODEL.gguf", help="a language model, or a package that has one"
    )
    command.add_argument(
        "--host", default="127.0.0.1", help="address to listen at (%(default)s: this machine only)"
    )
    command.add_argument("--port", type=int, default=8000, metavar="N", help="(%(default)s)")
    command.add_argument(
        "--token-file", metavar="FILE", help="has the token that callers give as their API key"
    )
    command.add_argument("--name", metavar="NAME", help="the model's name (the file's)")
    command.add_argument(
        "--slots",
        type=int,
        default=1,
        metavar="N",
        help="answer N requests together, each with states of its own in memory (%(default)s)",
    )
    command.add_argument(
        "--waiting", type=int, default=64, metavar="N", help="requests that may wait (%(default)s)"
    )
    command.add_argument(
        "--context", type=int, metavar="N", help="tokens of prompt and answer (2048, or fewer)"
    )
    command.add_argument(
        "--device", metavar="NAME", help="interpreter, vulkan or vulkan:N (the best there is)"
    )
    target(command, default="the device's")
    jobs(command)
    command.add_argument(
        "--in-process", action="store_true", help="use a Vulkan driver in this process"
    )
    no_cache(command)


def devices(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", metavar="NAME", help="only vulkan:N, or vulkan for the best")
    as_json(command, "devices: everything that the loader says of each; drivers, unavailable")
    command.add_argument("--drivers", action="store_true", help="list drivers that only compile")
    command.add_argument(
        "--write-target", metavar="FILE", help="write a target file of the device (the best one)"
    )
    command.add_argument(
        "--compute-units",
        type=int,
        metavar="N",
        help="workgroups that run at once, where the device does not say",
    )


def limits(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATH=LAYER,...",
        help="let only these layers (ONNX nodes, or names in MLIR) take a path: "
        "cooperative-matrix, rotate, rows, dot or fma (repeat)",
    )
    command.add_argument(
        "--except",
        dest="excluded",
        action="append",
        default=[],
        metavar="PATH=LAYER,...",
        help="do not let these layers take a path (repeat)",
    )


def function(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--function",
        metavar="NAME",
        help="the func.func on tensors that is run, of a module with several (main)",
    )


def jobs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes that lower kernels (the processors there are, at most 8; 1: this one)",
    )


def no_cache(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--no-cache", action="store_true", help="compile anew, and do not keep the program"
    )


def target(command: argparse.ArgumentParser, required: bool = False, default: str = "") -> None:
    command.add_argument(
        "--target",
        required=required,
        metavar="NAME|FILE",
        help="what to compile for: nvidia-h200, amd-rdna3, lavapipe, ... (a wrong name lists all), "
        "or a target file" + (f" ({default})" if default else ""),
    )


def drivers(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--driver",
        dest="drivers",
        action="append",
        default=[],
        metavar="DEVICE",
        help="also have a driver compile the kernels for a GPU that need not be here, and show "
        "what they take: amd:navi31, intel:bmg, ... (`devices --drivers` lists them; repeat)",
    )
    command.add_argument(
        "--disassembly", metavar="DIR", help="with --driver: write each kernel's machine code there"
    )


def listing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--list",
        action="store_true",
        help="list inputs, outputs and states with their types and shapes, and do nothing else",
    )


def dims(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dim",
        dest="dims",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="an open dimension of an ONNX file's inputs: its name, or INPUT.POSITION, and ? for "
        "a size known only when it runs; for a compiled program, a size of random inputs (repeat)",
    )


def constants(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--constant",
        dest="constants",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input of an ONNX file that is the same in every run: a number, or a .npy file; it "
        "decides shapes and branches, and is no longer an input (repeat)",
    )


def states(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="make what an ONNX model takes of past runs and gives to the next one state of a "
        "session, with room for N tokens: functions prefill and decode (which a GGUF model has)",
    )
    command.add_argument(
        "--state",
        dest="states",
        action="append",
        default=[],
        metavar="INPUT=OUTPUT",
        help="such an input and the output as which it goes on, where names do not say (repeat)",
    )


def media(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--image",
        metavar="HOW",
        help="how pictures become arrays: layout=nchw,channels=rgb,size=exact|stretch|crop,"
        "mean=M/M/M,std=S/S/S, of pixels from 0 to 1; all of it has to be said",
    )
    command.add_argument(
        "--tokenizer", metavar="tokenizer.json", help="what makes tokens of .txt inputs"
    )


def inputs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=x.npy",
        help="an input's value (repeat for each); of one that is a number, NAME=5; also a picture "
        "(with --image) or a .txt file (with --tokenizer)",
    )
    media(command)
    command.add_argument(
        "--random", type=int, metavar="SEED", help="random values for inputs that are not given"
    )
    command.add_argument("-o", "--output", metavar="out.npz", help="where to write the results")


def limits_of(arguments: argparse.Namespace) -> Limits:
    """`--only PATH=LAYER,...` and `--except PATH=LAYER,...`; no limits if neither is given."""
    from xdsl_spirv.passes.schedule.paths import Limits

    only = _patterns("--only", arguments.only)
    excluded = _patterns("--except", arguments.excluded)
    return Limits(only, excluded)


def _patterns(option: str, given: list[str]) -> tuple[str, ...]:
    from xdsl_spirv.passes.schedule.paths import PATHS
    from xdsl_spirv.runtime.errors import ProgramError
    from xdsl_spirv.speech import did_you_mean

    limits: list[str] = []
    for text in given:
        path, _, names = text.partition("=")
        patterns = [name for name in names.split(",") if name]
        if path not in PATHS or not patterns:
            raise ProgramError(
                f"{option} {text} names no layers for a path",
                f"paths: {', '.join(PATHS)}",
                did_you_mean(
                    "" if path in PATHS else path,
                    PATHS,
                    f"write {option} {PATHS[0]}=LAYER,LAYER (* stands for anything)",
                ),
            )
        limits += [f"{path}={pattern}" for pattern in patterns]
    return tuple(limits)


def jobs_of(arguments: argparse.Namespace) -> int:
    """`--jobs N`, or the processors there are."""
    from xdsl_spirv.compiler.kernel_jobs import usable_processors
    from xdsl_spirv.runtime.errors import ProgramError

    jobs: int | None = arguments.jobs
    if jobs is not None and jobs < 1:
        raise ProgramError(f"--jobs {jobs} is not a number of processes", "", "give 1 or more")
    return jobs or usable_processors()


def functions_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The functions of `--functions`, separated by commas; none without."""
    return tuple(filter(None, (getattr(arguments, "functions", None) or "").split(",")))
