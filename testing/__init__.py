"""Generators, mutations and differential tests for tests and scripts. They are not in the wheel."""
