"""A language server for kernels (Language Server Protocol)."""
