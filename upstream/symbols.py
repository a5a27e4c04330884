"""
Looks up symbols in a table, for callers that look up many symbols.

xDSL's lookup searches a module's operations, which is quadratic with many functions and calls. A
verifier or decoder builds a table and uses it while the module does not change. A pull request to
xDSL would add MLIR's `SymbolTable` class, which a verifier builds once.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import SymbolOpInterface, SymbolTable


class _Table:
    """The symbols of one operation, and the results of `first_of` by key."""

    def __init__(self, op: Operation):
        self.symbols: dict[str, Operation] = {}
        self.first: dict[Hashable, Operation] = {}
        for region in op.regions:
            for block in region.blocks:
                for child in block.ops:
                    trait = child.get_trait(SymbolOpInterface)
                    name = None if trait is None else trait.get_sym_attr_name(child)
                    if name is not None:
                        self.symbols.setdefault(name.data, child)


_AT_HAND: dict[Operation, _Table] = {}


@contextmanager
def symbols_at_hand(op: Operation) -> Generator[None]:
    """
    Context manager that speeds up symbol lookups in `op`. The symbols must not change inside of it.
    """
    outer = _AT_HAND.get(op)
    _AT_HAND[op] = _Table(op)
    try:
        yield
    finally:
        if outer is None:
            del _AT_HAND[op]
        else:
            _AT_HAND[op] = outer


def find_symbol(user: Operation, symbol: SymbolRefAttr) -> Operation | None:
    """Returns the operation that `symbol` names, from the nearest symbol table around `user`."""
    table = user
    while not table.has_trait(SymbolTable):
        if (parent := table.parent_op()) is None:
            return None
        table = parent
    at_hand = _AT_HAND.get(table)
    if at_hand is None or symbol.nested_references:
        return SymbolTable.lookup_symbol(table, symbol)
    return at_hand.symbols.get(symbol.root_reference.data)


def first_of(op: Operation, key: Hashable) -> Operation | None:
    """
    Finds the first operation for a key, among operations with the same parent.

    Registers `op` and returns it if no operation is registered under `key`. Otherwise returns the
    registered one. Returns None outside of `symbols_at_hand`.
    """
    parent = op.parent_op()
    at_hand = None if parent is None else _AT_HAND.get(parent)
    return None if at_hand is None else at_hand.first.setdefault(key, op)
