"""The options of the commands that compile, run and tune programs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from xdsl_spirv.tools.options import Options

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.paths import Limits

doctor = Options("""
@json steps (status: ok, warning, failed, do, device or note; text)
""")

compile = Options("""
@json dispatches (kernel, entry_point, grid, spirv_bytes); of a model the numbers of dispatches and
    kernels, paths (dispatches by path), target, spirv_bytes, memory_bytes, temporary_bytes, seconds
input INPUT.onnx|.gguf|.mlir  a model, or linalg on tensors
@target (the best device there is)
@drivers
@dims
@constants
@states
@limits
@jobs
@no-cache
-o --output DIR!  where to write the program
--form [kernels|graph] default=kernels
    graph: one graph of TOSA operators (SPV_ARM_graph), not kernels; an output that ends in .vgf is
    a VGF file (kernels)
--text  also write each kernel as text, kernels/NAME.mlir
--trace-passes DIR  write the module after every pass, and a page of each one's changes
@function
--functions NAME,NAME  several functions in one program, which share weights and states
--weights FILE.safetensors  values of the arguments that are called like its tensors
""")

convert = Options("""
@json output, bytes, bytes_before, results (name, largest_difference as a part of the largest
    element, cosine)
input MODEL.onnx  the model to convert
--to [f16|int8]!  the type of the converted model
-o --output FILE.onnx!  where to write it
--calibration DIR  inputs as .npz files, one a run: for calibration of int8, and for the comparison
--dynamic  int8: weights alone, activations at run time
--all  f16: the model's inputs and outputs, too
@dims
""")

explain = Options("""
@json what --format json writes: layers, nodes, buffers, sums; or values, with --list
@listing
input MODEL.onnx|.gguf|.mlir|DIR  a model, or a program made by `compile`
@target (the driver's, or the best device there is)
@drivers
@dims
@constants
@states
@limits
@jobs
@function
--weights FILE.safetensors  as for `compile`
--format [text|json|html]  the output's format (by default as the output's name says, or else text)
-o --output FILE  where to write it (prints)
--sort [order|share|work|moved] default=order
    of the text's rows: in the order of execution, or the largest first
--group  one row for all dispatches of a kernel, in the text
--device NAME  also run it there and show each layer's time: interpreter, vulkan or vulkan:N
--profile FILE  show the times that `run --time N --profile FILE` wrote
--against MODEL|DIR  compare with another model or program (the same one, with --against-target)
--against-target TARGET  compare with another target
--against-profile FILE  as --profile, for the other side of the comparison
--chrome-trace FILE.json  also write the run over time as Perfetto and chrome://tracing open it
--node-data FILE.json  also write what nodes take as node data of Model Explorer
--timeout SECONDS float  for a device (300), or the interpreter
--in-process  use a Vulkan driver in this process
--input NAME=x.npy repeat dest=inputs  an input's value with --device (random where none is given)
@media
""")

run = Options("""
@json results (name, shape, type, least, mean, greatest); comparisons (name, max_abs, passed, bound;
    with --check, or onnxruntime); of a model also what compile says of it; device and times
    (kernel, entry_point, nanoseconds of each run, median; with --time); statistics; layers (with
    --compare-layers); findings, allowed and counters as --check-json writes them (with checks);
    values (function, kind, name, type, shape; with --list)
@listing
program DIR|MODEL.onnx|.gguf|.mlir  a program made by `xdsl-spirv compile`, or a model for it
@target (the best device there is; of a model)
@dims
@constants
@states
@limits
@jobs
@no-cache
--no-compare  of a model: do not compare with onnxruntime
--device NAME
    interpreter, vulkan or vulkan:N (XDSL_SPIRV_DEVICE, or else the best device there is that can
    run the program, or else the interpreter); of a model also reference: as it was imported, not
    compiled
--time N int  run N times more on a Vulkan device and print its own time of each dispatch
--profile FILE  write the times of --time, for explain --profile FILE
--statistics  print what a Vulkan driver says of each kernel's code: registers, spills, memory
--timeout SECONDS float
    how long one run may take: on a Vulkan device (300), on the interpreter (no limit)
--in-process  use a Vulkan driver in this process, which a bad kernel may crash
--unsafe  believe that a program's kernels are valid and what its manifest says they are
--compare-layers
    run every dispatch on the reference's values of its inputs, and stop at the first that differs:
    its node, dispatch and kernel
--function NAME  of a program of several: which one to run
--load-state FILE  begin with the states that --save-state wrote
--save-state FILE  write the program's states after the run
--check  compare with the linalg reference; exit 1 beyond the error bound
--sanitize NAMES  look for undefined behaviour, as `interpret --check`: all, races, bounds, ...
@inputs
""")

generate = Options("""
@json answer, end (stop, limit, capacity, interrupted), seed, device, prompt_tokens, answer_tokens,
    work (of prefill and decode: tokens, seconds, rate), weight_bytes, state_bytes, context,
    temporary_bytes, kernels (kind, count, seconds; with --times)
model MODEL.gguf optional  a language model, or a package that has one
--prompt TEXT  what to say; - for standard input
--system TEXT  how to behave, where the model knows it
--raw  continue the prompt as it is, without chat template
--device NAME  interpreter, vulkan or vulkan:N (the best there is)
@target (the device's)
--context N int  tokens of prompt and answer (2048, or fewer)
--max-tokens N int  end the answer after N tokens
--temperature T float default=0.0  how freely tokens are drawn (%(default)g: always the likeliest)
--top-k N int  sample of the N likeliest
--top-p P float  sample of the likeliest that together have P
--seed N int  sample the same again
@jobs
--times N int  run a token N times more, and say what took how long
--in-process  use a Vulkan driver in this process
@no-cache
--empty-cache  remove all programs that were kept
""")

serve = Options("""
model MODEL.gguf  a language model, or a package that has one
--host default=127.0.0.1  address to listen at (%(default)s: this machine only)
--port N int default=8000  (%(default)s)
--token-file FILE  has the token that callers give as their API key
--name NAME  the model's name (the file's)
--slots N int default=1
    answer N requests together, each with states of its own in memory (%(default)s)
--waiting N int default=64  requests that may wait (%(default)s)
--context N int  tokens of prompt and answer (2048, or fewer)
--device NAME  interpreter, vulkan or vulkan:N (the best there is)
@target (the device's)
@jobs
--in-process  use a Vulkan driver in this process
@no-cache
""")

devices = Options("""
--device NAME  only vulkan:N, or vulkan for the best
@json devices: everything that the loader says of each; drivers, unavailable
--drivers  list drivers that only compile
--write-target FILE  write a target file of the device (the best one)
--compute-units N int  workgroups that run at once, where the device does not say
""")


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
