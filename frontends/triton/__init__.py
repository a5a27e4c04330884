"""
Reads Triton's kernels: TTIR, the text that Triton makes without a GPU, becomes a `tile.program`.

    module = read(text)                     # operations of `tt`, arith, math and scf
    program = convert(module, arguments)    # views instead of pointers

A pointer is recognised if it is a buffer, plus uniform numbers, plus ranges times strides; a mask
if it bounds ranges. A load of such a pointer becomes a load of a box of a view, any other load a
gather.
"""
