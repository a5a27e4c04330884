"""Sessions of programs with states and several functions keep, save and load states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import PLAIN
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.session import Session
from xdsl_spirv.testing.state_programs import (
    FUNCTIONS,
    MAPS,
    WEIGHT,
    compiled,
    expected,
    rows,
    scores,
)


@pytest.fixture(scope="module")
def program() -> Program:
    return compiled()


@pytest.fixture
def session(program: Program) -> Iterator[Session]:
    with program.session() as session:
        yield session


STEPS = (("prefill", 5), ("decode", 1), ("decode", 1), ("prefill", 3), ("prefill", 0))


def assert_steps(session: Session, checks: bool) -> None:
    """Checks that several runs give numpy's results and leave numpy's state."""
    cache, past = np.zeros((32, 8), "f4"), 0
    for function, n in STEPS:
        x = rows(n, past)
        sanitizer = Checks.of("all") if checks else None
        (result,) = session.run(function, x=x, past=past, checks=sanitizer).values()
        assert sanitizer is None or not sanitizer.report.findings, str(sanitizer.report)
        np.testing.assert_allclose(result, expected(cache, x, past), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session.state()["k"], cache, rtol=1e-5, atol=1e-6)
        past += n


def test_runs_share_the_state(session: Session) -> None:
    assert_steps(session, checks=True)
    session.reset()
    assert not session.state()["k"].any()
    assert_steps(session, checks=False)


def test_a_dictionary_in_the_wrong_place_is_refused(session: Session, program: Program) -> None:
    given = {"x": rows(4), "past": 0}
    with pytest.raises(ProgramError, match=r"write run\(\*\*inputs\)"):
        session.run(given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ProgramError, match=r"write program\(\*\*inputs\)"):
        program.function("prefill")(given)


def test_results_can_be_read_after_a_run(session: Session) -> None:
    given = {"x": rows(4), "past": 0}
    (wanted,) = session.run("prefill", given).values()
    with pytest.raises(ProgramError, match="'decode' has not run"):
        session.read("decode", "result0")
    session.reset()
    assert session.run("prefill", given, outputs=()) == {}
    np.testing.assert_array_equal(session.read("prefill", "result0"), wanted)
    np.testing.assert_array_equal(session.read("prefill", "result0", 1, 2), wanted[1:3])
    with pytest.raises(ProgramError, match="there is no result 'result1'"):
        session.run("prefill", given, outputs=["result1"])


def test_functions_share_weights_and_states(program: Program) -> None:
    assert program.manifest.version == PLAIN
    assert list(program.weights) == ["w"]
    for function in program.functions.values():
        kinds = {buffer.name: buffer.kind for buffer in function.manifest.buffers}
        assert (kinds["w"], kinds["k"], kinds["past"]) == ("weight", "state", "scalar")
        assert [buffer.name for buffer in function.manifest.outputs] == ["result0"]
        assert len(function.layers) == len(function.manifest.dispatches)


def test_a_kernel_writes_only_what_is_new(program: Program) -> None:
    decode = program.functions["decode"].manifest
    (writer, *_) = [d for d in decode.dispatches if any(b.buffer == "k" for b in d.bindings)]
    assert decode.dispatches.index(writer) == 1
    assert writer.grid == (1, 1, 1)
    assert not any(b.kind == "temporary" and b.shape == (32, 8) for b in decode.buffers)


def test_a_program_is_saved_with_its_functions(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "program")
    loaded = Program.load(tmp_path / "program")
    assert loaded.manifest == program.manifest
    with loaded.session() as session:
        assert_steps(session, checks=False)


def test_a_state_outlives_its_session(program: Program, session: Session, tmp_path: Path) -> None:
    session.run("prefill", x=rows(4), past=0)
    session.save(tmp_path / "state")
    (wanted,) = session.run("decode", x=rows(1), past=4).values()
    with program.session() as other:
        other.load(tmp_path / "state")
        (result,) = other.run("decode", x=rows(1), past=4).values()
    np.testing.assert_array_equal(result, wanted)


def test_a_first_value_of_several_numbers_is_kept(tmp_path: Path) -> None:
    first = np.arange(32 * 8, dtype="f4").reshape(32, 8)
    text = f"dense<{first.tolist()}>"
    compiled(first=text).save(tmp_path / "program")
    with Program.load(tmp_path / "program").session() as session:
        np.testing.assert_array_equal(session.state()["k"], first)
        session.run("decode", x=rows(1), past=0)
        session.reset()
        np.testing.assert_array_equal(session.state()["k"], first)


@pytest.mark.parametrize(
    ("function", "inputs", "message"),
    [
        ("decode", {"x": rows(1), "past": 32}, "past . 1 is 33, but must be at most 32"),
        ("prefill", {"x": rows(9), "past": 30}, "past . n is 39, but must be at most 32"),
        ("decode", {"x": rows(1)}, "the input 'past' is missing"),
        ("decode", {"x": rows(2), "past": 0}, "'x' must be 1x8xf32"),
        ("decode", {"x": rows(1), "past": 0, "k": rows(32)}, "there is no input 'k'"),
        ("encode", {}, "there is no function 'encode'"),
        (None, {}, "no function is named"),
    ],
)
def test_a_refused_run_changes_nothing(
    session: Session, function: str | None, inputs: dict[str, Array], message: str
) -> None:
    session.run("prefill", x=rows(3), past=0)
    before = session.state()["k"]
    with pytest.raises(ProgramError, match=message):
        session.run(function, inputs)
    np.testing.assert_array_equal(session.state()["k"], before)
    session.run("decode", x=rows(1), past=3)


def test_room_is_made_before_a_run(session: Session) -> None:
    session.reserve("prefill", n=32)
    session.reserve("decode")
    for sizes in ({}, {"m": 3}, {"n": 3, "k": 1}):
        with pytest.raises(ProgramError, match="sizes of prefill: n"):
            session.reserve("prefill", **sizes)
    with pytest.raises(ProgramError, match=r"past \+ n is 64, but must be at most 32"):
        session.reserve("prefill", n=64)


def test_a_state_file_is_refused_by_another_program(
    program: Program, session: Session, tmp_path: Path
) -> None:
    session.save(tmp_path / "state")
    with (
        compiled(capacity=64).session() as other,
        pytest.raises(ProgramError, match="must be 64x8xf32, but found"),
    ):
        other.load(tmp_path / "state")
    with (
        compiled(weight=WEIGHT + 1).session() as other,
        pytest.raises(ProgramError, match="another program"),
    ):
        other.load(tmp_path / "state")


def test_a_damaged_state_file_is_refused(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "state"
    session.run("prefill", x=rows(3), past=0)
    session.save(path)
    whole, before = path.read_bytes(), session.state()["k"]
    older = whole.replace(b'"version":"1"', b'"version":"0"')
    assert older != whole
    for damaged in (b"", whole[:20], whole[:-5], older, whole.replace(b'"k"', b'"q"')):
        path.write_bytes(damaged)
        with pytest.raises(ProgramError):
            session.load(path)
    path.unlink()
    with pytest.raises(ProgramError, match="cannot read the state"):
        session.load(path)
    np.testing.assert_array_equal(session.state()["k"], before)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"kind": "state"', '"kind": "output"', "first"),
        ('"first": 0.0', '"first": "zero"', "expected int or float"),
        ('"limits"', '"limit"', "unknown field"),
        ('"function": "decode"', '"function": "prefill"', "two functions have the same name"),
        ('"version": 5', '"version": 7', "of version 7 is unknown.*update xdsl-spirv"),
        ('"shape": [32, 8]', '"shape": ["n", 8]', "a state cannot have dynamic sizes"),
    ],
)
def test_a_damaged_manifest_is_refused(
    program: Program, tmp_path: Path, old: str, new: str, message: str
) -> None:
    program.save(tmp_path / "program")
    path = tmp_path / "program" / "program.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    json.loads(path.read_text())
    with pytest.raises(ProgramError, match=message):
        Program.load(tmp_path / "program")


STATE = "program.state = 0 : i64, program.value = dense<1.0> : tensor<4xf32>"
REFUSED = {
    "no first value": ("program.state = 0 : i64", "tensor<4xf32>", "no first value"),
    "no result": (STATE.replace("= 0", "= 3"), "tensor<4xf32>", "has no result 3"),
    "another type": (STATE, "tensor<2xf32>", "its new value, result 0, has type tensor<2xf32>"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_state_is_refused(case: str) -> None:
    attributes, result, message = REFUSED[case]
    size = result.partition("<")[2].partition("x")[0]
    source = f"""func.func @main(%k: tensor<4xf32> {{{attributes}}}) -> {result} {{
      %r = tensor.extract_slice %k[0] [{size}] [1] : tensor<4xf32> to {result}
      return %r : {result}
    }}"""
    with pytest.raises(Exception, match=message):
        compile_module(parse_text(source), "lavapipe")


def test_a_name_with_two_types_is_refused() -> None:
    text = scores("prefill", "?") + scores("decode", "1", 64)
    with pytest.raises(ProgramError, match="the state 'k' is 64x8xf32"):
        compile_module(
            parse_text(MAPS + text), "lavapipe", weights={"w": WEIGHT}, functions=FUNCTIONS
        )


COUNTERS = f"""
func.func @main(%a: tensor<4xf32> {{{STATE.replace("= 0", "= 2")}}},
                %b: tensor<4xf32> {{{STATE.replace("1.0", "2.0").replace("= 0", "= 1")}}})
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {{
  %e = tensor.empty() : tensor<4xf32>
  %sum = linalg.add ins(%a, %b : tensor<4xf32>, tensor<4xf32>)
      outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %sum, %a, %sum : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}}"""


def test_states_may_need_each_others_old_values() -> None:
    """Two states hold consecutive Fibonacci numbers."""
    program = compile_module(parse_text(COUNTERS), "lavapipe")
    a, b = 1.0, 2.0
    with program.session() as session:
        for _ in range(5):
            (result,) = session.run(checks=Checks.of("all")).values()
            a, b = a + b, a
            np.testing.assert_array_equal(result, np.full(4, a))
            held = [array[0] for array in session.state().values()]
            assert held == [a, b]
    (once,) = (program(device="interpreter"),)
    np.testing.assert_array_equal(once, np.full(4, 3.0))


ON_A_DEVICE = [("prefill", 5), ("decode", 1), ("decode", 1), ("prefill", 9), ("prefill", 0)]


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, int, int]]:
    pasts = np.cumsum([0, *(n for _, n in ON_A_DEVICE)]).tolist()
    return [(function, n, past) for (function, n), past in zip(ON_A_DEVICE, pasts, strict=False)]


@pytest.fixture(scope="module")
def found(
    program: Program,
    steps: list[tuple[str, int, int]],
    lavapipe: Path,
    layered: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """Returns the results of runs on a device, under the validation layer if it is installed."""
    folder = tmp_path_factory.mktemp("session")
    program.save(folder / "program")
    script = Path(__file__).parent / "vulkan" / "session_steps.py"
    done = subprocess.run(
        [lavapipe, sys.executable, script, folder / "program", json.dumps(steps), folder / "state"],
        capture_output=True,
        text=True,
        timeout=1000,
        check=False,
        env=os.environ | {"XDSL_SPIRV_CACHE": str(folder / "cache")} | layered,
    )
    assert done.returncode == 0, done.stderr
    with program.session() as session:
        session.load(folder / "state")
        moved = session.state()["k"].tolist()
    return json.loads(done.stdout) | {"moved": moved}


@pytest.mark.vulkan
@pytest.mark.parametrize("how", ["results", "again", "in pieces", "isolated"])
def test_a_device_gives_numpys_results(
    found: dict[str, Any], steps: list[tuple[str, int, int]], how: str
) -> None:
    cache = np.zeros((32, 8), "f4")
    for (_, n, past), result in zip(steps, found[how], strict=True):
        wanted = expected(cache, rows(n, past), past)
        given = np.array(result, "f4").reshape(wanted.shape)
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
    for held in ("state", "moved", "loaded"):
        np.testing.assert_allclose(found[held], cache, rtol=1e-5, atol=1e-6)


@pytest.mark.vulkan
def test_a_following_run_starts_before_the_caller_asks(found: dict[str, Any]) -> None:
    ahead, cache = found["ahead"], np.zeros((32, 8), "f4")
    # The second run of a function that was announced is claimed, and a different one is not.
    assert ahead["claimed"] == [n not in (0, 3, 4, 10) for n in range(13)]
    for past, (x, result) in enumerate(zip(ahead["x"], ahead["results"], strict=True)):
        wanted = expected(cache, np.array(x, "f4"), past)
        np.testing.assert_allclose(np.array(result), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(ahead["state"])[:12], cache[:12], rtol=1e-5, atol=1e-6)
    overwritten, shape, unknown, limit = ahead["refused"]
    assert "or a following run overwrites the results" in overwritten
    assert "the result 'result0' cannot be the input 'x'" in shape
    assert "the result 'none' cannot be the input 'x'" in unknown
    assert "past + 1 is 33, but must be at most 32" in limit


@pytest.mark.vulkan
def test_a_device_keeps_what_a_session_needs(found: dict[str, Any]) -> None:
    assert found["reset"] == 0
    assert not found["in one go"]
    # Command buffers are recorded again only for other grids.
    assert found["written"][-3:] == [found["written"][-1]] * 3
    assert found["all rows"][1:3] == found["rows"]
    assert len(found["all rows"]) == 4
    assert (found["grown"], found["placed"]) == (0, 0)
    assert "past + 1 is 33, but must be at most 32" in found["refused"]
    assert found["left"] == {}
    assert found["messages"] == []
    cache = np.zeros((32, 8), "f4")
    np.testing.assert_allclose(found["once"], expected(cache, rows(1, 3), 0), rtol=1e-4)
