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

    `xs.compile` compiles an ONNX file to kernels for a device. The program runs on the interpreter
    or on a Vulkan device, and `xs.explain` shows how each layer was compiled and why. To try your
    own model, change one line.
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

    The model is a small classifier of 16 x 16 images: a convolution, a second convolution with
    stride 2, an average over each channel, a matrix product and a softmax. Its weights are random.
    `batch` is a dynamic size of the model.
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

    `dims` gives dynamic sizes a value; with `None` a size stays dynamic, and one program runs every
    batch. The interpreter executes the same SPIR-V as a device. Without `device` the program runs
    on the best Vulkan device of this machine, if there is one.
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

    This time the target is an H200; you can compile for a device that you do not have. For each
    layer, the table gives its path (cooperative matrices, multiply-adds, plain loops), its work,
    and the least time that the target could take. The notes below the table give the reason why a
    layer did not take a faster path.
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
    ## Save the program

    A program on disk is a folder with `program.json`, the kernels and the weights. A runner in any
    language can run it, for example [the runner in C](../examples/runner-c.md) or [the runner in
    JavaScript](../examples/runner-js.md).
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

    - [ONNX](../onnx.md): models in f16 and int8, comparisons with onnxruntime, refused models.
    - [Devices](../runtime.md): how a device is chosen.
    """)
    return


if __name__ == "__main__":
    app.run()
