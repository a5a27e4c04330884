"""
Contains workarounds for xDSL: a file for each cause, which names the change that would replace it.
"""
