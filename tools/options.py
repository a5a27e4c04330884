"""
Declares the options of commands from texts that read like a manual.

    input INPUT.onnx|.gguf  a model
    -o --output DIR!  where to write the program
    --form [kernels|graph] default=kernels
        graph: one graph of TOSA operators, not kernels
    --dim NAME=SIZE repeat dest=dims  size of an open dimension (repeatable)
    @target (default: the best device of this machine)

A line declares an option: its names, the name of its value, and attributes (words of `WORDS`,
`default=`, `dest=`). The help text follows after two spaces and on the indented lines below. A
name without hyphens is a positional argument. `!` makes an option required. An option without a
value is a flag. A line `@name WORDS` inserts the options of `GROUPS[name]`, with WORDS in place of
`{}`. A line `@json TEXT` describes the JSON output.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.paths import Limits

WORDS: dict[str, dict[str, Any]] = {
    "int": {"type": int},
    "float": {"type": float},
    "repeat": {"action": "append", "default": []},
    "optional": {"nargs": "?"},
    "several": {"nargs": "+", "default": []},
    "rest": {"nargs": argparse.REMAINDER},
}

GROUPS = {
    "json": "--json  print only one JSON object, with the fields: {}",
    "dims": """
--dim NAME=SIZE repeat dest=dims
    size of an open dimension of an ONNX model's inputs, by its name or INPUT.POSITION; ? for a size
    known only at run time; for a compiled program, a size of random inputs (repeatable)
""",
    "function": """
--function NAME  the func.func on tensors to run, if there are several (default: main)
""",
    "jobs": """
--jobs N int  number of processes that lower kernels (default: one per processor, at most 8)
""",
    "no-cache": """
--no-cache  compile again, and do not cache the program
""",
    "drivers": """
--driver DEVICE repeat dest=drivers
    also compile the kernels with a driver for a GPU that may be absent, and show their resources:
    amd:navi31, intel:bmg, ... (`devices --drivers` lists them; repeatable)
--disassembly DIR  with --driver: write each kernel's machine code to a file in DIR
""",
    "listing": """
--list  only list inputs, outputs and states with their types and shapes
""",
    "constants": """
--constant NAME=VALUE repeat dest=constants
    a number or .npy file for an input of an ONNX model; the value may determine shapes and
    branches, and the program does not have this input (repeatable)
""",
    "states": """
--context N int
    store values that an ONNX model passes from run to run in states with room for N tokens; the
    program then has the functions prefill and decode, like that of a GGUF model
--state INPUT=OUTPUT repeat dest=states
    an input, and the output that is its next value, if the names do not show it (repeatable)
""",
    "media": """
--image HOW
    settings for converting pictures to arrays, all required for float inputs:
    layout=nchw,channels=rgb,size=exact|stretch|crop,mean=M/M/M,std=S/S/S (of pixels from 0 to 1)
--tokenizer tokenizer.json  tokenizer for .txt inputs
""",
    "inputs": """
--input NAME=x.npy repeat dest=inputs
    value of an input: a .npy file, an .npz file with an array NAME, a number (NAME=5), a picture
    (with --image) or a .txt file (with --tokenizer); repeatable
@media
--random SEED int  use random values for inputs that are not given
-o --output out.npz  where to write the results
""",
    "limits": """
--only PATH=LAYER,... repeat
    allow a lowering path only for these layers (ONNX nodes, or names in MLIR); paths:
    cooperative-matrix, rotate, rows, dot, fma (repeatable)
--except PATH=LAYER,... repeat dest=excluded  forbid a path for these layers (repeatable)
--allow [bf16x3]
    compute f32 products by three products of bf16 parts, if the target has bf16 matrices; the
    relative error of a product is at most 3 * 2^-16, and sums are f32
""",
    "target": """
--target NAME|FILE
    device to compile for: nvidia-h200, amd-rdna3, lavapipe, ... (an unknown name lists all), or a
    target file {}
""",
    "passes": """
-p --passes PIPELINE default=  passes to run first, as in 'linalg-to-spirv{target=lavapipe}'
""",
    "scheduler": """
--scheduler ADDRESS|local[:N]
    run jobs on the workers of a Dask scheduler, or on N workers of this machine (default: in
    processes of this command)
--store FILE.db  store results in this file, and do not repeat jobs whose results it contains
""",
    "launch": """
--entry NAME  the entry point, if there are several
--grid X[,Y[,Z]]  number of workgroups; 2 means 2,1,1
--subgroup-size N[,N]  run once for each subgroup size (default: the target's, or 32)
--target NAME  device whose limits the launch must respect
--check NAMES  checks: all (default), none, or names as in races,bounds
--allow RULE[:TEXT] repeat  findings that are intended, by rule and part of the text (repeatable)
--robust  outside of buffers, read 0 and ignore writes (robustBufferAccess2)
--max-steps N int  stop after N executed blocks
--timeout SECONDS float  time limit of a launch (default: 300)
--target-env ENV  environment to compile and validate for: vulkan1.0 to vulkan1.4
-D --define NAME[=VALUE] repeat dest=defines  macro of the source (repeatable)
--glslang OPTION repeat  option for glslang, or for the source's other compiler (repeatable)
--optimize  optimize the kernel with spirv-opt -O first
--spec NAME=VALUE repeat  specialization constant, by name or SpecId (repeatable)
--push NAME=VALUE repeat  member of the push constants (repeatable)
--buffer NAME=TYPE:SIZE:CONTENT[:SEED] repeat dest=buffers
    initial contents: f32:1000:random, u32:4x4:zeros, for an image rgba8:16x16:random, or x.npy;
    NAME is the name of the block or variable, or SET.BINDING (repeatable)
--expect NAME=EXPRESSION|x.npy repeat
    expected final contents of a buffer: a numpy expression of initial contents and constants, or a
    file (repeatable)
--tolerance T  tolerance for --expect: 1e-5, or absolute=1e-6,relative=1e-5,ulp=2
""",
}
"""Options that several commands share."""


class Options:
    """A function that adds the options of a text to an argparse parser."""

    def __init__(self, text: str, epilog: str | None = None):
        self.text, self.epilog = text, epilog

    def __call__(self, command: argparse.ArgumentParser) -> None:
        command.epilog = self.epilog
        _declare_all(command, self.text)


def _declare_all(command: argparse.ArgumentParser, text: str, required: bool = False) -> None:
    for option in re.split(r"\n(?=\S)", text.strip()):
        line, _, further = option.partition("\n")
        further = " ".join(further.split())
        if line.startswith("@"):
            group, _, words = line[1:].partition(" ")
            declared = GROUPS[group.removesuffix("!")]
            declared = declared.replace("{}", f"{words} {further}".strip())
            _declare_all(command, declared, group.endswith("!"))
        else:
            declaration, _, help = line.partition("  ")
            _declare(command, declaration.split(), f"{help} {further}".strip(), required)


def _declare(command: argparse.ArgumentParser, words: list[str], help: str, required: bool) -> None:
    names = [word for word in words if word.startswith("-")] or words[:1]
    facts: dict[str, Any] = {"help": help}
    for word in words[len(names) :]:
        key, equals, value = word.partition("=")
        if word in WORDS:
            facts |= WORDS[word]
        elif equals and key in ("default", "dest"):
            facts[key] = facts.get("type", str)(value)
        elif word.startswith("["):
            facts["choices"] = tuple(word.strip("[]!").split("|"))
        else:
            facts["metavar"] = word.removesuffix("!")
        required = required or word.endswith("!")
    if names[0].startswith("-") and not {"metavar", "choices", "default"} & facts.keys():
        facts["action"] = "store_true"
    if required:
        facts["required"] = True
    command.add_argument(*names, **facts)


# Commands that compile, run and tune programs

doctor = Options("""
@json steps (status: ok, warning, failed, do, device or note; text)
""")

compile = Options("""
@json dispatches (kernel, entry_point, grid, spirv_bytes); for a model also the numbers of
    dispatches and kernels, paths (dispatches by path), target, spirv_bytes, memory_bytes,
    temporary_bytes, seconds; with --prove: proofs (kernel, entry_point, grid, verdict, reasons,
    offered)
input INPUT.onnx|.gguf|.mlir  a model, or a module with linalg on tensors
@target (default: the best device of this machine)
@drivers
@dims
@constants
@states
@limits
@jobs
@no-cache
-o --output DIR!  where to write the program
--form [kernels|graph] default=kernels
    graph: write one graph of TOSA operators (SPV_ARM_graph) instead of kernels; as a VGF file if
    the output's name ends in .vgf (default: %(default)s)
--text  also write each kernel as MLIR text (kernels/NAME.mlir)
--trace-passes DIR  write the module after every pass, and a page with the changes of each pass
@function
--functions NAME,NAME  compile several functions, which share weights and states, to one program
--weights FILE.safetensors  values of the arguments that have the names of the file's tensors
--prove
    prove, for all buffer contents, that the kernels have no races, no accesses out of bounds and no
    wrong barriers; exit status 1 if a proof fails
""")

convert = Options("""
@json output, bytes, bytes_before, results (name, largest_difference as a fraction of the largest
    element, cosine)
input MODEL.onnx  the model to convert
--to [f16|int8]!  number type of the converted model
-o --output FILE.onnx!  where to write the converted model
--calibration DIR
    folder with one .npz file of inputs per run, to calibrate int8 and to compare the results
--dynamic  for int8: convert only the weights; activations are quantized at run time
--all  for f16: also convert the model's inputs and outputs
@dims
""")

explain = Options("""
@json the data that --format json writes: layers, nodes, buffers, sums; values (with --list)
@listing
input MODEL.onnx|.gguf|.mlir|DIR  a model, or a program made by `compile`
@target (default: the driver's device, or the best device of this machine)
@drivers
@dims
@constants
@states
@limits
@jobs
@function
--weights FILE.safetensors  values of the arguments that have the names of the file's tensors
--format [text|json|html]  output format (default: by the output's file name, else text)
-o --output FILE  where to write the explanation (default: standard output)
--sort [order|share|work|moved] default=order
    order of the rows in text: execution order, or the largest value first
--group  show all dispatches of a kernel in one row of the text
--device NAME  also run on a device and show each layer's time: interpreter, vulkan or vulkan:N
--profile FILE  show the times that `run --time N --profile FILE` wrote
--against MODEL|DIR  compare with another model or program (--against-target: default the same)
--against-target TARGET  compare with another target
--against-profile FILE  like --profile, for the other side of the comparison
--chrome-trace FILE.json  also write a trace for Perfetto and chrome://tracing
--node-data FILE.json  also write the cost of each node as node data of Model Explorer
--timeout SECONDS float  time limit of a run (default: 300 on a Vulkan device, else none)
--in-process  load the Vulkan driver into this process
--input NAME=x.npy repeat dest=inputs  value of an input for --device (default: random)
@media
""")

run = Options("""
@json results (name, shape, type, least, mean, greatest); comparisons (name, max_abs, passed, bound;
    with --check also unbounded and wide; or onnxruntime); for a model also the fields of `compile`;
    device and times (kernel, entry_point, nanoseconds of each run, median; with --time);
    statistics; layers (with --compare-layers); findings, allowed and counters as --check-json
    writes them (with checks); values (function, kind, name, type, shape; with --list)
@listing
program DIR|MODEL.onnx|.gguf|.mlir  a program made by `xdsl-spirv compile`, or a model to compile
@target (default: the best device of this machine; only for models)
@dims
@constants
@states
@limits
@jobs
@no-cache
--no-compare  do not compare a model's results with onnxruntime's
--device NAME
    interpreter, vulkan or vulkan:N; for a model also reference, which runs the model without
    compiling (default: XDSL_SPIRV_DEVICE, the best suitable device, or the interpreter)
--time N int  run N more times on a Vulkan device, and print the device's time of each dispatch
--profile FILE  write the times of --time for `explain --profile FILE`
--statistics  print the driver's data on each kernel's machine code: registers, spills, memory
--timeout SECONDS float  time limit of a run (default: 300 on a Vulkan device, else none)
--in-process  load the Vulkan driver into this process, which a faulty kernel may crash
--unsafe  do not validate a program's kernels, and do not compare them with its manifest
--compare-layers
    run every dispatch on the reference's inputs, and stop at the first wrong result: print its
    node, dispatch and kernel
--function NAME  the function to run, if the program has several
--load-state FILE  start with the states that --save-state wrote
--save-state FILE  write the program's states after the run
--check  compare with the linalg reference; exit status 1 for results beyond the error bound
--sanitize NAMES  look for undefined behaviour, like `interpret --check`: all, races, bounds, ...
@inputs
""")

generate = Options("""
@json answer, end (stop, limit, capacity, interrupted), seed, device, prompt_tokens, answer_tokens,
    work (of prefill and decode: tokens, seconds, rate), weight_bytes, state_bytes, context,
    temporary_bytes, kernels (kind, count, seconds; with --times), proposed and accepted
    (tokens of --draft)
model MODEL.gguf optional  a language model, or a package that contains one
--prompt TEXT  the prompt; - reads it from standard input
--system TEXT  the system message, if the model supports one
--raw  continue the prompt without a chat template
--device NAME  interpreter, vulkan or vulkan:N (default: the best device of this machine)
@target (default: the device's)
--context N int  maximum tokens of prompt and answer (default: 2048, or the model's limit)
--kv-type TYPE default=f16
    type of keys and values: f16, f8E4M3FN, f8E5M2 or i8 (default: %(default)s)
--max-tokens N int  maximum tokens of the answer
--draft MODEL.gguf  a smaller model with the same vocabulary, which proposes the next tokens
--ahead N int default=4  tokens that --draft proposes at a time (default: %(default)s)
--temperature T float default=0.0
    randomness of the choice of tokens (default: %(default)g, always the likeliest)
--top-k N int  choose only among the N likeliest tokens
--top-p P float  choose only among the likeliest tokens with a total probability of P
--seed N int  seed of the random choice, to repeat an answer
@jobs
--times N int  run a token N more times, and print the time of each kind of kernel
--in-process  load the Vulkan driver into this process
@no-cache
--empty-cache  remove all cached programs
""")

serve = Options("""
model MODEL.gguf  a language model, or a package that contains one
--host default=127.0.0.1  address to listen on (default: %(default)s, only this machine)
--port N int default=8000  port to listen on (default: %(default)s)
--token-file FILE  file with the token that clients must send as API key
--name NAME  the model's name for clients (default: the file's name)
--slots N int default=1
    requests to answer at a time, each with separate states in memory (default: %(default)s)
--waiting N int default=64  maximum number of waiting requests (default: %(default)s)
--context N int  maximum tokens of prompt and answer (default: 2048, or the model's limit)
--kv-type TYPE default=f16
    type of keys and values: f16, f8E4M3FN, f8E5M2 or i8 (default: %(default)s)
--device NAME  interpreter, vulkan or vulkan:N (default: the best device of this machine)
@target (default: the device's)
@jobs
--in-process  load the Vulkan driver into this process
@no-cache
""")

devices = Options("""
--device NAME  only the device vulkan:N, or the best one (vulkan)
@json devices (all data that the driver reports for each device), drivers, unavailable
--drivers  list the drivers that can compile for absent GPUs
--write-target FILE  write a target file for the device (default: the best device)
--compute-units N int  number of compute units, if the device does not report it
""")


def limits_of(arguments: argparse.Namespace) -> Limits:
    """Parses `--only` and `--except` PATH=LAYER,... . Raises `ProgramError` for other forms."""
    from xdsl_spirv.passes.schedule.paths import Limits

    only = _patterns("--only", arguments.only)
    excluded = _patterns("--except", arguments.excluded)
    return Limits(only, excluded, arguments.allow or "")


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
                f"{option} {text} does not have the form PATH=LAYER",
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
    """Returns the number of `--jobs N`, or the number of processors (at most 8)."""
    from xdsl_spirv.compiler.kernel_jobs import usable_processors
    from xdsl_spirv.runtime.errors import ProgramError

    jobs: int | None = arguments.jobs
    if jobs is not None and jobs < 1:
        raise ProgramError(f"--jobs {jobs} is not a number of processes", "", "give 1 or more")
    return jobs or usable_processors()


def functions_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Returns the names in the comma-separated list `--functions`; empty without the option."""
    return tuple(filter(None, (getattr(arguments, "functions", None) or "").split(",")))
