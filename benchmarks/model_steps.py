"""
Times steps of language models with random weights: tokens, batches of tokens, prompts.

    python benchmarks/model_steps.py --model llama-3-8b --step token:1024 batch8:1024 prompt:512

`token:P` decodes a token after P others, `batchN:P` a token for each of N texts of P tokens, and
`prompt:N` reads a prompt of N tokens. A model is written as a GGUF file of `--format` (only
`--blocks` blocks if the whole is too large) and compiled once for each number of texts.

- `run_ms`: device time between two timestamps around a run (`disturbed_run_ms` if it is longer than
  the run on the host's clock); `device_ms`: sum of the dispatches; `load`: the host's load.
- `host_ms`: wall-clock time; `token_ms`: wall-clock time without moving logits.
- `answer_ms`: wall-clock time from token to token of answers; `ahead_ms`: the same if the next run
  starts before the host has the token.
- `bytes`: weights that the step reads (the expected share of experts) and keys and values of the
  past, or of the window.
- `of_bandwidth`: time to read `bytes` at the bandwidth of a copy (`--bandwidth` in TB/s, or
  PyTorch's), relative to `run_ms`, or to `device_ms` if `run_ms` was disturbed.
- `TFLOPS`: two operations for each weight and token, in the same time.
- `cosine` of `check`: least cosine between the logits of a prompt and of a token and other logits
  of the same tokens. A file that `--logits` of another call wrote has them (`--like`; the same
  model with another `--cache` or `--window`). For models whose name starts with "tiny", the
  interpreter computes them on whole arrays.

`--cache` is the type of keys and values, and `--window` the number of tokens of sliding windows, 0
for none. `--keep FOLDER` stores the compiled program; a stored program is not compiled again.

Times are medians.
"""

from __future__ import annotations

import datetime
import json
import math
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from device_runs import CUDA, WARM_UP, parser_of
from language_model import FORMATS, RUNS, blocks_of, gguf, time_function
from llama_peer import SHAPES, Shapes, copy_bandwidth
from run_times import device_time

from xdsl_spirv.compiler.model import compile_model, products_for
from xdsl_spirv.frontends.gguf.caches import CACHES, Sliding
from xdsl_spirv.frontends.gguf.file import File, read_file
from xdsl_spirv.frontends.gguf.importer import import_gguf
from xdsl_spirv.frontends.gguf.parameters import Parameters, parameters_of
from xdsl_spirv.llm.sliding import NEAR, SlidingSession
from xdsl_spirv.llm.texts import DECODE, Texts, Work
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.device import open_device
from xdsl_spirv.runtime.vulkan.sessions import VulkanSession
from xdsl_spirv.testing.gguf_models import write_declared
from xdsl_spirv.testing.gguf_session import Session

Type = gguf.GGMLQuantizationType
ANSWER = 64
"""Number of tokens in the timed answer."""
CHECKED = 33
"""Number of tokens of the compared prompt."""


def llama(shapes: Shapes) -> dict[str, Any]:
    return {
        "vocab_size": shapes.vocabulary,
        "block_count": shapes.blocks,
        "embedding_length": shapes.width,
        "feed_forward_length": shapes.hidden,
        "attention.head_count": shapes.heads,
        "attention.head_count_kv": shapes.kv_heads,
        "attention.key_length": shapes.head,
        "attention.value_length": shapes.head,
    }


EXPERTS = {"expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("llama", llama(shapes)) for name, shapes in SHAPES.items()},
    "qwen3-30b-a3b": (
        "qwen3moe",
        {**llama(Shapes(48, 2048, 32, 4, 128, 6144, 151936)), **EXPERTS},
    ),
    "gemma3-4b": (
        "gemma3",
        {**llama(Shapes(34, 2560, 8, 4, 256, 10240, 262144)), "attention.sliding_window": 1024},
    ),
    "gpt-oss-20b": (
        "gpt-oss",
        {
            **llama(Shapes(24, 2880, 64, 8, 64, 2880, 201088)),
            **EXPERTS,
            "expert_count": 32,
            "expert_used_count": 4,
            "expert_feed_forward_length": 2880,
            "attention.sliding_window": 128,
        },
    ),
    "tiny-gemma3": ("gemma3", {**llama(SHAPES["tiny"]), "attention.sliding_window": 16}),
    "tiny-gpt-oss": (
        "gpt-oss",
        {
            **llama(SHAPES["tiny"]),
            **EXPERTS,
            "expert_count": 16,
            "expert_used_count": 4,
            "expert_feed_forward_length": 128,
            "attention.sliding_window": 16,
        },
    ),
    "tiny-experts": (
        "qwen3moe",
        {
            **llama(SHAPES["tiny"]),
            **EXPERTS,
            "expert_count": 16,
            "expert_used_count": 4,
            "expert_feed_forward_length": 128,
        },
    ),
}


def write(path: Path, options: Any, context: int) -> None:
    """Writes the model file: matrices in `--format`, routers and norms in f32."""
    architecture, values = MODELS[options.model]
    type = FORMATS[options.format]
    elements, _ = gguf.GGML_QUANT_SIZES[type]
    if options.window is not None:
        values = {**values, "attention.sliding_window": options.window}
    values = {
        **values,
        "block_count": options.blocks or values["block_count"],
        "context_length": context,
        "rope.freq_base": 500000.0,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }

    def pack(draw: np.random.Generator, size: tuple[int, int], type: Any) -> Any:
        rows, columns = size
        if type is Type.F32:
            return draw.normal(0, columns**-0.5, size).astype(np.float32)
        blocks = blocks_of(type, rows * columns // elements, columns**-0.5)
        return blocks.reshape(rows, -1)

    def type_of(name: str) -> Any:
        return Type.F32 if "gate_inp" in name else type

    def is_written(name: str) -> bool:
        bias = architecture == "gpt-oss" and name.endswith(".bias") and name != "output.bias"
        return name == "output.weight" or (bias and "exp_probs" not in name)

    write_declared(path, architecture, values, type_of, is_written, pack=pack)


def read_bytes(file: File, p: Parameters, texts: int, past: int, cache: str) -> int:
    """
    Returns the bytes of weights, keys and values that one token of each of `texts` texts reads,
    after `past` tokens.
    """
    total = 0.0
    for name, tensor in file.tensors.items():
        chosen = 1.0
        if p.experts is not None and "_exps" in name:
            chosen = 1 - (1 - p.experts.used / p.experts.count) ** texts
        total += chosen * tensor.data.nbytes * (name != "token_embd.weight")
    windows = p.pattern or (False,) * p.blocks
    rows = sum(min(past, p.window) if local else past for local in windows)
    return int(total) + texts * rows * p.shared * 2 * CACHES[cache].bytes(p.head)


def count_multiplied(file: File, p: Parameters) -> int:
    """Returns the number of weights that multiply a token, without the output layer."""
    total = 0.0
    for name, tensor in file.tensors.items():
        share = 1 if "_exps" not in name or p.experts is None else p.experts.used / p.experts.count
        if len(tensor.shape) > 1 and name not in ("token_embd.weight", "output.weight"):
            total += share * math.prod(tensor.shape)
    return int(total)


def inputs_of(
    function: str, texts: int, count: int, past: int, vocabulary: int, sliding: Sliding | None
) -> dict[str, Any]:
    token = np.random.default_rng(2).integers(0, vocabulary, count).astype(np.int32)
    given: dict[str, Any] = {"token": token, "past": past}
    if function == "decode_batch":
        given |= {"position": np.full(texts, past, np.int32)}
        given |= {f"past_{i}": past for i in range(texts)}
    if sliding is not None:
        given[NEAR] = past if past + count <= sliding.room else sliding.keep
    return given


def compare_logits(session: VulkanSession, path: Path, options: Any, given: Any) -> Any:
    """
    Compares logits after a prompt and after a token with other logits of the same tokens.

    `given` returns the inputs of a run from function, number of new tokens and of past tokens.
    """
    session.reset()
    runs = [("prefill", given("prefill", count=CHECKED, past=0))]
    runs.append(("decode", given("decode", count=1, past=CHECKED)))
    logits = [session.run(name, **inputs)["logits"] for name, inputs in runs]
    if options.logits is not None:
        np.save(options.logits, logits)
    if options.model.startswith("tiny"):
        reference = Session(import_gguf(path, context=2 * CHECKED, cache=options.cache))
        for _, inputs in runs:
            inputs.pop(NEAR, None)
        others = [reference.call(name, **inputs) for name, inputs in runs]
    elif options.like is not None:
        others = np.load(options.like)
    else:
        return None
    pairs = [(np.ravel(a).astype(float), np.ravel(b)) for a, b in zip(logits, others, strict=True)]
    cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs]
    return {"cosine": round(min(cosines), 8), "with": options.like or "interpreter"}


def time_tokens(session: Any, context: int, slots: int, past: int, ahead: bool) -> float:
    """
    Returns the median milliseconds of a round, which appends a token to every text of `past`
    tokens.

    With `ahead`, the next run starts before the host has the token.
    """
    texts, work = Texts(session, context, slots), {DECODE: Work()}
    times: list[float] = []
    warm = time.perf_counter() + WARM_UP
    while len(times) < RUNS:
        # The states of this text have no meaning, but computing with them takes the same time.
        lists = [[0] * (past + 1) for _ in range(slots)]
        for read, tokens in zip(texts.read, lists, strict=True):
            read.replace_from(0, tokens[:-1])
        if isinstance(session, SlidingSession):
            session.dropped = [max(0, past - session.sliding.keep)] * slots
        for _ in range(min(ANSWER, context - past)):
            begin = time.perf_counter()
            given = {slot: (tokens, work) for slot, tokens in enumerate(lists)}
            for slot, prediction in texts.read_last(given, ahead).items():
                lists[slot].append(prediction.likeliest)
            end = time.perf_counter()
            if begin > warm:
                times.append(end - begin)
    return round(statistics.median(times) * 1e3, 4)


def steps_of(texts: list[str]) -> dict[int, list[tuple[str, str, int, int]]]:
    """Maps a number of texts to its steps: (name, function, new tokens, past tokens)."""
    steps: dict[int, list[tuple[str, str, int, int]]] = {}
    for text in texts:
        kind, _, number = text.partition(":")
        if kind.startswith("batch"):
            count = int(kind.removeprefix("batch"))
            steps.setdefault(count, []).append((text, "decode_batch", count, int(number)))
        elif kind == "token":
            steps.setdefault(1, []).append((text, "decode", 1, int(number)))
        elif kind == "prompt":
            steps.setdefault(1, []).append((text, "prefill", int(number), 0))
        else:
            raise SystemExit(f"{text!r} is not a step: use token:P, batchN:P or prompt:N")
    return steps


def compile_file(path: Path, options: Any, context: int, texts: int) -> Program:
    """Compiles a model file, or loads the program that an earlier call kept."""
    named = (options.model, options.format, options.blocks, options.cache, options.window)
    kept = options.keep and options.keep / f"{'-'.join(map(str, named))}-{texts}x{context}"
    if kept and kept.exists():
        return Program.load(kept)
    products = products_for(options.target)
    model = import_gguf(path, context=context, products=products, slots=texts, cache=options.cache)
    program = compile_model(model, options.target, jobs=options.jobs)
    if kept:
        program.save(kept)
    return program


def measure(options: Any, texts: int, steps: list[Any], bandwidth: float | None) -> dict[str, Any]:
    context = max(count if f == "prefill" else past + ANSWER for _, f, count, past in steps)
    record: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        path = Path(folder, "model.gguf")
        write(path, options, context)
        begin = time.perf_counter()
        program = compile_file(path, options, context, texts)
        record[f"compile_s of {texts}"] = round(time.perf_counter() - begin, 1)
        file = read_file(path)
        p = parameters_of(file)
        sliding = Sliding.find(p, context)
        given = partial(inputs_of, texts=texts, vocabulary=p.vocabulary, sliding=sliding)
        if options.compile_only:
            return {}
        with open_device(options.device) as device, VulkanSession(program, device) as session:
            states = session if sliding is None else SlidingSession(session, sliding, texts)
            check = compare_logits(session, path, options, given) if texts == 1 else None
            if check is not None:
                record["check"] = check
                print(json.dumps({"check": check}), flush=True)
            for name, function, count, past in steps:
                inputs = given(function, count=count, past=past)
                result = time_function(device, session, program, function, inputs)
                result["tokens_per_s"] = round(count / result["host_ms"] * 1e3, 1)
                if function != "prefill":
                    for key, ahead in (("answer_ms", False), ("ahead_ms", True)):
                        result[key] = time_tokens(states, context, texts, past, ahead)
                if function == "prefill":
                    result["TFLOPS"] = round(
                        2 * count * count_multiplied(file, p) / device_time(result) / 1e9, 2
                    )
                else:
                    result["bytes"] = read_bytes(file, p, texts, past, options.cache)
                if bandwidth and "bytes" in result:
                    floor = result["bytes"] / bandwidth / 1e9
                    result |= {"floor_ms": round(floor, 4)}
                    result |= {"of_bandwidth": round(floor / device_time(result), 4)}
                record[name] = result
                print(json.dumps({name: result}), flush=True)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--model", choices=MODELS, default="llama-3-8b")
    parser.add_argument("--step", nargs="+", required=True)
    parser.add_argument("--format", choices=FORMATS, default="Q4_1")
    parser.add_argument("--cache", choices=CACHES, default="f16", help="type of keys and values")
    parser.add_argument("--window", type=int, help="tokens of a sliding window; 0 for none")
    parser.add_argument("--logits", help="file for the logits of the compared tokens")
    parser.add_argument("--like", help="file with the logits of the same tokens")
    parser.add_argument("--keep", type=Path, help="folder of compiled programs")
    parser.add_argument("--compile-only", action="store_true", help="compile and keep the program")
    parser.add_argument("--blocks", type=int, help="so many of the model's blocks only")
    parser.add_argument("--bandwidth", type=float, help="TB/s of a copy, if PyTorch is not here")
    parser.add_argument("--jobs", type=int, default=1, help="processes that lower kernels")
    parser.add_argument("--scratch", help="where the model is written; it takes 0.6 bytes a weight")
    options = parser.parse_args(arguments)
    bandwidth = options.bandwidth or (copy_bandwidth() if CUDA else None)
    named = ("model", "format", "blocks", "cache", "window", "target")
    record: dict[str, Any] = {name: getattr(options, name) for name in named}
    record |= {"date": datetime.date.today().isoformat(), "copy_TB_s": bandwidth}
    for texts, steps in steps_of(options.step).items():
        record |= measure(options, texts, steps, bandwidth)
        if options.output is not None:
            options.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(r.get("finite", True) for r in record.values() if isinstance(r, dict)) else 1


if __name__ == "__main__":
    sys.exit(main())
