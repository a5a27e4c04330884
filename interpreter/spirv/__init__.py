"""
Semantics of the `spirv` dialect: each file here belongs to the file of that name in the dialect.
"""
