"""`generate` accepts valid model files and refuses others."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compiler import kept as kept_programs
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.loading import ModelFile, Place, packaged
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import Function
from xdsl_spirv.runtime.memory import list_kept
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing import hand_made_program
from xdsl_spirv.testing.vocabularies import byte_pair_metadata


def test_a_package_name_selects_its_only_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some_model-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: some-model\nVersion: 1\n")
    (folder / "RECORD").write_text("some_model/x.gguf,,\nsome_model/__init__.py,,\n")
    (tmp_path / "some_model").mkdir()
    for name in ("x.gguf", "__init__.py"):
        (tmp_path / "some_model" / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert packaged("some-model") == str(tmp_path / "some_model" / "x.gguf")
    for name in ("no-such-model", "numpy", "folder/some-model", ""):
        assert packaged(name) == name


def test_a_vocabulary_that_does_not_fit_the_embedding_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("gguf")
    from xdsl_spirv.testing.gguf_models import Shape, write_model

    metadata = byte_pair_metadata([])
    count = len(metadata["tokenizer.ggml.tokens"])
    path = tmp_path / "x.gguf"
    write_model(path, Shape(vocabulary=count), values=metadata)
    assert ModelFile.read(path).parameters.vocabulary == count
    write_model(path, Shape(vocabulary=count + 3), values=metadata)
    with pytest.raises(
        FrontendError, match=f"{count} tokens, but token_embd.weight has {count + 3} rows"
    ) as error:
        ModelFile.read(path)
    assert "x.gguf" in error.value.place


def test_packed_copies_of_weights_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled program tells how often its weights are in memory; the file does not."""
    one = hand_made_program.program(np.ones(hand_made_program.COUNT, np.float32))
    names = [field.name for field in fields(Function)]
    verify = Function(**{name: getattr(one.manifest, name) for name in names})
    twice = replace(one.manifest, functions=(replace(verify, function="verify"),))
    program = Program(twice, one.code, one.weights)
    size = 4 * hand_made_program.COUNT
    assert list_kept(one) == {"weights": size, "packed": size, "states": 0}
    assert list_kept(program) == {"weights": size, "packed": 2 * size, "states": 0}

    monkeypatch.setattr(kept_programs, "load", lambda path: program)
    file = ModelFile("x.gguf", None, None, 64, size, "f16")  # pyright: ignore
    place = Place("vulkan:0", "lavapipe", 3 * size, "a small device")

    def load(place: Place, *beside: Program) -> Program:
        return file.program(place, lambda _: None, kept=False, beside=beside)

    assert load(place) is program
    assert load(replace(place, memory=5 * size), one) is program
    assert load(replace(place, memory=None), one) is program
    for small, others, packed in [
        (replace(place, memory=3 * size - 1), (), 2 * size),
        (replace(place, memory=5 * size - 1), (one,), 3 * size),
    ]:
        with pytest.raises(ProgramError, match=f"packed for kernels take {packed}, ") as error:
            load(small, *others)
        assert error.value.place == "a small device"
