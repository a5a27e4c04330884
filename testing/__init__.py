"""
Generators, mutations and differential tests, shared by tests and scripts. They are not in the
wheel.
"""
