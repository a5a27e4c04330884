"""
Tests of kernels: a launch described in a TOML file, run with all checks and compared.

    from xdsl_spirv.tools.kernel_test.running import run_test
    from xdsl_spirv.tools.kernel_test.toml_file import read_test

    for outcome in run_test(read_test(Path("saxpy.kernel.toml"))):
        assert outcome.passed, outcome

`description.py` says what a test is, `toml_file.py` reads one, `overriding.py` lets the command's
options override it. `loading.py` gets a module from GLSL, SPIR-V or MLIR, `interface.py` what its
entry point asks for, `arguments.py` the bytes that it gets. `running.py` runs the launches,
`comparing.py` compares; `reporting.py`, `sarif.py` and `junit.py` tell. docs/kernel-tests.md is
the page for users. Nothing here is imported before it is needed: pytest loads `plugin.py` in every
environment that has this package.
"""
