"""A kernel debugger for editors: the Debug Adapter Protocol for the interpreter's stepper."""
