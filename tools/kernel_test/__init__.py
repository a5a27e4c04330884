"""
Tests kernels: runs the launch that a TOML file describes, with all checks, and compares results.

    from xdsl_spirv.tools.kernel_test.running import run_test
    from xdsl_spirv.tools.kernel_test.toml_file import read_test

    for outcome in run_test(read_test(Path("saxpy.kernel.toml"))):
        assert outcome.passed, outcome

docs/kernel-tests.md is the page for users. Modules are imported only when needed, because pytest
loads `plugin.py` in every environment with this package.
"""
