"""`generate` accepts valid model files and refuses others."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.loading import ModelFile, packaged
from xdsl_spirv.testing.vocabularies import byte_pair_metadata


def test_a_package_stands_for_its_only_model(
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
