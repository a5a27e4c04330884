"""Find a race in a GLSL kernel: run it with checks, read the report, insert a barrier."""

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
    # Find a race in a GLSL kernel

    A race is two accesses to the same place in memory, at least one of them a write, that nothing
    orders. Which one comes first then depends on the device, its driver and the day, so a test that
    runs the kernel can pass for years. The interpreter finds races by looking at accesses instead
    of results. No GPU is needed.
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
    ## A kernel that is almost right

    Each workgroup of 64 invocations adds up 64 numbers: all of them write their number to shared
    memory, wait, and then half of them add the other half's numbers to their own, a quarter adds
    the next quarter's, and so on.
    """)
    return


@app.cell
def _():
    racy = """#version 450
    layout(local_size_x = 64) in;
    layout(std430, binding = 0) readonly buffer Input { float x[]; };
    layout(std430, binding = 1) writeonly buffer Output { float sums[]; };
    shared float tile[64];

    void main() {
        uint lane = gl_LocalInvocationID.x;
        tile[lane] = x[gl_GlobalInvocationID.x];
        barrier();
        for (uint distance = 32; distance > 0; distance /= 2) {
            if (lane < distance)
                tile[lane] += tile[lane + distance];
        }
        if (lane == 0)
            sums[gl_WorkGroupID.x] = tile[0];
    }
    """
    return (racy,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    GLSL is compiled by glslang (Debian: `glslang-tools`). Where there is none, as in the browser,
    this page reads what glslang made of the kernel: SPIR-V in Khronos' text assembly, which lies
    beside this notebook. Changing the GLSL above changes nothing then; the same kernel in Python,
    further down, can be changed everywhere.
    """)
    return


@app.cell
def _(Path, tempfile, xs):
    def kernel_of(name, source):
        """Returns the path of the kernel compiled by glslang, or of the shipped kernel."""
        from xdsl_spirv.tools.kernel_test.compilers import find_glslang
        from xdsl_spirv.tools.kernel_test.description import Misuse

        try:
            find_glslang()
        except Misuse:
            return xs.assemble((Path(__file__).parent / "data" / f"{name}.spvasm").read_text())
        path = Path(tempfile.mkdtemp()) / f"{name}.comp"
        path.write_text(source)
        return path

    return (kernel_of,)


@app.cell
def _(kernel_of, np, racy, xs):
    kernel = kernel_of("sum", racy)
    x = np.arange(128, dtype=np.float32)
    result = xs.launch(kernel, grid=2, buffers={"Input": x, "Output": [0.0, 0.0]})
    result["Output"]
    return kernel, result, x


@app.cell
def _(np, result, x):
    # The sums are right only because the interpreter runs a workgroup in lockstep here.
    assert np.array_equal(result["Output"], [x[:64].sum(), x[64:].sum()])
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Look at accesses, not at results

    `check` runs the kernel with all checks and returns a report.
    """)
    return


@app.cell
def _(kernel, x, xs):
    report = xs.check(kernel, grid=2, buffers={"Input": x, "Output": [0.0, 0.0]})
    report
    return (report,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    From top to bottom:

    - **the rule**, RACE-01, and the line of the read. `tile[lane + distance]` reads what another
      invocation wrote in the same line, one step before.
    - **who**: invocations of a workgroup, by their numbers, and **where**: `tile[16]`, with the
      other access.
    - **why it matters**: the kernel was run again in other orders, and the sums came out different.
      An invocation that runs ahead adds numbers that are not complete yet.
    - **the remedy**.
    """)
    return


@app.cell
def _(report):
    (finding,) = report
    assert finding.rule == "RACE-01"
    assert finding.source.line == 13
    assert finding.related[0].source.line == 13
    assert "2 elements of `Output`" in str(finding)  # the order shows in the results
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Put the barrier where it belongs

    The first barrier orders the stores before the loop. Each step of the loop needs one of its own,
    outside of the `if`: all invocations of the workgroup have to reach it.
    """)
    return


@app.cell
def _(kernel_of, np, racy, x, xs):
    mended = racy.replace("+ distance];", "+ distance];\n            barrier();")
    assert mended.count("barrier();") == 2

    mended_kernel = kernel_of("sum_mended", mended)
    buffers = {"Input": x, "Output": [0.0, 0.0]}
    mended_report = xs.check(mended_kernel, grid=2, buffers=buffers)
    sums = xs.launch(mended_kernel, grid=2, buffers=buffers)["Output"]
    assert len(mended_report) == 0
    assert np.array_equal(sums, [x[:64].sum(), x[64:].sum()])
    mended_report
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The same in Python

    A kernel can also be [written in Python](../kernels.md). `with_barrier` decides, while the
    kernel is written down, whether the barrier is there; the report quotes the lines of Python.
    Change the kernel and run it again.
    """)
    return


@app.cell
def _(k):
    def total(with_barrier):
        @k.kernel(workgroup=64)
        def total(x=k.buffer(k.f32, read_only=True), sums=k.buffer(k.f32)):
            tile = k.shared(k.f32, 64)
            lane = k.local_id()
            tile[lane] = x[k.global_id()]
            k.barrier()
            for distance in (32, 16, 8, 4, 2, 1):
                with k.when(lane < distance):
                    tile[lane] += tile[lane + distance]
                if with_barrier:
                    k.barrier()
            with k.when(lane == 0):
                sums[k.workgroup_id()] = tile[0]

        return total

    return (total,)


@app.cell
def _(k, total, x):
    def findings(with_barrier):
        return k.check(total(with_barrier), 2, {"x": x, "sums": [0.0, 0.0]})

    steps = findings(with_barrier=False)
    assert [finding.rule for finding in steps] == ["RACE-01"] * 5  # a step each
    assert all("tile[lane] += tile[lane + distance]" in str(finding) for finding in steps)
    assert len(findings(with_barrier=True)) == 0
    steps
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Next

    - Keep the kernel from getting worse: a few lines of TOML beside it make a [kernel
      test](../kernel-tests.md), and `pytest --xdsl-spirv` runs it in CI.
    - [The checks](../checks.md): bounds, undefined values, divergent barriers, subgroup sizes, and
      more.
    """)
    return


if __name__ == "__main__":
    app.run()
