"""Generators, mutations and differential tests: what tests and scripts share, not in the wheel."""
