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

    Two accesses to the same memory race if at least one is a write and nothing orders them. Their
    order then depends on the device, the driver and chance, so a test that runs the kernel may
    pass for years. The interpreter examines accesses, not results, to find races. No GPU is
    needed.
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
    ## A kernel without a barrier

    Each workgroup of 64 invocations adds up 64 numbers. All invocations write their number to
    shared memory and wait. Then 32 invocations each add the number of another invocation to their
    own, then 16 invocations do the same, and so on.
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
    glslang (Debian: `glslang-tools`) compiles the GLSL. Without glslang, as in the browser, this
    page reads a compiled kernel in SPIR-V assembly from the folder `data`. Changes of the GLSL
    above then have no effect. You can change the same kernel in Python, further down, in the
    browser, too.
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
    The report has these parts, from top to bottom:

    - **the rule**, RACE-01, and the line of the read. `tile[lane + distance]` reads a number that
      another invocation wrote in the same line, in the previous iteration.
    - **the invocations**, by their indices in the workgroup, **the memory**, `tile[16]`, and **the
      other access**.
    - **the effect**: the interpreter ran the kernel again in other orders, and the sums were
      different. An invocation that runs ahead adds incomplete numbers.
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
    ## Insert the barrier

    The first barrier orders the stores before the loop. Each iteration of the loop needs another
    barrier. It must be outside of the `if`, because all invocations of the workgroup must reach
    it.
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

    A kernel can also be [written in Python](../kernels.md). Python evaluates `with_barrier` when
    it records the kernel, so the argument decides whether the kernel has the barrier. The report
    quotes lines of Python. Change the kernel and run it again.
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

    - To test the kernel in CI, write a [kernel test](../kernel-tests.md) (a few lines of TOML).
      `pytest --xdsl-spirv` runs it.
    - [The checks](../checks.md): bounds, undefined values, divergent barriers, subgroup sizes, and
      more.
    """)
    return


if __name__ == "__main__":
    app.run()
