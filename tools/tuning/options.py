"""Declares the options of `tune`."""

from xdsl_spirv.tools.options import Options

tune = Options("""
@json table (the file), contractions (contraction, candidates, statuses, schedule, microseconds,
    default_microseconds, gain, entered), outcomes (of each its candidates)
input INPUT.mlir optional  linalg on tensors
--contraction MxNxK:T->R repeat  a matmul instead: 1024x1024x512:f16->f32 (repeat)
--weight ARGUMENT repeat  an argument that is the same in every run, and packed once (repeat)
@target (--driver's)
--device NAME  vulkan:N, or a resource of workers, as vulkan:nvidia-h200 (the most GPUs of a kind)
--driver --static DEVICE  estimate times by the code that a driver compiles for a GPU, which need
    not be here and runs nothing: amd:navi31, intel:bmg, ... (`devices --drivers` lists them)
@scheduler
--candidates N int default=64  at most (%(default)s)
--runs N int default=20  timed for each (%(default)s)
--timeout SECONDS float default=20.0  for each run of a candidate (%(default)g)
--seconds N float  at most for each contraction (no limit)
--jobs N int default=1  processes that propose and compile candidates (%(default)s)
--until-gain SHARE default=1%  end a search where the next step is expected to gain less (1%%)
--no-prune  also time what the driver says spills registers or fills a compute unit's memory
--load-ahead  have the driver compile kernels in other processes first, for its cache on disk
--replay STORE  search among what a store holds, without a device
--page FILE.html  write the search as a page: the best, times, failures
-o --output FILE.json  the table (where assign-schedule reads it)
""")
