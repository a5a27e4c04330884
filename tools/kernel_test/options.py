"""Declares the options of `xdsl-spirv test`."""

from xdsl_spirv.tools.options import Options

add_options = Options(
    """
kernels KERNEL several
    GLSL (.comp), .slang, .hlsl, .wgsl, .spv, .spvasm, .mlir or .ttir (its launch is described in
    x.kernel.toml beside it, or by options), .kernel.toml, or a folder of those
--init  write x.kernel.toml to start from
@launch
-q --quiet  show failures only
@json summary, launches (test, kernel, subgroup_size, passed, seconds, compared, problems, expected,
    not_run, notes, proof: questions, verdict, launch, premises, offered)
-o --output FILE.json  write that object there
--junit FILE  for a CI system's list of tests
--sarif FILE  for a code review (SARIF 2.1.0)
""",
    epilog="""Exit status: 0 if every launch passed, 1 if one failed, 2 if a test is
described wrongly or there is nothing to run. docs/kernel-tests.md has the file's format.""",
)
