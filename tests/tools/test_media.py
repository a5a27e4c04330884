"""Images and text become inputs with the given settings; missing settings are refused."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.tools.media import read_media

Image = pytest.importorskip("PIL.Image")
PIXELS = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
FLOATS = "layout=nchw,channels=rgb,size=exact,mean=0.5/0.25/0,std=2"


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "x.png"
    Image.fromarray(PIXELS).save(path)
    return str(path)


def read(path: str, shape: tuple[Any, ...], image: str | None, type: str = "f32") -> Any:
    arguments = argparse.Namespace(image=image, tokenizer=None)
    return read_media(path, Buffer("x", "input", type, shape), arguments)


def test_a_picture_of_the_right_size(picture: str):
    got = read(picture, (1, 3, 4, 6), FLOATS)
    want = (PIXELS / 255 - np.array([0.5, 0.25, 0])) / 2
    np.testing.assert_allclose(got[0], want.transpose(2, 0, 1), 1e-6)
    assert read(picture, ("n", 3, "h", "w"), FLOATS).shape == (1, 3, 4, 6)


def test_whole_numbers_stay_pixels(picture: str):
    got = read(picture, (4, 6, 3), "layout=hwc,channels=bgr,size=exact", "ui8")
    assert np.array_equal(got, PIXELS[:, :, ::-1])
    gray = read(picture, (4, 6), "layout=hw,channels=gray,size=exact", "ui8")
    assert gray.shape == (4, 6)


@pytest.mark.parametrize("size", ["crop", "stretch"])
def test_images_are_fitted_to_other_sizes(picture: str, size: str):
    how = FLOATS.replace("exact", size)
    assert read(picture, (1, 3, 8, 8), how).shape == (1, 3, 8, 8)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (None, "layout, channels, size, mean, std must be given for 'x'"),
        ("layout=nchw,channels=rgb,size=exact", "mean, std must be given for 'x'"),
        (FLOATS + ",sise=3", "'sise' is not a setting of a picture.*did you mean 'size'"),
        (FLOATS.replace("nchw", "nchv"), "layout=nchv.*did you mean 'nchw'"),
        (FLOATS.replace("nchw", "hwc"), "which does not fit the layout hwc"),
        (FLOATS.replace("rgb", "gray"), "has 3 channels, but gray has 1"),
        (FLOATS.replace("std=2", "std=0"), "std must not be 0"),
        (FLOATS.replace("std=2", "std=1/2"), "one for each of 3 channels"),
    ],
)
def test_missing_settings_are_asked_for(picture: str, image: str | None, message: str):
    with pytest.raises(ProgramError, match=message):
        read(picture, (1, 3, 4, 6), image)


def test_pictures_that_do_not_fit(picture: str, tmp_path: Path):
    with pytest.raises(ProgramError, match="has 6x4 pixels, not 8x8"):
        read(picture, (1, 3, 8, 8), FLOATS)
    (tmp_path / "y.png").write_text("no picture")
    with pytest.raises(ProgramError, match="cannot read the picture"):
        read(str(tmp_path / "y.png"), (1, 3, 4, 6), FLOATS)


def test_text(tmp_path: Path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"a": 0, "race": 1, "?": 2}, unk_token="?")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "x.txt").write_text("a race a\n")
    buffer = Buffer("x", "input", "i64", (1, "n"))
    given = argparse.Namespace(image=None, tokenizer=str(tmp_path / "tokenizer.json"))
    assert read_media(str(tmp_path / "x.txt"), buffer, given).tolist() == [[0, 1, 0]]
    given.tokenizer = None
    with pytest.raises(ProgramError, match=r"give tokenizer .*, too"):
        read_media(str(tmp_path / "x.txt"), buffer, given)
