"""
What works round xDSL: a file a cause, each the change to xDSL that would make it unnecessary.
"""
