"""Add a device: describe the device in a file, and see how the compiler uses the description."""

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
    # Add a device

    A JSON file, the *target*, describes a device. Passes read numbers from this file and never use
    the device's name, so you add a device by writing a file. On a machine with the device,
    `xdsl-spirv devices --write-target my-gpu.json` writes the file. This tutorial writes a target
    for a device that does not exist.
    """)
    return


@app.cell
def _():
    import json
    import tempfile
    from pathlib import Path

    import numpy as np

    import xdsl_spirv as xs
    from xdsl_spirv import targets

    return Path, json, np, targets, tempfile, xs


@app.cell
def _(Path, json, targets, tempfile):
    folder = Path(tempfile.mkdtemp())

    def write_target(target):
        path = folder / f"{target['name']}.json"
        path.write_text(json.dumps(target, indent=2))
        return str(path)

    # Start from the file of a similar device.
    nearest = json.loads((Path(targets.__file__).parent / "lavapipe.json").read_text())
    print(sorted(nearest))
    return nearest, write_target


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## A device without cooperative matrices

    The device has subgroups of 32 invocations and 64 KiB of workgroup memory. From two rates, the
    compiler computes rooflines: the bytes that a copy moves in a second, and the TFLOPS of
    multiply-adds.
    """)
    return


@app.cell
def _(nearest, write_target):
    plain = nearest | {
        "name": "my-gpu",
        "description": "a device that does not exist",
        "provenance": {"kind": "documented", "date": "2026-11-23", "how": "made up"},
        "subgroup_size": {"default": 32, "min": 32, "max": 32},
        "workgroup": nearest["workgroup"] | {"memory_bytes": 65536},
        "residency": {"memory_bytes": 65536, "subgroups": 16},
        "compute_units": 40,
        "cooperative_matrix": [],
        "schedules": [],
        "copy_bytes_per_second": 500_000_000_000,
        "rates": {"fma f32": 10.0},
        "scalar_results": 64,
    }
    # The numbers belong to a CPU driver, whose lanes are elements of a vector register.
    for _name in ("component_map", "processor", "model"):
        del plain[_name]
    plain_file = write_target(plain)
    return plain, plain_file


@app.cell
def _(plain_file, xs):
    module = xs.parse("""
        func.func @main(%A: tensor<128x128xf16>, %B: tensor<128x128xf16>) -> tensor<128x128xf32> {
          %zero = arith.constant 0.0 : f32
          %empty = tensor.empty() : tensor<128x128xf32>
          %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x128xf32>)
            -> tensor<128x128xf32>
          %r = linalg.matmul ins(%A, %B : tensor<128x128xf16>, tensor<128x128xf16>)
                             outs(%init : tensor<128x128xf32>) -> tensor<128x128xf32>
          return %r : tensor<128x128xf32>
        }
    """)
    before = xs.explain(xs.compile(module, plain_file), plain_file)
    (layer,) = before.layers
    assert layer.layer.path == "fma"
    assert layer.roofline_seconds is not None
    reasons = {path.path: path.reason for path in layer.layer.considered}
    assert not reasons["cooperative-matrix"].startswith("the fastest")
    print(before)
    return before, module


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The product is computed by multiply-adds. The note gives the reason: the device lists no
    cooperative matrices.

    ## Add cooperative matrices

    Suppose that the next driver supports cooperative matrices. The property list
    `cooperative_matrix` contains the shapes and types, `schedules` contains the tiles to try, and
    `features` allows kernels to use the matrices.
    """)
    return


@app.cell
def _(module, plain, write_target, xs):
    product = {"m": 16, "n": 16, "k": 16, "a": "f16", "b": "f16", "saturating": False}
    faster = plain | {
        "name": "my-faster-gpu",
        "cooperative_matrix": [product | {"c": "f32", "result": "f32", "scope": "Subgroup"}],
        "schedules": [
            {"tile": [64, 64], "subgroups": [2, 2], "k_bytes": 64},
            {"tile": [32, 32], "subgroups": [1, 2], "k_bytes": 64},
        ],
    }
    faster_file = write_target(faster)
    program = xs.compile(module, faster_file)
    after = xs.explain(program, faster_file)
    (faster_layer,) = after.layers
    assert faster_layer.layer.path == "cooperative-matrix"
    assert "coopmat 16x16x16" in faster_layer.layer.schedule
    print(after)
    return (program,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The interpreter runs the kernel in subgroups of 32 invocations, as the device would:
    """)
    return


@app.cell
def _(np, program):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2, 128, 128)).astype(np.float16)
    result = program(a, b, device="interpreter")
    assert np.array_equal(result, a.astype(np.float32) @ b.astype(np.float32))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Required fields

    If a field is missing or has a wrong type, the error names it. The compiler uses only listed
    matrix shapes, because drivers run other shapes, too, and return garbage.
    """)
    return


@app.cell
def _(plain, write_target, xs):
    broken = {name: value for name, value in plain.items() if name != "compute_units"}
    try:
        xs.compile("unused.mlir", write_target(broken | {"name": "broken"}))
    except Exception as error:
        refusal = str(error)
    assert "compute_units" in refusal
    print(refusal)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Next

    - [Targets](../targets.md) explains every field and lists the targets of this package.
    - `xdsl-spirv tune x.mlir --target my-gpu.json` measures schedules on the device and writes the
      best ones to a table in the folder of the target file.
    """)
    return


if __name__ == "__main__":
    app.run()
