"""Write a pass with xDSL and check that it changes no result, with `check-passes`."""

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
    # Write a pass and test it

    A pass rewrites a program and must not change its results. `check-passes` runs the program
    before and after each pass and compares the results. The inputs are random numbers and
    difficult values: ends of the types' ranges, NaN, infinities. If results differ, `check-passes`
    reduces the inputs to the few elements that matter. This is a test, not a proof for all inputs,
    but it finds every pass that is wrong on ordinary numbers.
    """)
    return


@app.cell
def _():
    from dataclasses import dataclass
    from math import frexp

    from xdsl.context import Context
    from xdsl.dialects import arith
    from xdsl.dialects.builtin import FloatAttr, ModuleOp
    from xdsl.passes import ModulePass
    from xdsl.pattern_rewriter import (
        PatternRewriter,
        PatternRewriteWalker,
        RewritePattern,
        op_type_rewrite_pattern,
    )

    import xdsl_spirv as xs
    from xdsl_spirv.compare.translation import check_passes

    return (
        Context,
        FloatAttr,
        ModuleOp,
        ModulePass,
        PatternRewriteWalker,
        PatternRewriter,
        RewritePattern,
        arith,
        check_passes,
        dataclass,
        frexp,
        op_type_rewrite_pattern,
        xs,
    )


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The program

    The program divides each of 64 numbers by a constant. Divisions are slow, so the pass replaces
    them by multiplications.
    """)
    return


@app.cell
def _(xs):
    def program(divisor):
        return xs.parse(f"""
            func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
              %empty = tensor.empty() : tensor<64xf32>
              %y = linalg.generic {{
                indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                iterator_types = ["parallel"]
              }} ins(%x : tensor<64xf32>) outs(%empty : tensor<64xf32>) {{
              ^bb0(%a: f32, %unused: f32):
                %divisor = arith.constant {divisor} : f32
                %b = arith.divf %a, %divisor : f32
                linalg.yield %b : f32
              }} -> tensor<64xf32>
              return %y : tensor<64xf32>
            }}
        """)

    return (program,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The pass

    A pass is a class with a name and a method `apply`. A pattern rewrites one operation:

        %b = arith.divf %a, %c  ->  %b = arith.mulf %a, %reciprocal_of_c
    """)
    return


@app.cell
def _(
    Context,
    FloatAttr,
    ModuleOp,
    ModulePass,
    PatternRewriteWalker,
    PatternRewriter,
    RewritePattern,
    arith,
    dataclass,
    frexp,
    op_type_rewrite_pattern,
):
    def has_exact_reciprocal(divisor):
        mantissa, exponent = frexp(abs(divisor))
        return mantissa == 0.5 and -125 <= exponent <= 127

    @dataclass
    class DivisionToProduct(RewritePattern):
        exact: bool

        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: arith.DivfOp, rewriter: PatternRewriter):
            constant = op.rhs.owner
            if not isinstance(constant, arith.ConstantOp):
                return
            divisor = constant.value.value.data
            if self.exact and not has_exact_reciprocal(divisor):
                return
            reciprocal = arith.ConstantOp(FloatAttr(1 / divisor, op.result.type))
            rewriter.replace(op, [reciprocal, arith.MulfOp(op.lhs, reciprocal.result)])

    @dataclass(frozen=True)
    class DivideByMultiplying(ModulePass):
        name = "divide-by-multiplying"
        exact: bool = False

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            PatternRewriteWalker(DivisionToProduct(self.exact)).rewrite_module(op)

    return (DivideByMultiplying,)


@app.cell
def _(Context, DivideByMultiplying, program):
    changed = program(4.0)
    DivideByMultiplying().apply(Context(), changed)
    assert "arith.mulf" in str(changed)
    assert "arith.divf" not in str(changed)
    print(changed)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Test it

    The reciprocal of 4 is exact in f32, so nothing is rounded and no result changes.
    """)
    return


@app.cell
def _(Context, DivideByMultiplying, check_passes, program):
    by_four = check_passes(program(4.0), [DivideByMultiplying()], Context(), inputs=10, seed=0)
    assert by_four.finding is None
    print(by_four)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The reciprocal of 3 is rounded, and the product is rounded again.
    """)
    return


@app.cell
def _(Context, DivideByMultiplying, check_passes, program):
    by_three = check_passes(program(3.0), [DivideByMultiplying()], Context(), inputs=10, seed=0)
    finding = by_three.finding
    assert finding is not None
    assert finding.stage == "divide-by-multiplying"
    assert sum((x != 0).sum() for x in finding.inputs) == 1  # reduced to one number
    print(by_three)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The last bit of one result differs. Many programs tolerate this difference, but the pass
    changes the meaning of the program, so it needs an option. With the option `exact`, the pass
    rewrites only divisions by powers of two whose reciprocal is a normal float.
    """)
    return


@app.cell
def _(Context, DivideByMultiplying, check_passes, program):
    honest = DivideByMultiplying(exact=True)
    for divisor in (3.0, 4.0, -0.125, 1e10, 2.0**-126, 2.0**127):
        verdict = check_passes(program(divisor), [honest], Context(), inputs=6, seed=1)
        assert verdict.finding is None, str(verdict)
        print(f"{divisor}: {verdict}")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Register the pass

    Through this entry point, `xdsl-opt` and `xdsl-spirv` find the pass by its name:

        [project.entry-points."xdsl.universe"]
        my_passes = "my_passes:UNIVERSE"

    Then you can test the pass on any program:

        xdsl-spirv check-passes model.mlir -p 'divide-by-multiplying{exact=true}' --inputs 20

    [Find the pass that changes results](../check-passes.md) explains how results are compared. For
    matrix products, whose sums may have any order, they must be in an interval. [Write a
    pass](../write-a-pass.md) shows more about patterns and packages.
    """)
    return


if __name__ == "__main__":
    app.run()
