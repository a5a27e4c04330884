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

    A test runs a kernel with a few chosen sizes and numbers. A proof covers **all** launches: any
    grid, any lengths of buffers, any push constants, any contents. Solvers search for a launch in
    which the kernel goes wrong. If they find such a launch, the interpreter runs it and shows the
    bug. Otherwise they prove that no such launch exists, under premises that are printed. `pip
    install 'xdsl-spirv[prove]'` installs the solvers.
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
    ## A kernel that passes its test

    Each invocation adds a number and the next number. The guard is `i <= n`, so one invocation too
    many passes it.
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

    `prove` takes premises, which are promises of the caller. Here `sums` has at least `n`
    elements, and `x` has at least `n + 1` elements.
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
    The line *refuted by the launch* shows the number of workgroups, a push constant, and lengths
    that fulfil the premises. The interpreter ran this launch. Its finding follows, with the rule,
    the line and the invocation. Without such a finding the verdict would be *unknown*, not
    refuted.
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

    With the correct guard, the same premises suffice for a proof, except for two more that `prove`
    adds and prints.
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

    - **premises of every proof** are true for Vulkan launches, or the author of a kernel must
      fulfil them (loops end).
    - **shown to be reached**: each access to memory happens in some launch that fulfils the
      premises. So the premises do not contradict each other; contradictory premises would prove
      anything.
    - **premise, used but not proved**: a given premise. The proof covers the launches that fulfil
      all premises.
    - **unchecked premise**: the proof needs this premise, and it was not given. Here the grid must
      have one row, because a second row of workgroups would write the same sums again.
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
    ## A premise that is too weak

    Each premise is necessary. If `x` has only `n` elements, some launch reads beyond the end of
    `x`.
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
