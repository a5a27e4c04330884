"""
Workarounds for xDSL: one file for each cause, which names the change to xDSL that would replace it.
"""
