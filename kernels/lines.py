"""
Finds the Python line of each instruction: the innermost line outside of this package. The binary
contains the lines as its source, so that reports can quote them.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, SymbolRefAttr, UnknownLoc
from xdsl.ir import Attribute

from xdsl_spirv.dialects.spirv.enums import SourceLanguage
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.raw import RawGlobalOp
from xdsl_spirv.passes.emit.spirv import free_symbol

_OWN = ("xdsl_spirv.kernels", "xdsl_spirv.passes", "contextlib", "numpy.")


def is_own(frame: FrameType) -> bool:
    """True for a frame of this package, or of a library that it uses; False for a kernel's."""
    return frame.f_globals.get("__name__", "").startswith(_OWN)


class Lines:
    """The Python lines from which a kernel is traced."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[int, str]] = {}

    def assigned(self) -> str | None:
        """Returns the Python variable that the current line assigns to, if any."""
        place = self.here()
        if isinstance(place, UnknownLoc):
            return None
        text = self._texts[place.filename.data][place.line.data]
        name = re.match(r"\s*([a-zA-Z_]\w*)\s*=[^=]", text)
        return name and name[1]

    def here(self) -> FileLineColLoc | UnknownLoc:
        """Returns the location of the kernel's current Python line."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while is_own(frame):
            if frame.f_back is None:
                return UnknownLoc()
            frame = frame.f_back
        file, number = frame.f_code.co_filename, frame.f_lineno
        name = Path(file).name
        self._texts.setdefault(name, {})[number] = linecache.getline(file, number).rstrip()
        return FileLineColLoc(StringAttr(name), IntAttr(number), IntAttr(0))

    def add_file(self, path: Path, places: Iterable[Attribute]) -> None:
        """Adds the lines at `places` in a file; their text is empty if the file is missing."""
        for place in places:
            if isinstance(place, FileLineColLoc) and place.filename.data == path.name:
                number = place.line.data
                line = linecache.getline(str(path), number).rstrip()
                self._texts.setdefault(path.name, {})[number] = line

    def added_to(self, module: ModuleOp) -> ModuleOp:
        """Returns a copy of the module with the lines' text as OpSource. Unused lines are empty."""
        copied = module.clone()
        block = copied.body.block
        for name, lines in self._texts.items():
            text = "\n".join(lines.get(number, "") for number in range(1, max(lines) + 1))
            symbol = free_symbol(copied, "source")
            string = RawGlobalOp(symbol, "OpString", [StringAttr(name)])
            language, version = IntAttr(SourceLanguage.Unknown.value), IntAttr(0)
            layout = [language, version, SymbolRefAttr(symbol), StringAttr(text)]
            assert block.first_op is not None
            block.insert_ops_before([string, RawGlobalOp(None, "OpSource", layout)], block.first_op)
        return copied
