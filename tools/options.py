"""
Declares the options of commands from texts that read like a manual.

    input INPUT.onnx|.gguf  a model
    -o --output DIR!  where to write the program
    --form [kernels|graph] default=kernels
        graph: one graph of TOSA operators, not kernels
    --dim NAME=SIZE repeat dest=dims  an open dimension (repeat)
    @target (the best device there is)

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
    "json": "--json  print one JSON object and nothing else: {}",
    "dims": """
--dim NAME=SIZE repeat dest=dims
    an open dimension of an ONNX file's inputs: its name, or INPUT.POSITION, and ? for a size known
    only when it runs; for a compiled program, a size of random inputs (repeat)
""",
    "function": """
--function NAME  the func.func on tensors to run, if the module has several (main)
""",
    "jobs": """
--jobs N int  processes that lower kernels (default: one per processor, at most 8)
""",
    "no-cache": """
--no-cache  compile again, and do not cache the program
""",
    "drivers": """
--driver DEVICE repeat dest=drivers
    also have a driver compile the kernels for a GPU that need not be here, and show what they take:
    amd:navi31, intel:bmg, ... (`devices --drivers` lists them; repeat)
--disassembly DIR  with --driver: write each kernel's machine code there
""",
    "listing": """
--list  list inputs, outputs and states with their types and shapes, and do nothing else
""",
    "constants": """
--constant NAME=VALUE repeat dest=constants
    an input of an ONNX file that is the same in every run: a number, or a .npy file; it decides
    shapes and branches, and is no longer an input (repeat)
""",
    "states": """
--context N int
    make what an ONNX model takes of past runs and gives to the next one state of a session, with
    room for N tokens: functions prefill and decode (which a GGUF model has)
--state INPUT=OUTPUT repeat dest=states
    such an input and the output as which it goes on, where names do not say (repeat)
""",
    "media": """
--image HOW
    how pictures become arrays:
    layout=nchw,channels=rgb,size=exact|stretch|crop,mean=M/M/M,std=S/S/S, of pixels from 0 to 1;
    all of it has to be said
--tokenizer tokenizer.json  what makes tokens of .txt inputs
""",
    "inputs": """
--input NAME=x.npy repeat dest=inputs
    an input's value (repeat for each); of one that is a number, NAME=5; also a picture (with
    --image) or a .txt file (with --tokenizer)
@media
--random SEED int  random values for inputs that are not given
-o --output out.npz  where to write the results
""",
    "limits": """
--only PATH=LAYER,... repeat
    let only these layers (ONNX nodes, or names in MLIR) take a path: cooperative-matrix, rotate,
    rows, dot or fma (repeat)
--except PATH=LAYER,... repeat dest=excluded  do not let these layers take a path (repeat)
--allow [bf16x3]
    compute products of f32 by three products of bf16 parts, if the target has matrices of bf16:
    each is off by 3 * 2^-16 of itself at most, sums stay in f32
""",
    "target": """
--target NAME|FILE
    what to compile for: nvidia-h200, amd-rdna3, lavapipe, ... (a wrong name lists all), or a target
    file {}
""",
    "passes": """
-p --passes PIPELINE default=  run passes first, as in 'linalg-to-spirv{target=lavapipe}'
""",
    "scheduler": """
--scheduler ADDRESS|local[:N]
    run on the workers of a Dask scheduler, or on N of this machine (in processes of this command)
--store FILE.db  keep results there, and do not run jobs again that it holds
""",
    "launch": """
--entry NAME  the entry point, if there are several
--grid X[,Y[,Z]]  workgroups; 2 is 2,1,1
--subgroup-size N[,N]  run once for each (the target's, or 32)
--target NAME  the device whose limits must hold
--check NAMES  all (if nothing else is said), none, or races,bounds,...
--allow RULE[:TEXT] repeat  findings that are intended (repeat)
--robust  with robustBufferAccess2: outside buffers is 0
--max-steps N int  stop after so many executed blocks
--timeout SECONDS float  for each launch (300)
--target-env ENV  vulkan1.0 to vulkan1.4: compiled and validated for
-D --define NAME[=VALUE] repeat dest=defines  a macro of the source (repeat)
--glslang OPTION repeat  for glslang, or the source's other compiler (repeat)
--optimize  run spirv-opt -O before
--spec NAME=VALUE repeat  a specialization constant, by name or SpecId (repeat)
--push NAME=VALUE repeat  a member of the push constants (repeat)
--buffer NAME=TYPE:SIZE:CONTENT[:SEED] repeat dest=buffers
    f32:1000:random, u32:4x4:zeros, of an image rgba8:16x16:random, or x.npy; NAME is the block's,
    the variable's, or SET.BINDING (repeat)
--expect NAME=EXPRESSION|x.npy repeat
    what a buffer holds afterwards: numpy over first contents and constants (repeat)
--tolerance T  1e-5, or absolute=1e-6,relative=1e-5,ulp=2
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
@json dispatches (kernel, entry_point, grid, spirv_bytes); of a model the numbers of dispatches and
    kernels, paths (dispatches by path), target, spirv_bytes, memory_bytes, temporary_bytes,
    seconds; with --prove: proofs (kernel, entry_point, grid, verdict, reasons, offered)
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
--prove  prove bounds, races and barriers of its kernels, for all contents; status 1 if one is not
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
    temporary_bytes, kernels (kind, count, seconds; with --times), proposed and accepted
    (tokens of --draft)
model MODEL.gguf optional  a language model, or a package that has one
--prompt TEXT  what to say; - for standard input
--system TEXT  how to behave, where the model knows it
--raw  continue the prompt as it is, without chat template
--device NAME  interpreter, vulkan or vulkan:N (the best there is)
@target (the device's)
--context N int  tokens of prompt and answer (2048, or fewer)
--kv-type TYPE default=f16  keys and values in f16, f8E4M3FN, f8E5M2 or i8 (%(default)s)
--max-tokens N int  end the answer after N tokens
--draft MODEL.gguf  a small model of the same tokens, which proposes the next ones
--ahead N int default=4  tokens that --draft proposes at a time (%(default)s)
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
--kv-type TYPE default=f16  keys and values in f16, f8E4M3FN, f8E5M2 or i8 (%(default)s)
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
    """Returns the comma-separated names of `--functions`; empty without the option."""
    return tuple(filter(None, (getattr(arguments, "functions", None) or "").split(",")))
