"""
Generators, mutations and differential tests, used by tests and scripts. Not part of the wheel.
"""
