"""Searches several contractions concurrently, so that proposals and measurements overlap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from xdsl_spirv.passes.analysis.contraction import NotAContraction
from xdsl_spirv.passes.schedule.assign_schedule import choose
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.paths import ROTATE, ROWS, Decisions
from xdsl_spirv.passes.schedule.tuned import key_of
from xdsl_spirv.targets import load
from xdsl_spirv.tools.tuning.candidates import Source, contractions_of
from xdsl_spirv.tools.tuning.results import Outcome
from xdsl_spirv.tools.tuning.search import Bench, Learned, Options, Search


def sources_of(
    text: str, target: str, weights: tuple[str, ...], say: Callable[[str], None]
) -> list[Source]:
    """Returns the distinct contractions of a module that have schedules to search."""
    device = load(target)
    sources: dict[str, Source] = {}
    for contraction in contractions_of(text, target, weights):
        key = key_of(contraction)
        try:
            path = choose(contraction, device, Decisions(), (ROTATE, ROWS)).path
            say(f"{key}: uses the path {path}, which has no schedules to tune")
        except (ScheduleDoesNotFit, NotAContraction):
            sources.setdefault(key, Source(text, target, key, weights))
    return list(sources.values())


@dataclass
class Together:
    """
    Runs searches that share what they learn, `at_once` at a time.

    `seconds` limits the time of all searches; each search gets a part of the remaining time.
    """

    bench_of: Callable[[Source], Bench]
    options: Options
    say: Callable[[str], None] = lambda text: None
    at_once: int = 1
    seconds: float | None = None
    learned: Learned = field(default_factory=Learned)
    searches: dict[str, Search] = field(default_factory=dict[str, Search])

    def run(self, sources: Sequence[Source]) -> Mapping[str, list[Outcome]]:
        """Searches each contraction, and returns the outcomes by key."""
        end = None if self.seconds is None else time.monotonic() + self.seconds
        left = len(sources)
        lock = threading.Lock()
        outcomes: dict[str, list[Outcome]] = {}

        def search(source: Source) -> None:
            nonlocal left
            with lock:
                lines, left = max(1.0, left / self.at_once), left - 1
            options = self.options
            if end is not None:
                remaining = end - time.monotonic()
                if remaining <= 0:
                    self.say(f"{source.key}: no time is left")
                    return
                limit = min(remaining / lines, options.seconds or remaining)
                options = replace(options, seconds=limit)
            one = Search(source, self.bench_of(source), options, self.learned, self.say)
            self.searches[source.key] = one
            outcomes[source.key] = one.run()

        if self.at_once == 1:
            for source in sources:
                search(source)
        else:
            with ThreadPoolExecutor(self.at_once) as pool:
                begun = [pool.submit(search, source) for source in sources]
                try:
                    wait(begun, return_when=FIRST_EXCEPTION)
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)
                for one in begun:
                    if one.done() and not one.cancelled():
                        one.result()
        return {s.key: outcomes[s.key] for s in sources if s.key in outcomes}
