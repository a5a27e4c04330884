"""
Compiles modules of torchvision and transformers by `torch.compile`, and checks their results.

    python benchmarks/torch_modules.py [NAME ...]    random weights, compiled for lavapipe
    python benchmarks/torch_modules.py --inductor    inductor's time to compile, too

A row contains `right` (within 2e-3 of the largest element), `refused` with the first reason, or
`WRONG`, and the compile time: seconds of the first call minus seconds of the second. The exit
status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torchvision.models as vision
import transformers as tf

from xdsl_spirv.torch_backend import backend

MODULES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}
IMAGE = (1, 3, 64, 64)


def images(name: str, make: Callable[..., Any], shape: tuple[int, ...] = IMAGE) -> None:
    MODULES[name] = lambda: (make(weights=None), (torch.randn(shape),))


images("ResNet-18", vision.resnet18)
images("MobileNet v2", vision.mobilenet_v2)
images("MobileNet v3 small", vision.mobilenet_v3_small)
images("SqueezeNet 1.1", vision.squeezenet1_1)
images("ShuffleNet v2", vision.shufflenet_v2_x0_5)
images("EfficientNet B0", vision.efficientnet_b0)
images("RegNet Y 400MF", vision.regnet_y_400mf)
images("DenseNet-121", vision.densenet121)
images("ConvNeXt tiny", vision.convnext_tiny)
images("ViT B/32", vision.vit_b_32, (1, 3, 224, 224))
images("Swin tiny", vision.swin_t)

SMALL: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "vocab_size": 100,
}  # fmt: skip
TOKENS = torch.arange(24).reshape(2, 12) % 90


class First(torch.nn.Module):
    """Wraps a model, and returns the first tensor of its results."""

    def __init__(self, model: Any, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: Any) -> Any:
        return self.model(x, return_dict=False, **self.options)[0]


def with_batched_experts(config: Any) -> Any:
    """Sets a configuration so that experts use batched products, which PyTorch can export."""
    config._experts_implementation = "batched_mm"
    return config


def texts(name: str, make: Callable[[], Any], x: Any = TOKENS, **options: Any) -> None:
    MODULES[name] = lambda: (First(make(), **options), (x,))


texts("BERT", lambda: tf.BertModel(tf.BertConfig(**SMALL)))
texts("GPT-2", lambda: tf.GPT2LMHeadModel(tf.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100)), use_cache=False)  # fmt: skip # noqa: E501
texts("Llama", lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SMALL, num_key_value_heads=2)), use_cache=False)  # fmt: skip # noqa: E501
texts("Mixtral (experts)", lambda: tf.MixtralForCausalLM(tf.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)), use_cache=False)  # fmt: skip # noqa: E501
texts("Mixtral, batched experts", lambda: tf.MixtralForCausalLM(with_batched_experts(tf.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4))), use_cache=False)  # fmt: skip # noqa: E501
texts("T5 encoder", lambda: tf.T5EncoderModel(tf.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100)))  # fmt: skip # noqa: E501
texts("DistilBERT", lambda: tf.DistilBertModel(tf.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=100)))  # fmt: skip # noqa: E501
texts("Whisper encoder", lambda: tf.WhisperModel(tf.WhisperConfig(d_model=64, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=50, vocab_size=100, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)).encoder, torch.randn(1, 80, 100))  # fmt: skip # noqa: E501


class LSTM(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True)

    def forward(self, x: Any) -> Any:
        return self.lstm(x)[0]


MODULES["LSTM"] = lambda: (LSTM(), (torch.randn(2, 10, 16),))
MODULES["DeepLab head"] = lambda: (
    vision.segmentation.deeplabv3.DeepLabHead(64, 5), (torch.randn(1, 64, 16, 16),)
)  # fmt: skip


def time_compilation(compiled: Any, inputs: tuple[Any, ...]) -> tuple[Any, float]:
    """Returns the results, and the seconds of the first call minus the second call's."""
    torch._dynamo.reset()
    times = [time.monotonic()]
    for _ in range(2):
        result = compiled(*inputs)
        times.append(time.monotonic())
    return result, times[1] - times[0] - (times[2] - times[1])


def judge(name: str, inductor: bool) -> tuple[str, float, float]:
    """Returns a module's verdict, and the seconds that we and inductor take to compile it."""
    torch.manual_seed(0)
    module, inputs = MODULES[name]()
    module = module.eval()
    for parameter in module.parameters():
        if (
            not parameter.any()
        ):  # torchvision initializes heads with zeros, which would hide errors of the other layers.
            torch.nn.init.normal_(parameter, std=0.02)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected = module(*inputs)
        seconds = time_compilation(torch.compile(module), inputs)[1] if inductor else 0.0
        options = {"target": "lavapipe", "device": "interpreter"}
        compiled = torch.compile(module, backend=backend, options=options)
        result, own = time_compilation(compiled, inputs)
    said = [str(w.message) for w in caught if type(w.message).__name__ == "EagerGraphWarning"]
    difference = float((result - expected).abs().max() / expected.abs().max())
    if not difference < 2e-3:
        return f"WRONG: {difference:.3g}", own, seconds
    return (f"refused: {said[0]}" if said else f"right ({difference:.1g})"), own, seconds


def main() -> int:
    """Prints a row of Markdown for each module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("names", nargs="*", help="modules; all by default")
    parser.add_argument("--inductor", action="store_true", help="time inductor, too")
    options = parser.parse_args()
    torch._dynamo.config.allow_rnn = True
    wrong = 0
    for name in options.names or MODULES:
        try:
            verdict, own, seconds = judge(name, options.inductor)
        except Exception as error:
            verdict, own, seconds = f"{type(error).__name__}: {str(error)[:200]}", 0.0, 0.0
        wrong += verdict.startswith("WRONG")
        print(f"| {name} | {verdict} | {own:.1f} | {seconds:.1f} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
