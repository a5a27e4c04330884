"""Fuzzing: damages files of every readable kind, and checks how the readers handle them."""
