"""Declares the options of the commands that inspect, run, check and translate modules."""

from xdsl_spirv.tools.options import Options

opt = Options("""
arguments ... rest  arguments of xdsl-opt
""")

completion = Options("""
shell [bash|zsh|fish]  the shell
""")

translate = Options("""
input INPUT  an MLIR file, or a SPIR-V binary
-o --output FILE!  where to write it: a binary; of a binary MLIR text, unless the name ends in .spv
@passes
--module NAME  the spirv.module's symbol if there are several
--names  keep names (OpName)
--lines  keep source positions (OpLine)
--unchecked  read a binary that breaks the dialect's rules (without passes)
""")

interpret = Options("""
@json results (name, shape, type, least, mean, greatest); findings, allowed and counters as
    --check-json writes them (with checks); printed (place, values; with --print)
input INPUT  an MLIR file, or a SPIR-V binary
--function NAME  the func.func on tensors, or the entry point of a kernel (main, or the only one)
@passes
@dims
--subgroup-size N int
    invocations of a subgroup (that of the target the module is scheduled for, or 32)
--grid X[,Y[,Z]] default=1x1x1  workgroups, where an entry point is run; 4 is 4,1,1 (%(default)s)
--buffer BINDING=x.npy repeat dest=buffers
    run an entry point of a spirv.module over buffers by BINDING, SET.BINDING or name, with [NUMBER]
    behind it in an array of buffers
--entry NAME dest=function  the same as --function
--spec ID=VALUE repeat  a specialization constant of a module that is run by an entry point (repeat)
--push NAME=VALUE repeat
    a push constant by its member's name, the value as JSON: 3, 0.5, [1, 2] (repeat)
--push-bytes HEX default=  all push constants, as hexadecimal digits
--check --sanitize NAMES
    look for undefined behaviour: all, or some of rules, undefined, bounds, alignment, overlap,
    barriers, races, permute, choices, counters; exit 1 if any is found
--permute  the check `permute` in addition to --check: run in several orders of invocations
--robust  with robustBufferAccess2: outside of buffers reads are 0 and writes are lost
--schedule-seed N int
    run workgroups, and parts of them from barrier to barrier, in the order of this seed, without
    checks and debugging
--allow RULE[:TEXT] repeat  findings that are intended, by rule and by a part of their text (repeat)
--check-json FILE  write the findings as JSON
--max-steps N int  stop after so many executed blocks
--break WHERE repeat dest=breaks  stop in pdb after %%name, #number or a source line (repeat)
--step N int default=0  after --break also stop after each of the next N instructions
--print WHERE repeat dest=prints
    print the value of %%name, #number or a source line whenever it is made (repeat)
--invocation WORKGROUP:INVOCATION
    what --break and --print look at: one invocation, by linear indexes
--trace FILE.jsonl  write what every instruction made
@inputs
""")

check_passes = Options("""
@json inputs (how many were compared), skipped, undefined, passes (pass, share of the allowed
    error), finding (pass, wrong, failure; or null); with --prove: proofs (pass, result, reason)
input INPUT.mlir  the module before the passes
-p --passes PIPELINE!  the passes, as in 'linalg-to-spirv{target=lavapipe}' or 'canonicalize,cse'
--inputs N int default=10  sets of inputs that it is run on (%(default)s)
--seed N int default=0  of the random ones (%(default)s)
@function
--subgroup-size N int  invocations of a subgroup (the target's, or 32)
--grid X[,Y[,Z]] default=1x1x1  workgroups where there is no function on tensors (%(default)s)
--length N int default=64  elements of runtime arrays (%(default)s)
-o --output out.npz  where to write the smallest inputs on which results differ
--prove  prove that kernels keep their results for all contents, instead of running them
""")

prove = Options("""
@json verdict, reasons, premises, offered, findings, reached, dead; of a program proofs (kernel,
    entry_point, grid, verdict, reasons, offered)
kernel KERNEL  GLSL, SPIR-V, MLIR, a .kernel.toml, or a program made by `compile`
--entry NAME  the entry point, if there are several
--assume PREMISE repeat
    what holds in every launch, as in 'len(Output) >= n'; may be given several times
--question NAME repeat
    bounds, races, barriers, division or shifts (all); may be given several times
--seconds S float default=5.0  limit of one question to one solver (%(default)s)
--timeout S float default=inf  limit of all work on a kernel, in processor time (none)
--memory MB int default=2048  limit of a solver's memory (%(default)s)
--no-cache  ask solvers again what they answered before, and do not keep their answers
""")

validate = Options("""
input INPUT.spv|.mlir  - for a binary on standard input
--target-env ENV  spv1.0 to spv1.6, vulkan1.0 to vulkan1.4 (by the module's capabilities)
--target NAME|FILE  a device, as nvidia-h200, or a target file, whose Workgroup memory must suffice
--module NAME  the spirv.module's symbol if there are several
@json findings, spirv_val (with --spirv-val)
--spirv-val  run Khronos' validator too and show differences
""")

disassemble = Options("""
input INPUT.spv  a SPIR-V binary, - for standard input
-o --output OUTPUT.spvasm default=-  a file; - prints
--raw-id  print ids by their numbers
--no-header  leave the header comments out
--no-indent  do not align the instructions
--offsets  show where instructions start
--tolerant  print what contradicts the grammar as words instead of stopping
""")

assemble = Options("""
input INPUT.spvasm  assembly, - for standard input
-o --output OUTPUT.spv!  the binary to write
--version-of-spirv 1.6  instead of the one in the header comments
--renumber  number all ids anew, as spirv-as does by default
""")
