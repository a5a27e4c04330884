"""Declares the options of the commands that inspect, run, check and translate modules."""

from xdsl_spirv.tools.options import Options

opt = Options("""
arguments ... rest  options of xdsl-opt
""")

completion = Options("""
shell [bash|zsh|fish]  the shell
""")

translate = Options("""
input INPUT  an MLIR file, or a SPIR-V binary
-o --output FILE!
    where to write the result: a binary for MLIR; MLIR text for a binary, but a binary for *.spv
@passes
--module NAME  symbol of the spirv.module, if there are several
--names  keep names (OpName)
--lines  keep source positions (OpLine)
--unchecked  read a binary that violates rules of the dialect (not with passes)
""")

interpret = Options("""
@json results (name, shape, type, least, mean, greatest); findings, allowed and counters as
    --check-json writes them (with --check); printed (place, values; with --print)
input INPUT  an MLIR file, or a SPIR-V binary
--function NAME  the func.func on tensors, or the entry point (default: main, or the only one)
@passes
@dims
--subgroup-size N int
    number of invocations of a subgroup (default: that of the schedule's target, or 32)
--grid X[,Y[,Z]] default=1x1x1
    number of workgroups of an entry point; 4 means 4,1,1 (default: %(default)s)
--buffer BINDING=x.npy repeat dest=buffers
    contents of a buffer of an entry point; BINDING is BINDING, SET.BINDING or a name, followed by
    [INDEX] in an array of buffers (repeatable)
--entry NAME dest=function  the same as --function
--spec ID=VALUE repeat  specialization constant of an entry point's module (repeatable)
--push NAME=VALUE repeat
    push constant: the member's name, and a value in JSON such as 3, 0.5, [1, 2] (repeatable)
--push-bytes HEX default=  all push constants, as hexadecimal digits
--check --sanitize NAMES
    look for undefined behaviour: all, or some of rules, undefined, bounds, alignment, overlap,
    barriers, races, permute, choices, counters; exit status 1 for a finding
--permute  add the check `permute`, which runs invocations in several orders
--robust  outside of buffers, read 0 and ignore writes (robustBufferAccess2)
--schedule-seed N int
    run workgroups, and their parts between barriers, in a random order with this seed; not with
    checks or debugging
--allow RULE[:TEXT] repeat  findings that are intended, by rule and part of the text (repeatable)
--check-json FILE  write the findings as JSON
--max-steps N int  stop after N executed blocks
--break WHERE repeat dest=breaks  stop in pdb after %%name, #number or a line
--step N int default=0  after --break also stop after each of the next N instructions
--print WHERE repeat dest=prints
    print each computed value of %%name, #number or a source line (repeatable)
--invocation WORKGROUP:INVOCATION
    limit --break and --print to one invocation, given by linear indices
--trace FILE.jsonl  write the result of every instruction
@inputs
""")

check_passes = Options("""
@json inputs (how many were compared), skipped, undefined, passes (pass, share of the allowed
    error), finding (pass, wrong, failure; or null); with --prove: proofs (pass, result, reason)
input INPUT.mlir  the module to which the passes are applied
-p --passes PIPELINE!  the passes, as in 'linalg-to-spirv{target=lavapipe}' or 'canonicalize,cse'
--inputs N int default=10  number of sets of inputs to run (default: %(default)s)
--seed N int default=0  seed of random inputs (default: %(default)s)
@function
--subgroup-size N int  number of invocations of a subgroup (default: the target's, or 32)
--grid X[,Y[,Z]] default=1x1x1
    number of workgroups, if there is no function on tensors (default: %(default)s)
--length N int default=64  number of elements of runtime arrays (default: %(default)s)
-o --output out.npz  where to write the smallest inputs with different results
--prove
    prove, instead of running, that the results of kernels do not change for any buffer contents
    (without --function and --output)
""")

prove = Options("""
@json verdict, reasons, premises, unused, offered, findings, reached, dead; for a program proofs
    (kernel, entry_point, grid, verdict, reasons, offered)
kernel KERNEL  a file of GLSL, SPIR-V, MLIR or .kernel.toml, or a program made by `compile`
--entry NAME  the entry point, if there are several
--assume PREMISE repeat
    a condition that holds in every launch, such as 'len(Output) >= n' (repeatable)
--question NAME repeat
    what to prove: bounds, races, barriers, division, shifts (default: these five) or
    initialization (repeatable)
--seconds S float default=5.0  time limit of a solver for a question (default: %(default)s)
--timeout S float default=inf  limit of processor time for a kernel (default: none)
--memory MB int default=2048  memory limit of a solver (default: %(default)s)
--no-cache  do not read or write cached answers of solvers
""")

validate = Options("""
input INPUT.spv|.mlir  a binary or an MLIR file; - reads a binary from standard input
--target-env ENV
    spv1.0 to spv1.6, or vulkan1.0 to vulkan1.4 (default: by the module's capabilities)
--target NAME|FILE
    device (such as nvidia-h200) or target file whose Workgroup memory the module must fit
--module NAME  symbol of the spirv.module, if there are several
@json findings, spirv_val (with --spirv-val)
--spirv-val  also run Khronos' validator, and show differences
""")

disassemble = Options("""
input INPUT.spv  a SPIR-V binary; - reads standard input
-o --output OUTPUT.spvasm default=-  where to write the assembly (default: standard output)
--raw-id  print ids as numbers
--no-header  leave out the header comments
--no-indent  do not align the instructions
--offsets  print the byte offset of each instruction
--tolerant  print malformed instructions as words instead of stopping
""")

assemble = Options("""
input INPUT.spvasm  assembly; - reads standard input
-o --output OUTPUT.spv!  the binary to write
--version-of-spirv 1.6  SPIR-V version (default: that of the header comments)
--renumber  assign new ids, as spirv-as does by default
""")
