"""
A language server for kernels: `server.py` answers editors (LSP, by pygls), `diagnosing.py` finds
the problems of a saved file, and `explaining.py` writes hovers and finds definitions.
"""
