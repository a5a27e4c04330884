"""A cached program is found for equal inputs of its compilation, and for no others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compiler import compile
from xdsl_spirv.compiler import kept as cache
from xdsl_spirv.runtime.caches import VARIABLE, cache_folder
from xdsl_spirv.runtime.program import Program

SCALE = """
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %empty = tensor.empty() : tensor<16xf32>
  %y = linalg.add ins(%x, %x : tensor<16xf32>, tensor<16xf32>)
                  outs(%empty : tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    source = tmp_path_factory.mktemp("source") / "scale.mlir"
    source.write_text(SCALE)
    return compile(source, "lavapipe")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "programs"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "HEAD", 1000)
    path = tmp_path / "model.gguf"
    path.write_bytes(np.random.default_rng(0).bytes(1_000_000))
    return path


def kept(model: Path, target: str = "lavapipe", context: int = 64) -> Path:
    path = cache.path_for(model, target, {"context": context})
    assert path is not None
    return path


def test_a_cached_program_is_loaded(model: Path, folder: Path, program: Program):
    path = kept(model)
    assert path.parent == folder
    assert cache.load(path) is None
    assert cache.keep(path, program) == ""
    loaded = cache.load(kept(model))
    assert loaded is not None
    x = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(loaded(x), 2 * x)


def test_other_options_or_contents_give_another_program(model: Path, tmp_path: Path):
    paths = [kept(model), kept(model, context=65), kept(model, "nvidia-h200")]
    status = model.stat()
    data = bytearray(model.read_bytes())
    # Changes a part of each sample after the header, and keeps the file's size and time.
    for sample in range(cache.SAMPLES):
        data[len(data) * sample // cache.SAMPLES] ^= 1
    data[: cache.HEAD] = model.read_bytes()[: cache.HEAD]
    model.write_bytes(data)
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
    paths.append(kept(model))
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    paths.append(kept(model))
    assert len(set(paths)) == 5


def test_a_target_is_identified_by_its_contents_without_the_date(model: Path, tmp_path: Path):
    source = (Path(cache.__file__).parents[1] / "targets/lavapipe.json").read_text()
    paths: list[Path] = []
    for name, text in {
        "same": source,
        "later": source.replace('"date": "', '"date": "later '),
        "other": source.replace('"max_invocations": ', '"max_invocations": 1'),
    }.items():
        file = tmp_path / f"{name}.json"
        file.write_text(text)
        paths.append(kept(model, str(file)))
    assert paths[0] == paths[1] == kept(model)
    assert paths[2] != paths[0]


def test_a_damaged_program_is_compiled_again(model: Path, program: Program):
    path = kept(model)
    cache.keep(path, program)
    (path / "program.json").write_text("{")
    assert cache.load(path) is None
    assert cache.keep(path, program) == ""
    assert cache.load(path) is not None


def test_a_failed_write_is_reported_and_leaves_no_file(
    model: Path, folder: Path, program: Program, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Program, "_write", fail)
    assert "No space left" in cache.keep(kept(model), program)
    assert list(folder.iterdir()) == []


def test_no_program_is_cached_if_little_space_is_free(
    model: Path, folder: Path, program: Program, monkeypatch: pytest.MonkeyPatch
):
    weights = {"w": np.zeros(1000, np.float32)}
    large = Program(program.manifest, program.code, weights)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 7999}))  # pyright: ignore
    assert "7,999 bytes are free" in cache.keep(kept(model), large)
    assert list(folder.iterdir()) == []


def test_the_least_recently_used_program_is_removed(model: Path, folder: Path, program: Program):
    paths = [kept(model, context=i + 1) for i in range(cache.MOST + 1)]
    start = time.time()
    for i, path in enumerate(paths[:-1]):
        cache.keep(path, program)
        os.utime(path, (start, start - 100 + i))
    cache.load(paths[0])
    cache.keep(paths[-1], program)
    assert [path.exists() for path in paths] == [True, False, *[True] * (cache.MOST - 1)]


def test_the_cache_can_be_emptied(model: Path, folder: Path, program: Program):
    assert cache.empty() == (0, 0)
    cache.keep(kept(model), program)
    count, size = cache.empty()
    assert count == 1
    assert size > 1000
    assert list(folder.iterdir()) == []


def test_the_cache_can_be_turned_off(
    model: Path, program: Program, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, "0")
    path = cache.path_for(model, "lavapipe", {})
    assert path is None
    assert cache.keep(path, program) == ""
    assert cache.load(path) is None
    assert cache.empty() == (0, 0)


def test_the_default_folder_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder(cache.NAME) == Path("/somewhere/xdsl-spirv/programs")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/users/me")
    assert cache_folder(cache.NAME) == Path("/users/me/.cache/xdsl-spirv/programs")
