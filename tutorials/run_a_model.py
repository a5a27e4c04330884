"""Run an ONNX model, compare it with ONNX's reference, and explain how each layer is compiled."""

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
    # Run and explain an ONNX model

    A model comes in as an ONNX file. `xs.compile` turns it into kernels for a device, the program
    runs on the interpreter or on a Vulkan device, and `xs.explain` says what became of each layer
    and why. To try it with a model of your own, change one line.
    """)
    return


@app.cell
def _():
    import tempfile
    from pathlib import Path

    import numpy as np
    from onnx import TensorProto, checker, helper, numpy_helper, save
    from onnx.reference import ReferenceEvaluator

    import xdsl_spirv as xs

    return (
        Path,
        ReferenceEvaluator,
        TensorProto,
        checker,
        helper,
        np,
        numpy_helper,
        save,
        tempfile,
        xs,
    )


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## A model

    A small classifier of 16 x 16 images: a convolution, a second one with stride 2, an average over
    each channel, a matrix product and a softmax. Its weights are random. `batch` is a size that the
    model leaves open.
    """)
    return


@app.cell
def _(Path, TensorProto, checker, helper, np, numpy_helper, save, tempfile):
    rng = np.random.default_rng(0)

    def weight(name, *shape):
        values = rng.normal(0, 0.3, shape).astype(np.float32)
        return numpy_helper.from_array(values, name)

    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], name="conv1", pads=[1] * 4),
            helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
            helper.make_node(
                "Conv", ["r1", "w2", "b2"], ["c2"], name="conv2", pads=[1] * 4, strides=[2, 2]
            ),
            helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
            helper.make_node("GlobalAveragePool", ["r2"], ["mean"], name="pool"),
            helper.make_node("Flatten", ["mean"], ["features"], name="flatten"),
            helper.make_node("Gemm", ["features", "w3", "b3"], ["scores"], name="classify"),
            helper.make_node("Softmax", ["scores"], ["probabilities"], name="softmax", axis=1),
        ],
        "classifier",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 16, 16])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        [
            weight("w1", 8, 1, 3, 3), weight("b1", 8),
            weight("w2", 16, 8, 3, 3), weight("b2", 16),
            weight("w3", 16, 10), weight("b3", 10),
        ],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)

    path = Path(tempfile.mkdtemp()) / "classifier.onnx"  # or the path of your model
    save(model, path)
    return path, rng


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Run it

    `dims` gives open sizes a value (`None` keeps them open: one program for every batch). The
    interpreter executes the SPIR-V that a device would get. Without `device` the program runs on
    the best Vulkan device of this machine, if there is one.
    """)
    return


@app.cell
def _(path, xs):
    program = xs.compile(path, "lavapipe", dims={"batch": 2})
    program
    return (program,)


@app.cell
def _(ReferenceEvaluator, np, path, program, rng):
    images = rng.normal(size=(2, 1, 16, 16)).astype(np.float32)
    probabilities = program(images, device="interpreter")
    (reference,) = ReferenceEvaluator(str(path)).run(None, {"image": images})

    np.testing.assert_allclose(probabilities, reference, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    probabilities.argmax(axis=1), reference.argmax(axis=1)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    `xdsl-spirv run classifier.onnx --dim batch=2 --random 0` does the same on the command line, and
    `--compare-layers` finds the first layer whose result is wrong.

    ## Explain it

    For an H200 this time: nothing has to be there to compile for it. The table names each layer's
    path (cooperative matrices, multiply-adds, plain loops), its work, and the least time that it
    can take there; the notes below say why a layer did not take a faster path.
    """)
    return


@app.cell
def _(path, xs):
    explanation = xs.explain(path, "nvidia-h200", dims={"batch": 2})
    print(explanation)
    return (explanation,)


@app.cell
def _(explanation):
    assert explanation.supported
    nodes = {covered.node: covered.status for covered in explanation.nodes}
    assert nodes["conv1"] == "kernel"
    assert nodes["flatten"] == "folded"
    explanation.paths
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A notebook shows the explanation as a page, with notes next to the layers:
    """)
    return


@app.cell
def _(explanation):
    explanation
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Keep it

    A program on disk is a folder: `program.json`, the kernels, the weights. Any runtime can run it;
    there are [one in C](../examples/runner-c.md) and [one in JavaScript](../examples/runner-js.md).
    """)
    return


@app.cell
def _(Path, program, tempfile, xs):
    with tempfile.TemporaryDirectory() as folder:
        program.save(Path(folder) / "classifier")
        again = xs.Program.load(Path(folder) / "classifier")
        files = sorted(p.relative_to(folder).as_posix() for p in Path(folder).rglob("*.*"))
    assert str(again) == str(program)
    print("\n".join(files))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Next

    - [ONNX](../onnx.md): models in f16 and int8, what is compared how, what is refused.
    - [Devices](../runtime.md): which there are, and how they are chosen.
    """)
    return


if __name__ == "__main__":
    app.run()
