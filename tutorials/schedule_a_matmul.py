"""Schedule a matrix product manually: see the effect of each parameter, and refused schedules."""

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
    # Write the schedule of a matmul

    The compiler chooses a schedule for each matrix product. The schedule says which part of the
    result a workgroup computes, how the subgroups divide this part, and how deep the slices of the
    operands in fast memory are. It is an attribute in the IR, so you can write another schedule.
    The compiler follows your schedule, or names the number that does not fit.
    """)
    return


@app.cell
def _():
    import time
    from io import StringIO

    import matplotlib.pyplot as plt
    import numpy as np

    import xdsl_spirv as xs

    return StringIO, np, plt, time, xs


@app.cell
def _(xs):
    SIZE = 256

    def matmul(workgroup_tile, subgroups, padding=8):
        """Returns a product with a schedule, for lavapipe (CPU) and 8 x 8 x 8 instructions."""
        path = f"staged<padding = {padding}, vector = 8>"
        schedule = (
            f"#schedule.contraction<workgroup_tile = {list(workgroup_tile)}, "
            f"subgroups = {list(subgroups)}, instruction = coopmat 8x8x8, a = {path}, b = {path}>"
        )
        operand, result = f"tensor<{SIZE}x{SIZE}xf16>", f"tensor<{SIZE}x{SIZE}xf32>"
        module = xs.parse(f"""
            func.func @main(%A: {operand}, %B: {operand}) -> {result} {{
              %zero = arith.constant 0.0 : f32
              %empty = tensor.empty() : {result}
              %init = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
              %r = linalg.matmul {{schedule = {schedule}}}
                ins(%A, %B : {operand}, {operand}) outs(%init : {result}) -> {result}
              return %r : {result}
            }}
        """)
        return xs.compile(module, "lavapipe")

    program = matmul((32, 32, 16), (2, 2))
    program
    return SIZE, matmul, program


@app.cell
def _(SIZE, np, program):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (2, SIZE, SIZE)).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    result = program(a, b, device="interpreter")
    assert np.array_equal(result, expected)  # small integers: every order of sums is exact
    return a, b, expected


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## What each number changes

    - `workgroup_tile = [M, N, K]`: each workgroup computes a tile of M x N elements of the result.
      All workgroups together read A once for each column of tiles and B once for each row of
      tiles, so larger tiles read less. K is the depth of the slices in workgroup memory. A barrier
      follows each slice.
    - `subgroups = [rows, columns]`: the grid of subgroups that share a tile. Each subgroup holds
      its part of the tile in registers.
    - `padding`: elements between rows in workgroup memory, so that rows do not start in the same
      memory bank.

    The columns of the table come from the compiled kernels; the traffic is computed from the tile.
    """)
    return


@app.cell
def _(SIZE, a, b, expected, matmul, np, time, xs):
    from contextlib import nullcontext
    from math import prod

    from xdsl_spirv.dialects.spirv.enums import StorageClass
    from xdsl_spirv.dialects.spirv.layout import size_in_bytes
    from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp

    SCHEDULES = {
        "8 x 8 x 8": ((8, 8, 8), (1, 1)),
        "32 x 32 x 8": ((32, 32, 8), (2, 2)),
        "32 x 32 x 32": ((32, 32, 32), (2, 2)),
        "64 x 64 x 16": ((64, 64, 16), (2, 2)),
    }
    lavapipe = next((d for d in xs.devices() if "llvmpipe" in d.name and d.matrices), None)
    where = "the interpreter" if lavapipe is None else "lavapipe"

    def milliseconds(program, device):
        """Returns the time on lavapipe, or on the interpreter. Checks the result."""
        if device is None:
            start = time.perf_counter()
            result = program(a, b, device="interpreter")
            elapsed = time.perf_counter() - start
        else:
            result = device.execute(program, {"A": a, "B": b})["result0"]
            elapsed = sum(step.median for step in device.times(program, 5)) / 1e9
        assert np.array_equal(result, expected)
        return 1e3 * elapsed

    def facts(tile, subgroups, device):
        program = matmul(tile, subgroups)
        (layer,) = xs.explain(program).layers
        (kernel,) = program.code.values()
        variables = [v for v in xs.decode(kernel.binary).walk() if isinstance(v, GlobalVariableOp)]
        shared = [v.type for v in variables if v.type.storage_class.data == StorageClass.Workgroup]
        return {
            "workgroups": prod(layer.grid),
            "invocations": prod(layer.workgroup_size),
            "slices along K": SIZE // tile[2],
            "kB read": 2 * SIZE**3 * (1 / tile[0] + 1 / tile[1]) / 1000,
            "bytes of workgroup memory": sum(size_in_bytes(v.pointee) for v in shared),
            "ms": milliseconds(program, device),
        }

    def opened(device):
        from xdsl_spirv.runtime.vulkan import open_device

        return open_device(f"vulkan:{device.index}")

    with nullcontext() if lavapipe is None else opened(lavapipe) as device:
        table = {name: facts(*schedule, device) for name, schedule in SCHEDULES.items()}
    return table, where


@app.cell
def _(mo, table):
    def html_row(tag, *cells):
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    lines = [html_row("th", "tile", *next(iter(table.values())))]
    for _name, _row in table.items():
        lines.append(html_row("td", _name, *(f"{value:.4g}" for value in _row.values())))
    mo.Html(f"<table>{''.join(lines)}</table>")
    return


@app.cell
def _(SIZE, table):
    # These relations hold on every machine.
    assert table["8 x 8 x 8"]["workgroups"] == (SIZE // 8) ** 2
    assert table["64 x 64 x 16"]["kB read"] * 8 == table["8 x 8 x 8"]["kB read"]
    assert table["32 x 32 x 32"]["slices along K"] * 4 == table["32 x 32 x 8"]["slices along K"]
    assert table["64 x 64 x 16"]["invocations"] == 2 * 2 * 8  # subgroups, of 8 invocations each
    assert all(row["bytes of workgroup memory"] <= 32768 for row in table.values())
    return


@app.cell
def _(StringIO, mo, plt, table, where):
    figure, (traffic, times) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    traffic.bar(list(table), [row["kB read"] for row in table.values()], color="#5c6bc0")
    traffic.set_title("kB read from global memory")
    times.bar(list(table), [row["ms"] for row in table.values()], color="#26a69a")
    times.set_title(f"ms on {where}")
    for axes in (traffic, times):
        axes.tick_params(axis="x", rotation=30)
    picture = StringIO()
    figure.savefig(picture, format="svg")
    plt.close(figure)
    mo.Html(picture.getvalue())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    These are times on a CPU. They show the effect of a number on this CPU, and nothing about a
    GPU. On your own device, [`xdsl-spirv tune`](../runtime.md#tuning) measures schedules and
    stores the best ones.

    ## Refused schedules

    If a schedule cannot be used, the error gives the number that does not fit and a number that
    fits.
    """)
    return


@app.cell
def _(matmul):
    def refusal(*schedule):
        try:
            matmul(*schedule)
        except Exception as error:
            return str(error)
        raise AssertionError("this schedule should not fit")

    too_odd = refusal((24, 32, 16), (2, 2))
    too_large = refusal((128, 128, 64), (2, 2))
    assert "workgroup_tile M = 24 is not a multiple of 16" in too_odd
    assert "exceeds lavapipe's 32768" in too_large
    print(too_odd, too_large, sep="\n\n")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Next

    - [`assign-schedule`](../passes/assign-schedule.md) lists every field and explains the
      compiler's choice.
    - [Performance](../performance.md) has times on an H200.
    """)
    return


if __name__ == "__main__":
    app.run()
