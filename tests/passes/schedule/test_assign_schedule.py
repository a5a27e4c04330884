"""Equal dispatches get the same schedule, which is chosen once."""

from __future__ import annotations

import pytest

from xdsl_spirv.dialects.schedule import CONSIDERED, SCHEDULE
from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.passes.schedule import assign_schedule
from xdsl_spirv.runtime.modules import context, parse_text

PRODUCT = """
  func.func @f{number}(%a: tensor<{m}x64xf32>, %b: tensor<64x{n}xf32>) -> tensor<{m}x{n}xf32> {{
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %rows = tensor.dim %a, %c0 : tensor<{m}x64xf32>
    %e = tensor.empty({rows}) : tensor<{m}x{n}xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    %r = linalg.matmul ins(%a, %b : tensor<{m}x64xf32>, tensor<64x{n}xf32>)
                       outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    func.return %r : tensor<{m}x{n}xf32>
  }}
"""


@pytest.mark.parametrize(("m", "rows"), [("?", "%rows"), ("48", "")])
def test_equal_contractions_share_a_decision(
    m: str, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context()
    columns = (96, 32, 96)
    text = "".join(
        PRODUCT.format(number=number, m=m, n=n, rows=rows) for number, n in enumerate(columns)
    )
    module = parse_text(f"builtin.module {{{text}}}")
    FormDispatchesPass().apply(ctx, module)
    decided: list[object] = []
    choose = assign_schedule.choose

    def count(contraction, target, decisions):  # pyright: ignore
        decided.append(contraction.n)
        return choose(contraction, target, decisions)

    monkeypatch.setattr(assign_schedule, "choose", count)
    assign_schedule.AssignSchedulePass("lavapipe").apply(ctx, module)
    assert decided == [96, 32]
    first, _, last = (op.attributes for op in module.walk() if op.name == "linalg.matmul")
    assert first[SCHEDULE] == last[SCHEDULE]
    assert first[CONSIDERED] == last[CONSIDERED]
