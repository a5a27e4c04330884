"""
Semantics of the operations in a `gpu.func` before it becomes SPIR-V: one file for each dialect.
"""
