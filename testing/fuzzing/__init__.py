"""Fuzzing: damages files of every kind that is read, and checks the readers' answers."""
