"""
A debugger of kernels for editors: implements the Debug Adapter Protocol on the interpreter's
stepper.

`adapter.py` answers an editor's requests, `connection.py` carries them, `launching.py` makes a
launch of a kernel's description, `showing.py` writes values as an editor shows them, and
`watching.py` evaluates expressions over the names of the source.
"""
