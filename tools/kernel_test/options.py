"""Declares the options of `xdsl-spirv test`."""

from xdsl_spirv.tools.options import Options

add_options = Options(
    """
kernels KERNEL several
    kernel (.comp, .slang, .hlsl, .wgsl, .spv, .spvasm, .mlir or .ttir) whose launch is described by
    x.kernel.toml next to the file or by options; .kernel.toml file; or folder of these files
--init  write an initial x.kernel.toml
@launch
-q --quiet  show only failures
@json summary, launches (test, kernel, subgroup_size, passed, seconds, compared, problems, expected,
    not_run, notes, proof: questions, verdict, launch, premises, offered)
-o --output FILE.json  write the JSON object to a file
--junit FILE  write a JUnit report for CI systems
--sarif FILE  write a SARIF 2.1.0 report for code reviews
""",
    epilog="""Exit status: 0 if every launch passed, 1 if one failed, 2 if a description is wrong
or there is nothing to run. docs/kernel-tests.md explains the files.""",
)
