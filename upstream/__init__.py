"""Workarounds for xDSL. Each file names its cause, and the change to xDSL that would replace it."""
