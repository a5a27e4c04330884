"""
Tests of kernels: a launch described in a TOML file, run with all checks and compared.

    from xdsl_spirv.tools.kernel_test.running import run_test
    from xdsl_spirv.tools.kernel_test.toml_file import read_test

    for outcome in run_test(read_test(Path("saxpy.kernel.toml"))):
        assert outcome.passed, outcome

`description.py` defines a test, `toml_file.py` reads one, `overriding.py` lets the command's
options override it. `loading.py` makes a module from GLSL, SPIR-V or MLIR, `interface.py` reads the
interface of its entry point, `arguments.py` makes the bytes for it. `running.py` runs the launches,
`comparing.py` compares results; `reporting.py`, `sarif.py` and `junit.py` write reports.
docs/kernel-tests.md is the page for users. Modules are imported only when needed, because pytest
loads `plugin.py` in every environment that has this package.
"""
