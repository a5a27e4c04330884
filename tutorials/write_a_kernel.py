"""Write a GPU kernel as a Python function, launch it, and let it be checked."""

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
    # Write a kernel in Python

    A kernel is a decorated Python function. The function runs once, when it is decorated, and
    records a SPIR-V module. The parameters give the types. The kernel of this tutorial computes
    the softmax of rows: `exp(x - max) / sum(exp(x - max))`.
    """)
    return


@app.cell
def _():
    import tempfile
    from pathlib import Path

    import numpy as np

    import xdsl_spirv as xs
    from xdsl_spirv import kernels as k

    return Path, k, np, tempfile, xs


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The kernel

    One workgroup computes a row. Each of the 64 invocations computes every 64th element. The
    invocations combine their maxima and their sums in shared memory. `fold` is a Python function
    that records its steps at each call. Python's `for` records the body six times. `k.range`
    records a loop, and the values that the loop changes are variables.
    """)
    return


@app.cell
def _(k):
    def fold(tile, lane, combine):
        """Returns the sum of all 64 elements of a tile, in every invocation."""
        k.barrier()
        for distance in (32, 16, 8, 4, 2, 1):
            with k.when(lane < distance):
                tile[lane] = combine(tile[lane], tile[lane + distance])
            k.barrier()
        return tile[0]

    @k.kernel(workgroup=64)
    def softmax(
        x=k.buffer(k.f32, read_only=True),
        y=k.buffer(k.f32),
        columns=k.push(k.u32),
    ):
        tile = k.shared(k.f32, 64)
        lane, start = k.local_id(), k.workgroup_id() * columns

        largest = k.variable(-3.4e38, k.f32)
        for column in k.range(lane, columns, 64):
            largest.value = k.maximum(largest.value, x[start + column])
        tile[lane] = largest.value
        maximum = fold(tile, lane, k.maximum)
        k.barrier()  # All invocations have read the maximum before the tile is reused.

        total = k.variable(0.0, k.f32)
        for column in k.range(lane, columns, 64):
            total.value += k.exp(x[start + column] - maximum)
        tile[lane] = total.value
        sum = fold(tile, lane, lambda a, b: a + b)

        for column in k.range(lane, columns, 64):
            y[start + column] = k.exp(x[start + column] - maximum) / sum

    softmax
    return fold, softmax


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Launch it

    `launch` takes the number of workgroups, then the arguments in the order of the function's
    parameters. It does not change the arrays; its result contains the buffers after the launch.
    """)
    return


@app.cell
def _(np, softmax):
    rows, columns = 3, 100
    x = np.random.default_rng(0).normal(0, 3, (rows, columns)).astype(np.float32)
    result = softmax.launch(rows, x, np.zeros_like(x), columns)

    powers = np.exp(x - x.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result["y"], expected, rtol=1e-5, atol=1e-7)
    result
    return columns, expected, rows, x


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Check it

    `check` launches the kernel with all checks: races, bounds, undefined values, barriers that
    some invocations do not reach.
    """)
    return


@app.cell
def _(columns, np, rows, softmax, x):
    report = softmax.check(rows, x, np.zeros_like(x), columns)
    assert len(report) == 0, str(report)
    print(report)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    One workgroup too many reads and writes beyond the buffers. A GPU would report no error:
    """)
    return


@app.cell
def _(columns, np, rows, softmax, x):
    beyond = softmax.check(rows + 1, x, np.zeros_like(x), columns)
    assert "BOUNDS-01" in {finding.rule for finding in beyond}
    beyond
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Errors name lines of Python

    Values of the kernel are only known on the device, so Python's `if` cannot test them. The error
    names the line and what to write instead.
    """)
    return


@app.cell
def _(k):
    try:

        @k.kernel(workgroup=64)
        def clipped(x=k.buffer(k.f32)):
            i = k.global_id()
            if x[i] < 0.0:
                x[i] = 0.0

    except k.KernelError as error:
        refusal = str(error)
    assert "with when(" in refusal
    print(refusal)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## On a device, and as a file

    `device="vulkan"` runs the same binary on the best Vulkan device there is. The binary is an
    ordinary SPIR-V module that any runtime accepts, and `xs.launch` accepts SPIR-V modules of any
    compiler.
    """)
    return


@app.cell
def _(columns, expected, np, rows, softmax, x, xs):
    for device in [found.name for found in xs.devices()][:1]:
        on_device = softmax.launch(rows, x, np.zeros_like(x), columns, device="vulkan")
        np.testing.assert_allclose(on_device["y"], expected, rtol=1e-5, atol=1e-7)
        print(f"the same on {device}")
    return


@app.cell
def _(Path, columns, expected, np, rows, softmax, tempfile, x, xs):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "softmax.spv"
        path.write_bytes(softmax.binary)
        from_file = xs.launch(path, rows, [x, np.zeros_like(x)], push=[columns])
    np.testing.assert_allclose(from_file["y"], expected, rtol=1e-5, atol=1e-7)
    print(softmax.text[:400])
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Next

    [Kernels in Python](../kernels.md) lists everything that a body can use: atomics, subgroups,
    packed dot products, cooperative matrices. `examples/kernels.py` has a reduction, a tiled
    matrix product, and a histogram.
    """)
    return


if __name__ == "__main__":
    app.run()
