"""SPIR-V surgery: read a binary, change it as text, as IR and word by word, write it."""

import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # SPIR-V surgery

    A SPIR-V binary is a list of 32-bit words: a header of five words, then instructions. This
    tutorial reads a binary and changes it in three ways: as text, as IR, and word by word.
    """)
    return


@app.cell
def _():
    from pathlib import Path

    import numpy as np

    import xdsl_spirv as xs

    return Path, np, xs


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Read

    The kernel multiplies each number by 2. glslang compiled it, and the folder `data` contains its
    assembly. `xs.assemble` makes the binary.
    """)
    return


@app.cell
def _(Path, xs):
    text = (Path(__file__).parent / "data" / "twice.spvasm").read_text()
    binary = xs.assemble(text)

    def words_of(binary):
        return [int.from_bytes(binary[i : i + 4], "little") for i in range(0, len(binary), 4)]

    magic, version, _generator, bound, _schema = words_of(binary)[:5]
    assert magic == 0x07230203
    assert xs.disassemble(binary) == text  # nothing is lost on the way
    print(f"{len(binary)} bytes, SPIR-V {version >> 16}.{version >> 8 & 255}, ids below {bound}")
    print("\n".join(text.splitlines()[-22:]))
    return binary, text, words_of


@app.cell
def _(binary, np, xs):
    def run(binary):
        x = np.arange(64, dtype=np.float32)
        return x, xs.launch(binary, grid=1, buffers={"Input": x, "Output": np.zeros_like(x)})[
            "Output"
        ]

    x, y = run(binary)
    assert np.array_equal(y, 2 * x)
    y[:8]
    return (run,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Cut 1: as text

    A change of one word of the text changes the computation. This tutorial validates every changed
    module before it runs. `validate` checks the rules of the specification; if it returns no
    findings, the module is valid.
    """)
    return


@app.cell
def _(np, run, text, xs):
    squared = xs.assemble(text.replace("OpFMul %float %float_2 ", "OpFAdd %float %float_2 "))
    assert not xs.validate(squared)
    x1, y1 = run(squared)
    assert np.array_equal(y1, x1 + 2)
    y1[:8]
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Cut 2: as IR

    `xs.decode` converts the binary to the `spirv` dialect, an xDSL module that every pass and
    rewrite pattern of xDSL accepts. This pattern replaces every `2 * x` by `x + x`:

        %r = spirv.FMul %two, %x  ->  %r = spirv.FAdd %x, %x
    """)
    return


@app.cell
def _(binary, xs):
    module = xs.decode(binary)
    print(module)
    return (module,)


@app.cell
def _(binary, module, np, run, xs):
    from xdsl.pattern_rewriter import (
        PatternRewriter,
        PatternRewriteWalker,
        RewritePattern,
        op_type_rewrite_pattern,
    )

    from xdsl_spirv.dialects.spirv.arithmetic import FAddOp, FMulOp
    from xdsl_spirv.dialects.spirv.constants import ConstantOp

    class DoublingToAddition(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: FMulOp, rewriter: PatternRewriter):
            constant, x = op.operands
            if not isinstance(constant.owner, ConstantOp) or constant.owner.value.value.data != 2.0:
                return
            rewriter.replace(op, FAddOp(x, x))

    added = module.clone()
    assert PatternRewriteWalker(DoublingToAddition()).rewrite_region(added.body)
    added_binary = xs.encode(added)
    assert not xs.validate(added_binary)
    assert np.array_equal(run(added_binary)[1], run(binary)[1])  # other words, the same numbers
    assert "OpFMul" not in xs.disassemble(added_binary)
    print("\n".join(line for line in xs.disassemble(added_binary).splitlines() if "OpF" in line))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Cut 3: word by word

    One word of the instruction `OpExecutionMode` (opcode 16, six words) is the size of a
    workgroup. With 32 instead of 64 invocations, the second half of the buffer does not change.
    """)
    return


@app.cell
def _(binary, np, run, words_of, xs):
    words = words_of(binary)
    place = words.index(6 << 16 | 16)
    assert words[place + 3 : place + 6] == [64, 1, 1]
    words[place + 3] = 32
    halved = b"".join(word.to_bytes(4, "little") for word in words)
    assert not xs.validate(halved)
    x3, y3 = run(halved)
    assert np.array_equal(y3, np.where(x3 < 32, 2 * x3, 0))
    y3[28:36]
    return (words,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Wrong cuts

    A driver may crash on an invalid module, so this package never gives an invalid module to a
    driver. The validator names the rule, the place, and what to do.
    """)
    return


@app.cell
def _(text, xs):
    wrong = xs.assemble(text.replace("OpFMul %float %float_2 ", "OpIMul %float %float_2 "))
    findings = xs.validate(wrong)
    assert len(findings) == 1
    assert "IMul" in str(findings)
    findings
    return


@app.cell
def _(binary, xs):
    # Bytes that are not a module at all: the last instruction is cut off in the middle.
    try:
        xs.decode(binary[:-6])
    except Exception as error:
        refusal = f"{type(error).__name__}: {error}"
    assert refusal.startswith("SPIRVDecodeError")
    print(refusal)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Next

    - `xs.decode("twice.spv")` reads a file, for example one written by
      `Path("twice.spv").write_bytes(binary)`.
    - [Binaries and the dialect](../binary.md): the canonical form, and instructions without an
      operation.
    - On the command line: `xdsl-spirv disassemble`, `assemble`, `validate`, `translate`.
    """)
    return


if __name__ == "__main__":
    app.run()
