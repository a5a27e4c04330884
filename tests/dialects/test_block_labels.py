"""Block labels may be numbers, as in MLIR's grammar."""

import pytest
from xdsl.context import Context
from xdsl.dialects import cf, func
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from xdsl_spirv.upstream import block_labels

block_labels.install()


@pytest.mark.parametrize("label", ["0", "12", "bb3", "exit"])
def test_a_label_names_its_block(label: str) -> None:
    ctx = Context()
    for dialect in (Builtin, func.Func, cf.Cf):
        ctx.load_dialect(dialect)
    text = f"func.func @f() {{\n  cf.br ^{label}\n^{label}:\n  func.return\n}}"
    module = Parser(ctx, text).parse_module()
    jump = next(op for op in module.walk() if isinstance(op, cf.BranchOp))
    assert [op.name for op in jump.successor.ops] == ["func.return"]
    assert jump.successor.name_hint == ("exit" if label == "exit" else None)
