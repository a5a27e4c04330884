"""
Converts Triton's kernels (TTIR, which Triton makes without a GPU) to a `tile.program`.

    module = read(text)                     # operations of `tt`, arith, math and scf
    program = convert(module, arguments)    # views instead of pointers

A pointer of the form buffer + uniform numbers + ranges times strides, with a mask that bounds the
ranges, becomes a box of a view. Other loads become gathers.
"""
