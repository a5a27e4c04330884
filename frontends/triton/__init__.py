"""
Reads Triton's kernels: TTIR, the text that Triton makes without a GPU, becomes a `tile.program`.

    module = read(text)                     # operations of `tt`, arith, math and scf
    program = convert(module, arguments)    # views instead of pointers

Pointers are recognised as a buffer, plus uniform numbers, plus ranges times strides; masks as
bounds of ranges. A load of such a pointer is a box of a view, any other a gather.
"""
