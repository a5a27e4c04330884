"""
Implements `--trace-passes DIR`: writes the module after every pass, and a page with the changes.

The folder is written when all passes are done, or when a pass fails. A pass without changes has no
file.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.printer import Printer

if TYPE_CHECKING:
    from xdsl_spirv.tools.trace_labels import Labels

INDEX = "index.html"

NESTED = ("builtin.module", "gpu.module", "spirv.module")
"""Modules whose functions and kernels are compared separately."""

DECLARATIONS = ": declarations"
"""Suffix of the name for the part of a module that is outside its functions."""


@dataclass(frozen=True)
class Stage:
    """
    The module after a pass: its text, and the text of each function or kernel by symbol.

    `labels` maps a function or kernel to the nodes of each line. `kernels` maps a kernel to its
    nodes.
    """

    name: str
    text: str
    units: dict[str, str]
    labels: dict[str, list[Labels]] = field(default_factory=dict)
    kernels: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class Trace:
    """The stages of a pipeline; `title` is the input's name on the page."""

    title: str
    stages: list[Stage] = field(default_factory=list)
    failure: str | None = None
    groups: dict[str, Labels] = field(default_factory=dict)
    """Maps one node of each dispatch to all nodes of the dispatch; launches name only one."""

    def observe(self, name: str, module: ModuleOp) -> None:
        """Records the module's text after the pass `name`."""
        from xdsl_spirv.tools.trace_labels import groups_of, labels_of_hosts

        name, text = name or "source", _text(module)
        if self.stages and text == self.stages[-1].text:
            self.stages.append(replace(self.stages[-1], name=name))
            return
        groups = groups_of(module)
        labels, kernels = labels_of_hosts(module, {} if groups else self.groups)
        self.groups = groups or self.groups
        self.stages.append(Stage(name, text, units_of(module), labels, kernels))


def file_of(number: int, stage: Stage) -> str:
    """Returns the file name of a stage, such as `03-form-dispatches.mlir`."""
    return f"{number:02}-{stage.name.replace(' ', '-')}.mlir"


def units_of(module: ModuleOp) -> dict[str, str]:
    """
    Returns the text of each function and kernel by symbol, and the text of each module without its
    functions and kernels.
    """
    texts: dict[str, str] = {}

    def add(name: str, text: str) -> None:
        texts[next(n for n in _candidates(name) if n not in texts)] = text

    def visit(op: Operation, name: str) -> None:
        rest: list[str] = []
        for inner in op.regions[0].blocks[0].ops if op.regions[0].blocks else ():
            symbol = inner.properties.get("sym_name") or inner.attributes.get("sym_name")
            label = symbol.data if isinstance(symbol, StringAttr) else ""
            if inner.name in NESTED and inner.regions:
                visit(inner, label or inner.name)
            elif label and inner.regions:
                add(label, _text(inner))
            else:
                rest.append(_text(inner))
        if rest or (op is not module and _attributes(op)):
            add(
                name + DECLARATIONS if name else "(other operations)",
                _attributes(op) * bool(name) + "".join(rest),
            )

    visit(module, "")
    if attributes := _attributes(module):
        texts["(module attributes)"] = "// of the module:\n" + attributes
    return texts


def _attributes(op: Operation) -> str:
    said = {**op.properties, **op.attributes}
    return "".join(f"//   {key} = {value}\n" for key, value in said.items() if key != "sym_name")


def _candidates(name: str) -> Generator[str]:
    yield name
    number = 2
    while True:
        yield f"{name} ({number})"
        number += 1


def _text(op: Operation) -> str:
    output = StringIO()
    Printer(stream=output).print_op(op)
    return output.getvalue() + "\n"
