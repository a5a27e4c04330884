"""Contains workarounds for xDSL. Each file names its cause and the change that would replace it."""
