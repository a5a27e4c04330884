"""The recipes of docs/onnx.md and docs/pytorch.md give the frameworks' own results."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import xdsl_spirv
from xdsl_spirv.runtime.elements import Array

NEEDED = {"torch": ("onnxscript",), "transformers": ()}


def package(name: str) -> ModuleType:
    """Imports a framework that is too large for minimal environments, or skips."""
    for needed in (name, *NEEDED[name]):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed (pip install {needed.replace('_', '-')})")
    return import_module(name)


def close(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_torch():
    torch = package("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 10),
        torch.nn.LayerNorm(10),
        torch.nn.Softmax(1),
    ).eval()
    x = torch.randn(2, 3, 8, 8)

    exported = torch.export.export(module, (x,))
    program = xdsl_spirv.compile(exported, target="lavapipe")
    y = program(x.numpy())

    close(y, module(x).detach().numpy())
    assert [str(buffer) for buffer in program.manifest.inputs] == ["2x3x8x8xf32"]


@pytest.mark.long
def test_transformers():
    """A static cache of transformers' Llama becomes the states of a session."""
    torch, transformers = package("torch"), package("transformers")

    class Given(transformers.Cache):
        """A cache of given tensors. New keys and values overwrite the token's row."""

        def __init__(self, keys: Any, values: Any, position: Any):
            self.keys, self.values = list(keys), list(values)
            self.here = (torch.arange(keys.shape[3]) == position)[:, None]

        def update(self, key: Any, value: Any, layer: int, kwargs: Any = None) -> Any:
            self.keys[layer] = torch.where(self.here, key, self.keys[layer])
            self.values[layer] = torch.where(self.here, value, self.values[layer])
            return self.keys[layer], self.values[layer]

        def get_seq_length(self, layer: int = 0) -> int:
            return 0

    class Step(torch.nn.Module):
        """A module for one token at a position, without side effects."""

        def __init__(self, model: Any):
            super().__init__()
            self.model = model

        def forward(self, token: Any, position: Any, keys: Any, values: Any) -> Any:
            cache = Given(keys, values, position)
            seen = torch.arange(keys.shape[3]) <= position
            logits = self.model(
                token,
                attention_mask=torch.where(seen, 0.0, -torch.inf)[None, None, None],
                position_ids=position[None],
                cache_position=position,
                past_key_values=cache,
            ).logits
            return logits, torch.stack(cache.keys), torch.stack(cache.values)

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64, vocab_size=48, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    cache = [torch.zeros(1, 1, 2, 16, 8) for _ in range(2)]
    with torch.no_grad():
        exported = torch.export.export(
            Step(model), (torch.tensor([[1]]), torch.tensor([0]), *cache)
        )
    program = xdsl_spirv.compile(
        exported, target="lavapipe", state={"keys": "result1", "values": "result2"}
    )
    tokens = [5, 9, 11]
    expected = model(torch.tensor([tokens])).logits.detach().numpy()
    with program.session("interpreter") as session:
        for position, token in enumerate(tokens):
            results = session.run("main", token=np.array([[token]]), position=np.array([position]))
            close(results["result0"][:, 0], expected[:, position])
