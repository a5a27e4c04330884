"""
Finds the model's nodes of each line of a module, so that a page can filter by node.

The node of an operation comes from its location, or else from the name of its result. The nodes of
a kernel come from the launches of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.gpu import LaunchFuncOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from xdsl_spirv.dialects.places import labels_of, node_of
from xdsl_spirv.dialects.schedule import DispatchOp

Labels: TypeAlias = tuple[str, ...]
"""Names of the model's nodes to which one line of the text belongs."""


class _Marking(Printer):
    """A printer that records where in the text operations begin and end, with their labels."""

    def __init__(self, output: StringIO, host: FuncOp):
        super().__init__(stream=output)
        self.output, self.host = output, host
        self.marks: list[tuple[int, Labels]] = []
        self.current: Labels = ()

    def print_op(self, op: Operation) -> None:
        outer = self.current
        if op is not self.host:
            self.current = labels_at(op, self.host, outer)
        self.marks.append((self.output.tell(), self.current))
        super().print_op(op)
        self.marks.append((self.output.tell(), outer))
        self.current = outer


def labels_at(op: Operation, host: FuncOp, outer: Labels) -> Labels:
    """
    Returns the nodes of an operation of a host function, or else of the surrounding operation.
    """
    if op.parent_op() is not host:
        own = node_of(op)
        return outer if own is None else (own,)
    labels = labels_of(op)
    if not labels and isinstance(op, LaunchFuncOp):
        # A launch has no results, so the name of the written buffer is used.
        written = op.operands[-1].name_hint if op.operands else None
        labels = () if written is None else (written,)
    return labels


def groups_of(module: ModuleOp) -> dict[str, Labels]:
    """
    Maps the name of each dispatch to the source's nodes that it computes. In later passes, one of
    these nodes gives the dispatch its name.
    """
    groups: dict[str, Labels] = {}
    for op in module.walk():
        if isinstance(op, DispatchOp) and (name := node_of(op)) is not None:
            groups[name] = tuple(dict.fromkeys((*groups.get(name, ()), *labels_of(op))))
    return groups


def labels_of_hosts(
    module: ModuleOp, groups: Mapping[str, Labels]
) -> tuple[dict[str, list[Labels]], dict[str, set[str]]]:
    """
    Returns the nodes of each line by host function, and the nodes of each kernel by name.

    `groups` maps one node of a dispatch to all its nodes.
    """
    lines: dict[str, list[Labels]] = {}
    kernels: dict[str, set[str]] = {}
    for host in module.ops:
        if not isinstance(host, FuncOp):
            continue
        lines[host.sym_name.data] = _lines(host, groups)
        for op in host.walk():
            if isinstance(op, LaunchFuncOp):
                for name in _names(op.kernel):
                    kernels.setdefault(name, set()).update(
                        _expand_labels(labels_at(op, host, ()), groups)
                    )
    return lines, kernels


def _names(kernel: SymbolRefAttr) -> set[str]:
    return {kernel.root_reference.data, *(name.data for name in kernel.nested_references)}


def _expand_labels(labels: Labels, groups: Mapping[str, Labels]) -> Labels:
    nodes = (node for label in labels for node in groups.get(label, (label,)))
    return tuple(dict.fromkeys(nodes))


def _lines(host: FuncOp, groups: Mapping[str, Labels]) -> list[Labels]:
    """Returns the labels of each printed line, from the first operation that begins in the line."""
    output = StringIO()
    printer = _Marking(output, host)
    printer.print_op(host)
    labels: list[Labels] = []
    marks = iter(printer.marks)
    mark = next(marks, None)
    current: Labels = ()
    position = 0
    for line in output.getvalue().splitlines(keepends=True):
        begins: Labels | None = None
        while mark is not None and mark[0] < position + len(line):
            current = mark[1]
            begins = begins or current
            mark = next(marks, None)
        labels.append(_expand_labels(begins or current, groups))
        position += len(line)
    return labels
