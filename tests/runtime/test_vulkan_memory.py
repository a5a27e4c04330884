"""Buffers with overlapping lifetimes do not overlap in memory. Other buffers share memory."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xdsl_spirv.runtime.vulkan.loaded import barriers
from xdsl_spirv.runtime.vulkan.memory import Item, arrange, readable
from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer

LIVES = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: (min(pair), max(pair))),
)
ITEMS = st.lists(
    st.tuples(st.integers(1, 5000), st.sampled_from([4, 16, 256]), LIVES), max_size=25
).map(lambda rows: [Item(str(i), *row) for i, row in enumerate(rows)])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ITEMS, st.integers(1, 8000))
def test_live_buffers_do_not_overlap(items: list[Item], capacity: int):
    places, blocks = arrange(items, capacity)
    assert set(places) == {item.name for item in items}
    for item in items:
        place = places[item.name]
        assert place.size == item.size
        assert place.offset % item.alignment == 0
        assert place.offset + place.size <= blocks[place.block]
        for other in items:
            if other is not item and item.meets(other):
                further = places[other.name]
                apart = place.offset + place.size <= further.offset
                apart |= further.offset + further.size <= place.offset
                assert apart or place.block != further.block
    largest = max((item.size for item in items), default=0)
    assert all(size <= max(capacity, largest) for size in blocks)


def test_a_chain_of_temporaries_takes_the_memory_of_two():
    chain = [Item(str(i), 1000, 8, (i, i + 1)) for i in range(10)]
    _, blocks = arrange(chain, 1 << 20)
    assert blocks == [2000]


def _work(*steps: tuple[str, ...]) -> Work:
    names = sorted({name for step in steps for name in step})
    kinds = {"i": "input", "w": "weight", "o": "output", "t": "temporary"}
    return Work(
        buffers=tuple(WorkBuffer(n, 4, kinds[n[0]]) for n in names),  # pyright: ignore[reportArgumentType]
        kernels={},
        steps=tuple(
            Step("k", "main", (1, 1, 1), tuple((0, i, n) for i, n in enumerate(step)))
            for step in steps
        ),
    )


def _alone(name: str) -> list[str]:
    return [name]


def test_a_barrier_separates_steps_that_access_one_buffer():
    chain = _work(("i0", "t0"), ("i0", "o0"), ("t0", "o1"), ("w0", "o2"), ("o1", "o3"))
    # The third step reads t0, the fourth reads no shared buffer, the fifth reads o1.
    assert barriers(chain, _alone) == [False, False, True, False, True]


def test_a_barrier_separates_steps_whose_buffers_share_memory():
    chain = _work(("i0", "t0"), ("t0", "o0"), ("i0", "t1"))
    shared = {"t0": ["t0", "t1"], "t1": ["t0", "t1"]}
    assert barriers(chain, lambda name: shared.get(name, [name])) == [False, True, True]
    assert barriers(chain, _alone) == [False, True, False]


def test_temporaries_live_from_their_first_to_their_last_step():
    chain = _work(("i0", "t0"), ("t0", "t1"), ("t0", "t2"), ("t2", "o0"))
    assert chain.lifetimes() == {"t0": (0, 2), "t1": (1, 1), "t2": (2, 3)}


def test_sizes_are_readable():
    assert [readable(n) for n in (12, 4096, 3 << 20, 5 << 30)] == [
        "12 bytes",
        "4 KiB",
        "3 MiB",
        "5 GiB",
    ]
