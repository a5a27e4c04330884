"""Tokens are sampled from the requested distribution."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from xdsl_spirv.llm.sampling import Sampler, Sampling, distribution
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.numpy_session import predict_by

LOGITS = np.array([1.0, 3.0, -2.0, 3.0, 0.5, -math.inf, 2.25, 1.0], np.float32)


def expected_distribution(
    logits: np.ndarray, temperature: float, top_k: int | None, top_p: float | None
) -> dict[int, float]:
    """Computes the probabilities token by token with exact sums."""
    weights = {i: math.exp(float(logit) / temperature) for i, logit in enumerate(logits)}
    order = sorted(weights, key=lambda i: (-weights[i], i))[:top_k]
    total = math.fsum(weights[i] for i in order)
    kept: list[int] = []
    for token in order:
        if top_p not in (None, 1) and math.fsum(weights[i] for i in kept) >= top_p * total:
            break
        kept.append(token)
    total = math.fsum(weights[i] for i in kept)
    return {i: weights[i] / total for i in kept if weights[i]}


@pytest.mark.parametrize("temperature", [0.1, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("top_k", [None, 1, 2, 3, 8, 100])
@pytest.mark.parametrize("top_p", [None, 1e-9, 0.3, 0.5, 0.9, 1.0])
def test_the_distribution_equals_its_definition(
    temperature: float, top_k: int | None, top_p: float | None
):
    generator = np.random.default_rng(0)
    for logits in (LOGITS, generator.normal(0, 4, 50).astype(np.float32), np.zeros(9, np.float32)):
        sampling = Sampling(temperature, top_k, top_p)
        tokens, probabilities = distribution(logits, sampling)
        actual = {int(t): p for t, p in zip(tokens, probabilities, strict=True) if p}
        expected = expected_distribution(logits, temperature, top_k, top_p)
        assert actual.keys() == expected.keys()
        np.testing.assert_allclose([actual[t] for t in expected], list(expected.values()), 1e-12)


def test_samples_have_the_frequencies_of_the_distribution():
    sampling = Sampling(0.8, top_k=6, top_p=0.97, seed=3)
    sampler = Sampler(sampling)
    count = 4_000
    drawn = Counter(sampler.choose(predict_by(LOGITS)) for _ in range(count))
    expected = expected_distribution(LOGITS, 0.8, 6, 0.97)
    assert drawn.keys() == expected.keys()
    for token, probability in expected.items():
        # The tolerance is five standard deviations.
        tolerance = 5 * math.sqrt(count * probability * (1 - probability))
        assert abs(drawn[token] - count * probability) < tolerance


def test_a_seed_gives_the_same_tokens_again():
    def draws(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(1.5, seed=seed))
        return [sampler.choose(predict_by(LOGITS)) for _ in range(40)]

    assert draws(7) == draws(7)
    assert draws(7) != draws(8)
    unseeded = Sampler(Sampling(1.5))
    first = [unseeded.choose(predict_by(LOGITS)) for _ in range(40)]
    assert first == draws(unseeded.seed)


def test_without_a_temperature_the_likeliest_is_taken():
    sampler = Sampler(Sampling())
    assert {sampler.choose(predict_by(LOGITS)) for _ in range(5)} == {1}
    assert sampler.seed is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, top_k=2)])
def test_logits_that_are_not_finite_are_refused(value: float, sampling: Sampling):
    logits = LOGITS.copy()
    logits[4] = value
    with pytest.raises(ProgramError, match="the highest logit is"):
        Sampler(sampling).choose(predict_by(logits))


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"temperature": 1.0, "top_k": 0}, "top_k is 0"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p is 0"),
        ({"temperature": 1.0, "top_p": 1.5}, "top_p is 1.5"),
        ({"temperature": 1.0, "seed": -1}, "seed is -1"),
        ({"top_k": 5}, "top_k has no effect at temperature 0"),
        ({"seed": 5}, "seed has no effect at temperature 0"),
    ],
)
def test_invalid_settings_are_refused(values: dict[str, float], cause: str):
    with pytest.raises(ProgramError, match=cause):
        Sampling(**values)  # pyright: ignore[reportArgumentType]
