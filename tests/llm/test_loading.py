"""What `generate` takes for a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdsl_spirv.llm.loading import packaged


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
