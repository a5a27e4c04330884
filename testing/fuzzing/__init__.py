"""Fuzzing: damages files of every readable kind, and checks the readers' results."""
