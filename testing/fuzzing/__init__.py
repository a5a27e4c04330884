"""
Fuzzing: damage done to files of every kind that is read, and the required answers of the readers.
"""
