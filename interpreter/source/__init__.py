"""
Reads debug information about a module's source: files, lines, texts and names.

The information is read from operations, so it survives printing and parsing. It is read only when a
message needs it. Missing or wrong debug information never causes an error: messages omit it.
"""

from xdsl_spirv.interpreter.source.location import SourceLocation
from xdsl_spirv.interpreter.source.source_map import hint_of, in_source, source_of

__all__ = ["SourceLocation", "hint_of", "in_source", "source_of"]
