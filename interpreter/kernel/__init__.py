"""
The meaning of what a `gpu.func` is made of before it becomes SPIR-V: one file for each dialect.
"""
