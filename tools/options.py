"""
Options of commands as texts that read like a manual.

    input INPUT.onnx|.gguf  a model
    -o --output DIR!  where to write the program
    --form [kernels|graph] default=kernels
        graph: one graph of TOSA operators, not kernels
    --dim NAME=SIZE repeat dest=dims  an open dimension (repeat)
    @target (the best device there is)

A line declares an option: its names, the name of its value, and words of `WORDS`, `default=` and
`dest=`. The help follows behind two blanks and in the indented lines below. A name without hyphens
is a positional argument. `!` makes an option required; an option without a value is a flag. A line
`@name` stands for the options of `GROUPS[name]`, with the words behind it in place of `{}`;
`@json` says what the JSON object of `--json` holds.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

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
--function NAME  the func.func on tensors that is run, of a module with several (main)
""",
    "jobs": """
--jobs N int  processes that lower kernels (the processors there are, at most 8; 1: this one)
""",
    "no-cache": """
--no-cache  compile anew, and do not keep the program
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
    f32:1000:random, u32:4x4:zeros, or x.npy; NAME is the block's, the variable's, or SET.BINDING
    (repeat)
--expect NAME=EXPRESSION|x.npy repeat
    what a buffer holds afterwards: numpy over first contents and constants (repeat)
--tolerance T  1e-5, or absolute=1e-6,relative=1e-5,ulp=2
""",
}
"""Options that several commands have."""


class Options:
    """The options of a command, declared when it is called with the command's parser."""

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
