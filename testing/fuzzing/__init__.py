"""
Fuzzing: damage done to files of every kind that is read, and what the readers must make of it.
"""
