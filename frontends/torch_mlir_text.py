"""
Reads torch-mlir's printed modules with xDSL, every operation with its place in the source.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr
from xdsl.universe import Universe
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.upstream.caching_parser import CachingParser


def parse_linalg(text: str) -> ModuleOp:
    """
    MLIR's generic form as torch-mlir prints it; raises `FrontendError` for text that xDSL cannot
    read.
    """
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    # xDSL does not know the flags of a truncation; none is the only value that occurs.
    text = text.replace("<{overflowFlags = #arith.overflow<none>}>", "")
    text = text.replace("overflowFlags = #arith.overflow<none>, ", "")
    text = text.replace(", overflowFlags = #arith.overflow<none>", "")
    try:
        module = CachingParser(ctx, text, "the imported model").parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        first = str(error).strip().splitlines()
        cause = next((x.strip(" ^") for x in reversed(first) if x.strip(" ^~")), str(error))
        raise FrontendError(
            f"xDSL cannot read what torch-mlir made of the model: {cause}",
            "the imported model",
            "report it with the model",
            "parse",
        ) from error
    return module


def locate(module: ModuleOp, names: list[str]) -> None:
    """Give every operation the name of its node, in the order of the text."""
    for op, name in zip(module.walk(), names, strict=True):
        if name:
            op.location = NameLoc(StringAttr(name), NoneAttr())
