"""
Converts Triton's kernels (TTIR, which Triton makes without a GPU) to a `tile.program`.

    module = read(text)                     # operations of `tt`, arith, math and scf
    program = convert(module, arguments)    # views instead of pointers

A load becomes a box of a view if its pointer has the form buffer + uniform numbers + ranges times
strides, and its mask bounds the ranges. Other loads become gathers.
"""
