"""Compiles the modules of an archive without line numbers, docstrings and assertions."""

import marshal
import zipfile
from importlib.util import MAGIC_NUMBER
from inspect import CO_HAS_DOCSTRING  # type: ignore[attr-defined]
from types import CodeType

HEADER = MAGIC_NUMBER + bytes(12)


def plain(code: CodeType) -> CodeType:
    """Returns a code object without line numbers and docstrings."""
    values = [plain(value) if isinstance(value, CodeType) else value for value in code.co_consts]
    if code.co_flags & CO_HAS_DOCSTRING:
        values[0] = None
    return code.replace(co_consts=tuple(values), co_linetable=b"")


def compile_archive(path: str, to: str) -> None:
    """Writes an archive with compiled modules in place of sources."""
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(to, "w") as made:
        for name in given.namelist():
            data = given.read(name)
            if name.endswith(".py"):
                code = compile(data, name, "exec", dont_inherit=True, optimize=2)
                name, data = f"{name}c", HEADER + marshal.dumps(plain(code))
            elif name.endswith(".pyc"):
                data = data[:16] + marshal.dumps(plain(marshal.loads(data[16:])))
            made.writestr(name, data)
