"""
A language server for kernels: `server.py` answers editors (LSP, by pygls), `diagnosing.py` finds
what is wrong with a saved file, and `explaining.py` writes hovers and finds definitions.
"""
