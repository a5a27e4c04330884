"""Prove a kernel for every launch, and read the results: premises, or a refuting launch."""

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
    # Prove a kernel for every launch

    A test runs a kernel with the sizes and the numbers that somebody thought of. A proof is about
    **all** of them: any grid, any lengths of buffers, any push constants, any contents. Solvers
    look for a launch in which the kernel goes wrong. Either they find one, and the interpreter runs
    it and shows the bug; or they show that there is none, under premises that are printed.
    `pip install 'xdsl-spirv[prove]'` installs the solvers.
    """)
    return


@app.cell
def _():
    import numpy as np

    from xdsl_spirv import kernels as k

    return k, np


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## A kernel that its test likes

    Each invocation adds a number and its right neighbour. The guard is `i <= n`: one too many.
    """)
    return


@app.cell
def _(k):
    def neighbours(is_inside):
        @k.kernel(workgroup=64)
        def neighbours(x=k.buffer(k.f32, read_only=True), sums=k.buffer(k.f32), n=k.push(k.u32)):
            i = k.global_id()
            with k.when(is_inside(i, n)):
                sums[i] = x[i] + x[i + 1]

        return neighbours

    wrong = neighbours(lambda i, n: i <= n)
    return neighbours, wrong


@app.cell
def _(np, wrong):
    # The test's buffers are longer than needed, so the test does not find the fault.
    tested = wrong.check(1, np.ones(70, np.float32), np.zeros(66, np.float32), 60)
    assert len(tested) == 0
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## A refutation and its launch

    `prove` takes premises: what a caller promises. Here `sums` has at least `n` elements, and `x`
    one more.
    """)
    return


@app.cell
def _(wrong):
    promised = ("len(sums) >= n", "len(x) > n")
    refuted = wrong.prove(*promised)
    print(refuted)
    return promised, refuted


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The launch stands in the second line: so many workgroups, a push constant, and lengths that
    keep what was promised. The interpreter ran it, and its finding stands below: the rule, the line
    and the invocation. Without such a finding the kernel would be called *unknown*, not refuted.
    """)
    return


@app.cell
def _(refuted):
    assert refuted.verdict == "refuted"
    assert refuted.found[0].rule.startswith("BOUNDS-")
    assert "n = " in refuted.launch
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## A proof and its premises

    The guard is mended, and the same promises suffice; for two more, `prove` asks.
    """)
    return


@app.cell
def _(neighbours, promised):
    right = neighbours(lambda i, n: i < n)
    proved = right.prove(*promised)
    print(proved)
    return proved, right


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    From top to bottom:

    - **premises of every proof**: they hold for Vulkan launches, or are promised by whoever writes
      kernels (loops end).
    - **shown to be reached**: each access to memory happens in some launch that keeps the premises.
      Premises that contradict each other prove anything, and this is where it would show.
    - **premise**: the promises. The proof is about launches that keep them.
    - **premise that you should check**: the proof needs it, and it was not promised. Here the grid
      has to be flat: a second row of workgroups would write the same sums again.
    """)
    return


@app.cell
def _(proved):
    assert proved.verdict == "proved"
    assert proved.reached == 3  # two reads and a write
    assert proved.offered == ["grid.y == 1", "grid.z == 1"]
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## A promise that is too weak

    Each promise is needed. If `x` has only `n` elements, there is a launch that reads beyond it.
    """)
    return


@app.cell
def _(promised, right):
    flat = ("grid.y == 1", "grid.z == 1")
    assert right.prove(*promised, *flat).offered == []
    weaker = right.prove("len(sums) >= n", "len(x) >= n", *flat)
    assert weaker.verdict == "refuted"
    print(weaker)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Next

    - Write the premises under `[assume]` of a [kernel test](../kernel-tests.md) and ask for
      `prove = ["races", "bounds"]`: CI then proves the kernel with each change.
    - [Proofs](../prove.md): races, barriers, images, physical pointers, and the limits of proofs.
    - GLSL, SPIR-V and MLIR: `xdsl-spirv prove kernel.comp --assume 'len(sums) >= n'`.
    """)
    return


if __name__ == "__main__":
    app.run()
