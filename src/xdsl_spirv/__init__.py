"""SPIR-V for machine learning in Python, on xDSL."""
