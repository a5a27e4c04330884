"""
Loads `xdsl-spirv serve` for hours with many clients, some of which disconnect early.

    python benchmarks/serve_soak.py --minutes 60 --clients 32 --slots 8 --device vulkan

The script serves a random model (or `--model`), sends each request once alone, and then lets all
clients send requests without pause, streamed or not. One client in twenty disconnects after the
first text. An answer must have all requested tokens, and a greedy answer must equal the first
answer to its request. The record contains the least and the largest number of answers of a client,
mean and longest times, the memory, threads and open files of the server's processes over time, and
the counters of `/metrics`. The exit status is 1 if an answer was lost, wrong or refused, or if
requests remain in the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from xdsl_spirv.testing.gguf_models import Shape, write_model
from xdsl_spirv.testing.vocabularies import byte_pair_metadata

openai: Any = import_module("openai")

PROMPTS = ("Hello", "zz top", "The cat", "1 2 3", "One day", "€uro", "abc abc", "So then")
REQUESTS = [
    {"prompt": prompt, "max_tokens": count, "temperature": temperature}
    for prompt in PROMPTS
    for count, temperature in ((5, 0.0), (17, 0.0), (9, 1.0), (24, 0.7))
]
LEAVES = 0.05
"""Share of requests whose client disconnects after the first text."""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--model", help="a GGUF file in place of a random one")
    parser.add_argument("--port", type=int, default=8039)
    parser.add_argument(
        "--through", default=[], type=str.split, help="command prefix of the server's Python"
    )
    parser.add_argument("--out", type=Path, help="write the record there, every minute")
    return parser.parse_args()


@dataclass
class Soak:
    """The clients and their answers."""

    client: Any
    url: str
    process: int
    clients: int
    seconds: float
    out: Path | None
    start: float = 0.0
    alone: list[str] = field(default_factory=list[str])
    times: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    left: int = 0
    drawn: int = 0
    drawn_otherwise: int = 0
    faults: list[str] = field(default_factory=list[str])
    usage: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])

    async def run(self) -> dict[str, Any]:
        self.alone = [await self.ask(number, False) for number in range(len(REQUESTS))]
        self.times = {number: [] for number in range(self.clients)}
        self.start = time.monotonic()
        watch = asyncio.create_task(self.watch())
        await asyncio.gather(*(self.ask_often(number) for number in self.times))
        watch.cancel()
        while self.counters()["requests_active"]:
            await asyncio.sleep(0.1)
        return self.record()

    @property
    def seconds_gone(self) -> float:
        return time.monotonic() - self.start

    async def ask_often(self, number: int) -> None:
        draw = random.Random(number)
        while self.seconds_gone < self.seconds:
            request, begin = draw.randrange(len(REQUESTS)), time.monotonic()
            try:
                if draw.random() < LEAVES:
                    await self.leave(request)
                    continue
                text = await self.ask(request, draw.random() < 0.5)
            except Exception as error:
                self.faults.append(repr(error))
                continue
            self.times[number].append(time.monotonic() - begin)
            differs = text != self.alone[request]
            if REQUESTS[request]["temperature"]:
                self.drawn += 1
                self.drawn_otherwise += differs
            elif differs:
                self.faults.append(f"{REQUESTS[request]}: {text!r}, not {self.alone[request]!r}")

    async def ask(self, number: int, streams: bool) -> str:
        """Returns the text of an answer. Raises `ValueError` if tokens are missing."""
        asked: dict[str, Any] = {"model": "", "seed": number, **REQUESTS[number]}
        if streams:
            options = {"stream": True, "stream_options": {"include_usage": True}}
            parts, end, count = list[str](), None, None
            async for chunk in await self.client.completions.create(**asked, **options):
                for choice in chunk.choices:
                    parts.append(choice.text or "")
                    end = choice.finish_reason or end
                count = chunk.usage.completion_tokens if chunk.usage else count
            text = "".join(parts)
        else:
            reply = await self.client.completions.create(**asked)
            text, end = reply.choices[0].text, reply.choices[0].finish_reason
            count = reply.usage.completion_tokens
        if end not in ("length", "stop") or (end == "length" and count != asked["max_tokens"]):
            raise ValueError(f"{asked}: the answer is incomplete: {count} tokens, end {end}")
        return text

    async def leave(self, number: int) -> None:
        asked: dict[str, Any] = {"model": "", "seed": number, **REQUESTS[number]}
        stream = await self.client.completions.create(**asked, stream=True)
        async for _ in stream:
            break
        await stream.close()
        self.left += 1

    async def watch(self) -> None:
        """Records the server's memory, threads and files, and writes the record, every minute."""
        while True:
            self.usage.append((round(self.seconds_gone), *usage_of(self.process)))
            if self.out is not None:
                self.out.write_text(json.dumps(self.record(), indent=1))
            await asyncio.sleep(60)

    def counters(self) -> dict[str, float]:
        with urlopen(f"{self.url}/metrics") as reply:
            lines = reply.read().decode().splitlines()
        pairs = (line.removeprefix("xdsl_spirv_").rsplit(" ", 1) for line in lines if line)
        return {name: float(value) for name, value in pairs}

    def record(self) -> dict[str, Any]:
        counts = [len(times) for times in self.times.values()]
        means = [statistics.fmean(times) for times in self.times.values() if times]
        return {
            "minutes": round(self.seconds_gone / 60, 2),
            "answers": sum(counts),
            "of_a_client": [min(counts), max(counts)],
            "mean_seconds_of_a_client": [min(means), max(means)] if means else [],
            "longest_seconds": max(map(max, filter(None, self.times.values())), default=0),
            "left": self.left,
            "drawn": self.drawn,
            "drawn_otherwise": self.drawn_otherwise,
            "faults": len(self.faults),
            "first_faults": self.faults[:5],
            "usage": {"seconds, KiB, threads, files": self.usage},
            "counters": self.counters(),
        }


def usage_of(process: int) -> tuple[int, int, int]:
    """Returns KiB in memory, threads and open files of a process and its children."""
    processes, memory, threads, files = [process], 0, 0, 0
    for number in processes:
        place = Path(f"/proc/{number}")
        lines = (line.split(":", 1) for line in (place / "status").read_text().splitlines())
        status = {name: text.split()[0] for name, text in lines if text.split()}
        memory += int(status["VmRSS"])
        threads += int(status["Threads"])
        files += len(list((place / "fd").iterdir()))
        for task in (place / "task").iterdir():
            processes += map(int, (task / "children").read_text().split())
    return memory, threads, files


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        try:
            urlopen(f"{url}/health").close()
            return
        except OSError:
            if server.poll() is not None:
                raise SystemExit(f"the server exited with status {server.returncode}") from None
            time.sleep(1)
    raise SystemExit("the server does not answer within ten minutes")


def main() -> int:
    arguments = parse_arguments()
    url = f"http://127.0.0.1:{arguments.port}"
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or f"{folder}/random.gguf"
        if arguments.model is None:
            values = byte_pair_metadata([])
            count = len(values["tokenizer.ggml.tokens"])
            write_model(model, Shape(vocabulary=count, context=128), values=values)
        options = {"--slots": arguments.slots, "--port": arguments.port, "--context": 128}
        options["--device"] = arguments.device
        command = [
            *arguments.through,
            sys.executable,
            "-m",
            "xdsl_spirv.tools.main",
            "serve",
            model,
        ]
        command += [str(word) for option in options.items() for word in option]
        server = subprocess.Popen(command)
        try:
            wait_for(url, server)
            client = openai.AsyncOpenAI(
                base_url=f"{url}/v1", api_key="none", timeout=600, max_retries=0
            )
            seconds = arguments.minutes * 60
            soak = Soak(client, url, server.pid, arguments.clients, seconds, arguments.out)
            record = asyncio.run(soak.run())
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    text = json.dumps(record, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text)
    waits = record["counters"]["requests_active"] + record["counters"]["requests_waiting"]
    return 1 if record["faults"] or waits else 0


if __name__ == "__main__":
    sys.exit(main())
