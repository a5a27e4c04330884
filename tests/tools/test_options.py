"""Options of commands are parsed from their declarations."""

from __future__ import annotations

import argparse

import pytest

from xdsl_spirv.tools.options import Options

TEXT = """
input MODEL optional  a model
-o --output DIR!  where to write it
--form [kernels|graph] default=graph
    one of two forms, in a help
    of two lines
--runs N int default=3  how often (%(default)s)
--dim NAME=SIZE repeat dest=dims  a size (repeat)
--text  a flag
@target! (the best)
"""


def test_options_are_declared_by_a_text():
    parser = argparse.ArgumentParser()
    Options(TEXT, epilog="The end.")(parser)
    given = "model -o out --text --target lavapipe --dim a=1 --dim b=2".split()
    assert vars(parser.parse_args(given)) == {
        "input": "model",
        "output": "out",
        "form": "graph",
        "runs": 3,
        "dims": ["a=1", "b=2"],
        "text": True,
        "target": "lavapipe",
    }
    text = " ".join(parser.format_help().split())
    assert "--form {kernels,graph} one of two forms, in a help of two lines" in text
    assert "how often (3)" in text
    assert "or a target file (the best)" in text
    assert text.endswith("The end.")


@pytest.mark.parametrize("missing", ["--output out", "--target lavapipe"])
def test_options_with_an_exclamation_mark_are_required(missing: str):
    parser = argparse.ArgumentParser()
    Options(TEXT)(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(missing.split())
