"""Defines the semantics of the `spirv` dialect, with the same module names as the dialect."""
