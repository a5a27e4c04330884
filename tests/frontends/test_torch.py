"""PyTorch modules and `torch.compile` give PyTorch's own results."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import xdsl_spirv as xs
from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends import FrontendError, from_torch

MODELS: dict[str, Callable[[Any], tuple[Any, tuple[Any, ...]]]] = {}


def model(make: Callable[[Any], tuple[Any, tuple[Any, ...]]]) -> Any:
    MODELS[make.__name__] = make
    return make


@pytest.fixture(scope="module")
def torch() -> Any:
    for needed in ("torch", "onnxscript", "onnx"):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed (pip install '.[torch]')")
    torch = import_module("torch")
    torch.manual_seed(0)
    return torch


def close(found: Any, expected: Any) -> None:
    expected = expected.detach().numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


@model
def router(torch: ModuleType) -> Any:
    """Returns the gates of a mixture of experts: the best two of four, by `topk` and `scatter`."""

    class Router(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = torch.nn.Linear(16, 4)
            self.experts = torch.nn.Parameter(torch.randn(4, 16, 16) / 4)

        def forward(self, x: Any) -> Any:
            values, best = self.gate(x).topk(2, -1)
            gates = torch.zeros(x.shape[0], 4).scatter(-1, best, values.softmax(-1))
            return torch.einsum("td,edf,te->tf", x, self.experts, gates), gates

    return Router(), (torch.randn(5, 16),)


@model
def residual(torch: ModuleType) -> Any:
    """Returns two blocks of a residual network, the second with a stride."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.a = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm_a, self.norm_b = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
            self.b = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.short = nn.Conv2d(inputs, outputs, 1, stride)

        def forward(self, x: Any) -> Any:
            y = self.norm_b(self.b(torch.relu(self.norm_a(self.a(x)))))
            return torch.relu(y + self.short(x))

    blocks = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Block(8, 8, 1), Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return blocks, (torch.randn(1, 3, 32, 32),)


@model
def inverted_residual(torch: ModuleType) -> Any:
    """Returns a MobileNet block: expansion, depthwise convolution, squeeze and excitation."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.expand = nn.Sequential(nn.Conv2d(8, 24, 1), nn.BatchNorm2d(24), nn.Hardswish())
            self.depth = nn.Conv2d(24, 24, 5, 1, 2, groups=24)
            self.squeeze = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.ReLU(), nn.Conv2d(6, 24, 1),
                nn.Hardsigmoid(),
            )  # fmt: skip
            self.project = nn.Conv2d(24, 8, 1)

        def forward(self, x: Any) -> Any:
            y = self.depth(self.expand(x))
            return x + self.project(y * self.squeeze(y))

    return Block(), (torch.randn(1, 8, 10, 10),)


@model
def encoder(torch: ModuleType) -> Any:
    """Returns a BERT block with embeddings and a mask."""
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(40, 32), nn.Embedding(16, 32)
            self.norm, self.last = nn.LayerNorm(32), nn.LayerNorm(32)
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
            self.feed = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

        def forward(self, ids: Any, mask: Any) -> Any:
            x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
            q, k, v = self.qkv(x).view(*ids.shape, 3, 4, 8).permute(2, 0, 3, 1, 4)
            bias = (1.0 - mask[:, None, None].float()) * -1e9
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = self.last(x + self.out(y.transpose(1, 2).flatten(2)))
            return x + self.feed(x)

    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
    return Encoder(), (torch.randint(0, 40, (2, 9)), mask)


@model
def decoder(torch: ModuleType) -> Any:
    """Returns a GPT-2 block: causal attention, tanh GELU, logits by the embedding's weights."""
    nn = torch.nn

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(40, 32)
            self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
            self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

        def forward(self, ids: Any) -> Any:
            x = self.words(ids)
            q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
            heads = [t.unflatten(-1, (4, 8)).transpose(1, 2) for t in (q, k, v)]
            y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            hidden = nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh")
            return self.norms[2](x + self.down(hidden)) @ self.words.weight.T

    return Decoder(), (torch.randint(0, 40, (1, 7)),)


@model
def recurrent(torch: ModuleType) -> Any:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(6, 8, batch_first=True)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0])

    return Recurrent(), (torch.randn(2, 5, 6),)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "router" else pytest.mark.long) for n in MODELS],
)
def test_modules_give_the_results_of_torch(name: str, torch: ModuleType):
    module, examples = MODELS[name](torch)
    module.eval()
    imported = from_torch(module, examples)
    expected = module(*examples)
    expected = expected if isinstance(expected, tuple) else (expected,)
    values = [tensor.numpy() for tensor in examples]
    named = {value.name: array for value, array in zip(imported.inputs, values, strict=True)}
    assert [value.name for value in imported.outputs] == [
        f"result{n}" for n in range(len(expected))
    ]
    for found, wanted in zip(run_reference(imported, named).values(), expected, strict=True):
        close(found, wanted)
    results = xs.compile(imported, "lavapipe")(*values, device="interpreter")
    for found, wanted in zip(results if len(expected) > 1 else [results], expected, strict=True):
        close(found, wanted)
    assert {node.name.partition(":")[0] for node in imported.nodes if ":" in node.name}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_torch_compile_gives_the_results_of_torch(name: str, torch: ModuleType):
    from xdsl_spirv.torch_backend import EagerGraphWarning, backend

    module, examples = MODELS[name](torch)
    module.eval()
    graphs: list[Any] = []

    def compiler(graph: Any, inputs: Any) -> Any:
        graphs.append(
            backend(graph, inputs, options={"target": "lavapipe", "device": "interpreter"})
        )
        return graphs[-1]

    compiled = torch.compile(module, backend=compiler)
    rnn = torch._dynamo.config.patch(allow_rnn=True)  # PyTorch runs recurrences eagerly by default.
    with rnn, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", EagerGraphWarning)
        found, expected = compiled(*examples), module(*examples)
    for one, other in zip(
        *((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True
    ):
        close(one.numpy(), other)
    assert graphs
    assert all(program is not None for graph in graphs for program in graph.programs.values())


@pytest.mark.long
def test_a_refused_graph_runs_eagerly_and_says_why(torch: ModuleType):
    from xdsl_spirv.torch_backend import EagerGraphWarning, backend

    def solve(a: Any) -> Any:
        return torch.linalg.inv(a)

    options: dict[str, Any] = {"target": "lavapipe", "device": "interpreter"}
    a = torch.eye(3) * 2
    compiled = torch.compile(solve, backend=backend, options=options)
    with pytest.warns(EagerGraphWarning, match="the graph runs eagerly: "):
        found = compiled(a)
    close(found.numpy(), torch.linalg.inv(a))
    with pytest.raises(Exception, match="linalg"):
        torch.compile(solve, backend=backend, options=options | {"fallback": False}, dynamic=False)(
            a
        )


@pytest.mark.long
def test_gradients_and_changed_parameters(torch: ModuleType):
    from xdsl_spirv.torch_backend import EagerGraphWarning, backend

    module, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    options = {"target": "lavapipe", "device": "interpreter"}
    compiled = torch.compile(module, backend=backend, options=options)
    with pytest.warns(EagerGraphWarning, match=r"gradients.*torch\.no_grad"):
        compiled(x).sum().backward()
    assert module.weight.grad is not None
    with torch.no_grad():
        close(compiled(x).numpy(), module(x))
        module.weight.mul_(2.0)
        close(compiled(x).numpy(), module(x))


@pytest.mark.long
def test_open_sizes_and_states(torch: ModuleType):
    class Sum(torch.nn.Module):
        def forward(self, x: Any, total: Any) -> Any:
            return x * 2, total + x.sum(0)

    batch = torch.export.Dim("batch")
    examples = (torch.randn(2, 4), torch.zeros(4))
    imported = from_torch(
        Sum(), examples, dynamic_shapes=({0: batch}, None), state={"total": "result1"}
    )
    program = xs.compile(imported, "lavapipe")
    x = np.ones((7, 4), np.float32)
    with program.session("interpreter") as session:
        session.run("main", x=x)
        close(session.run("main", x=x)["result0"], torch.full((7, 4), 2.0))


@pytest.mark.long
def test_one_program_takes_any_batch(torch: ModuleType):
    from xdsl_spirv.torch_backend import backend

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            y = self.attention(x, x, x, need_weights=False)[0]
            return (x + y).reshape(x.shape[0] * x.shape[1], 16)

    graphs: list[Any] = []

    def compiler(graph: Any, inputs: Any) -> Any:
        options = {"target": "lavapipe", "device": "interpreter", "fallback": False}
        graphs.append(backend(graph, inputs, options=options))
        return graphs[-1]

    module = Attention().eval()
    compiled = torch.compile(module, backend=compiler)
    with torch.no_grad():
        for batch in (1, 2, 5, 7):
            x = torch.randn(batch, 3, 16)
            close(compiled(x).numpy(), module(x))
    assert [len(graph.programs) for graph in graphs] == [1, 1]


@pytest.mark.long
def test_refusals_name_their_line(torch: ModuleType):
    class Inverse(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            return torch.linalg.inv(a)

    class InPlace(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x + self.count

    with pytest.raises(FrontendError, match=r"linalg.*test_torch\.py:\d+"):
        from_torch(Inverse(), (torch.eye(3),))
    with pytest.raises(FrontendError, match="changes 'count' in place"):
        from_torch(InPlace(), (torch.zeros(1),))


def test_wrong_models_of_pytorchs_exporter_are_refused(torch: ModuleType):
    class Strided(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.as_strided(x.T, (3, 2), (2, 1))

    class Power(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x**y

    with pytest.raises(FrontendError, match=r"as_strided of a view.*test_torch\.py:\d+"):
        from_torch(Strided(), (torch.ones(2, 3),))
    with pytest.raises(FrontendError, match=r"writes result0: 2xi32, .* returns result0: 2xf32"):
        from_torch(Power(), (torch.ones(2, dtype=torch.int32), torch.ones(2)))


def test_a_result_may_be_a_size(torch: ModuleType):
    class Count(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.shape[0] * 2, x + 1

    shapes = {"x": {0: torch.export.Dim("n")}}
    model = from_torch(Count(), (torch.ones(3),), dynamic_shapes=shapes)
    results = run_reference(model, {"x": np.ones(5, np.float32)})
    assert int(results["result0"]) == 10
    assert results["result1"].tolist() == [2] * 5


def test_the_backend_is_found_by_its_name():
    from xdsl_spirv import torch_backend

    path = Path(__file__).resolve().parents[2] / "pyproject.toml"
    points = tomllib.loads(path.read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    module, _, name = points["xdsl_spirv"].partition(":")
    assert getattr(import_module(module), name) is torch_backend.backend


@pytest.mark.parametrize("kept", [slice(None, -1), slice(1, None)])
def test_a_sink_beside_the_scores_is_a_part_of_attention(torch: ModuleType, kept: slice):
    """gpt-oss appends the sink to the scores and removes it after the softmax."""

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sinks = torch.nn.Parameter(torch.randn(4))

        def forward(self, query: Any, key: Any, value: Any, mask: Any) -> Any:
            scores = torch.matmul(query, key.transpose(2, 3)) * 0.25 + mask
            sinks = self.sinks.reshape(1, -1, 1, 1).expand(1, -1, query.shape[-2], -1)
            scores = torch.cat([scores, sinks], dim=-1)
            scores = scores - scores.max(dim=-1, keepdim=True).values
            probabilities = torch.nn.functional.softmax(scores, dim=-1, dtype=scores.dtype)
            return torch.matmul(probabilities[..., kept], value)

    torch.manual_seed(0)
    module, shape = Attention().eval(), (1, 4, 21, 16)
    mask = torch.triu(torch.full((1, 1, 21, 21), -torch.inf), diagonal=1)
    examples = (*(torch.randn(shape) for _ in range(3)), mask)
    n = torch.export.Dim("n", min=2, max=64)
    sizes = ({2: n}, {2: n}, {2: n}, {2: n, 3: n})
    program = xs.compile(from_torch(module, examples, dynamic_shapes=sizes), "lavapipe")
    names = [layer.entry_point for layer in program.layers]
    is_one = [name.partition("_")[0] for name in names] == ["attention"]
    assert is_one == (kept.start is None), names
    values = [tensor.numpy() for tensor in examples]
    close(program(*values, device="interpreter"), module(*examples))
