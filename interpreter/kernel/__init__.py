"""Defines the semantics of operations in a `gpu.func` before lowering, one module per dialect."""
