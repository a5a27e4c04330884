"""
Reads a module's notes of the source that it was compiled from: files, lines, texts and names.

The notes are read from the dialect's operations, so that they survive printing and parsing, and
only when a message needs them. Missing or wrong debug information is left out of messages: reading
it never fails.
"""

from xdsl_spirv.interpreter.source.location import SourceLocation
from xdsl_spirv.interpreter.source.source_map import hint_of, in_source, source_of

__all__ = ["SourceLocation", "hint_of", "in_source", "source_of"]
