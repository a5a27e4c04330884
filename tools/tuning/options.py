"""Declares the options of `tune`."""

from xdsl_spirv.tools.options import Options

tune = Options("""
@json table (the file), contractions (contraction, candidates, statuses, schedule, microseconds,
    default_microseconds, gain, entered), outcomes (the candidates of each contraction)
input INPUT.mlir optional  a module with linalg on tensors
--contraction MxNxK:T->R repeat  tune a matmul: 1024x1024x512:f16->f32 (repeatable)
--weight ARGUMENT repeat  argument that is equal in all runs, so that it is packed once (repeatable)
@target (default: that of --driver)
--device NAME
    vulkan:N, or a GPU model of workers such as vulkan:nvidia-h200 (default: the most common)
--driver --static DEVICE
    estimate times from the code that a driver compiles for a GPU that may be absent: amd:navi31,
    intel:bmg, ... (`devices --drivers` lists them)
@scheduler
--candidates N int default=64  maximum candidates per contraction (default: %(default)s)
--runs N int default=20  timed runs per candidate (default: %(default)s)
--timeout SECONDS float default=20.0  time limit of a run (default: %(default)g)
--seconds N float  time limit per contraction (default: none)
--jobs N int default=1
    number of processes that propose and compile candidates (default: %(default)s)
--until-gain SHARE default=1%
    end a search if the expected gain of the next step is smaller (default: 1%%)
--no-prune  also time candidates that spill registers or fill a compute unit's memory
--load-ahead  let the driver compile kernels to its disk cache in other processes first
--replay STORE  search only among a store's measurements, without a device
--page FILE.html  write a page with the best schedules, times and failures
-o --output FILE.json  tuned table to update (default: the table that assign-schedule reads)
""")
