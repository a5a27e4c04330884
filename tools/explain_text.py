"""Writes an explanation as text: a table of layers, and the reasons for their lowering paths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from xdsl_spirv.speech import counted
from xdsl_spirv.tools.advice import advice_of
from xdsl_spirv.tools.explain_notes import Note, notes_by_dispatch, notes_of
from xdsl_spirv.tools.explain_rows import Row, explain_no_roofline, rows_of
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData, KernelCode
from xdsl_spirv.tools.lifetimes import in_use

WIDEST = 60
"""Maximum width of the column with a layer's nodes, in characters."""

WITHOUT_KERNEL = {
    "folded": "folded at compile time",
    "no kernel": "without a separate kernel",
}
"""Texts about nodes without a kernel, by status."""


COUNTED = ("seconds", "instructions", "on matrices", "registers", "spilled", "private memory",
           "Workgroup memory", "side by side", "cycles")  # fmt: skip
"""Numeric columns of the table of machine code. The driver estimates the cycles."""
HEAD = ("kernel", "device", *COUNTED)


def text_of(explanation: ExplanationData, order: str = "order", group: bool = False) -> str:
    """Returns the whole explanation as text; `order` and `group` are passed to `rows_of`."""
    parts = [_head(explanation), _nodes(explanation)]
    if explanation.layers:
        notes = notes_of(explanation.layers)
        parts += [_table(explanation, rows_of(explanation, order, group), notes), _reasons(notes)]
        parts.append(code_text(explanation.code) if explanation.code else "")
        parts.append("\n".join(f"advice: {sentence}" for sentence in advice_of(explanation)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(explanation: ExplanationData) -> str:
    lines = [
        f"{explanation.model} for {explanation.target} (target file: {explanation.provenance})"
    ]
    lines += [f"NOT SUPPORTED: {reason}" for reason in explanation.refusals]
    if explanation.layers:
        paths = ", ".join(f"{count} {path}" for path, count in explanation.paths.most_common())
        lines.append(
            f"{counted(len(explanation.layers), 'dispatch')} of "
            f"{counted(explanation.kernels, 'kernel')} "
            f"({explanation.binary_bytes:,} bytes of SPIR-V): {paths}"
        )
        lines.append(
            f"memory: weights {size(explanation.weight_bytes)}, "
            + (f"states {size(explanation.state_bytes)}, " if explanation.state_bytes else "")
            + f"temporaries {peak(explanation)}"
        )
        lines.append(totals(explanation))
    return "\n".join(lines)


def totals(explanation: ExplanationData) -> str:
    """Returns a line with the total work, memory traffic and roofline time."""
    text = f"work: {total_work(explanation.layers)}{format_traffic(explanation)}"
    least = run_seconds(explanation.layers)
    if least is None:
        text += f"; no roofline: {explain_no_roofline(explanation)}"
    else:
        text += f"; roofline {duration(least)}"
    measured = [e.measured_seconds for e in explanation.layers if e.measured_seconds is not None]
    if measured:
        text += f"; measured {duration(sum(measured))} on {explanation.device}"
    return text


def total_work(layers: Sequence[ExplainedLayer]) -> str:
    """Formats the sum of the known numbers of operations, as a minimum if a number is unknown."""
    operations = [entry.layer.operations for entry in layers]
    known = work(sum(number or 0 for number in operations))
    return f"at least {known}" if None in operations else known


def run_seconds(layers: Sequence[ExplainedLayer]) -> float | None:
    """Returns the sum of the roofline times of one run in seconds, or None if no time is known."""
    lines = [entry.roofline_seconds for entry in layers if not entry.once]
    return None if all(line is None for line in lines) else sum(line or 0 for line in lines)


def peak(explanation: ExplanationData) -> str:
    """Returns the memory for temporaries at its peak, and the index of the dispatch at the peak."""
    if any(b.kind == "temporary" and b.bytes is None for b in explanation.buffers):
        return "of sizes that are known only at run time"
    if not explanation.temporary_bytes:
        return "none"
    used = in_use(explanation.buffers, len(explanation.layers))
    most = f" (dispatch {used.index(max(used))})" if used else ""
    return (
        f"{size(explanation.memory_bytes)} at the peak{most} "
        f"instead of {size(explanation.temporary_bytes)}"
    )


def format_traffic(explanation: ExplanationData) -> str:
    """Formats the bytes that a run reads and writes, for each function if there are several."""
    bytes = Counter[str]()
    for entry in explanation.layers:
        if entry.layer.bytes is None:
            return ""
        bytes[entry.function or ""] += 0 if entry.once else entry.layer.bytes
    listed = ", ".join(f"{size(count)} {name}".strip() for name, count in bytes.items())
    return f", {listed} moved a run"


def _nodes(explanation: ExplanationData) -> str:
    if not explanation.nodes:
        return ""
    counts = Counter(node.status for node in explanation.nodes)
    said = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    lines = [f"{counted(len(explanation.nodes), 'node')}: {said}"]
    for node in explanation.nodes:
        if node.status == "not supported":
            lines.append(f"  {node.node} ({node.operator}): {node.reason}")
    for status, said in WITHOUT_KERNEL.items():
        operators = Counter(node.operator for node in explanation.nodes if node.status == status)
        if operators and explanation.layers:
            listed = ", ".join(f"{count} {name}" for name, count in operators.most_common())
            lines.append(f"  {said}: {listed}")
    return "\n".join(lines)


def _table(explanation: ExplanationData, rows: Sequence[Row], notes: Sequence[Note]) -> str:
    numbered = notes_by_dispatch(notes)
    measured = any(entry.measured_seconds is not None for entry in explanation.layers)
    shares = any(row.share is not None for row in rows)
    several = any(entry.function for entry in explanation.layers)
    head = ["function"] * several + ["#", "path", "tile", "workgroups", "work", "moved"]
    head += [
        "roofline",
        *["measured"] * measured,
        *["share"] * shares,
        "by",
        "why",
        "kernel",
        "nodes",
    ]
    cells = [head]
    for row in rows:
        entry, count = row.first, len(row.layers)
        numbers = ranges([layer.dispatch for layer in row.layers])
        grids = {"x".join(map(str, layer.grid)) for layer in row.layers}
        cells.append(
            [
                *([entry.function or ""] if several else []),
                f"{shorten(numbers)}{'*' if entry.once else ''}",
                entry.layer.path,
                tile_of(entry.layer.schedule),
                grids.pop() if len(grids) == 1 else "",
                work(row.operations),
                size(row.bytes),
                duration(row.roofline),
                *([duration(row.measured)] if measured else []),
                *([percent(row.share)] if shares else []),
                entry.limit,
                ranges(numbered.get(entry.dispatch, ())),
                entry.kernel + (f" ({count} times)" if count > 1 else ""),
                shorten(nodes_text(entry)) + (", ..." if count > 1 else ""),
            ]
        )
    note = (
        "\n* computed once, because it depends only on weights"
        if any(e.once for e in explanation.layers)
        else ""
    )
    return aligned_table(cells) + note


def code_rows(codes: Sequence[KernelCode]) -> list[list[str]]:
    """Returns the head and rows of the table of machine code; unreported numbers are empty."""
    rows: list[list[str]] = [list(HEAD)]
    for code in filter(lambda code: code.kernel, codes):
        r = code.resources
        numbers = (r.instructions, r.matrix_instructions, r.registers, r.spilled, r.scratch_bytes)
        numbers += (r.workgroup_bytes, r.subgroups, r.cycles)
        cells = ["" if number is None else str(number) for number in numbers]
        seconds = f"{code.seconds:.2f}" if not code.error else "none"
        rows.append([code.kernel, code.device, seconds, *cells])
    return rows


def code_text(codes: Sequence[KernelCode]) -> str:
    """Returns the table of machine code, and the errors of the drivers."""
    drivers = ", ".join(dict.fromkeys(code.driver for code in codes))
    lines = [f"machine code that {drivers} generates:", aligned_table(code_rows(codes))]
    lines += [
        f"{c.driver} does not compile {c.kernel}: {c.error}" if c.kernel else c.error
        for c in codes
        if c.error
    ]
    return "\n".join(lines)


def percent(share: float | None) -> str:
    """
    Formats a fraction in percent.

    >>> percent(0.1234), percent(0.0001), percent(None)
    ('12.3 %', '0.0 %', '?')
    """
    return "?" if share is None else f"{100 * share:.1f} %"


def work(operations: int | None) -> str:
    """
    Formats a number of scalar operations with a unit.

    >>> work(2048), work(12), work(36_000_000_000), work(None)
    ('2.05 kFLOP', '12 FLOP', '36 GFLOP', '?')
    """
    if operations is None:
        return "?"
    for unit, factor in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if operations >= factor:
            return f"{operations / factor:.3g} {unit}"
    return f"{operations} FLOP"


def nodes_text(entry: ExplainedLayer) -> str:
    """Lists a layer's nodes, each with its operator if known."""
    layer = entry.layer
    operators = layer.operators or ("",) * len(layer.nodes)
    pairs = zip(layer.nodes, operators, strict=True)
    return " + ".join(
        node if not kind or kind in node else f"{node} ({kind})" for node, kind in pairs
    )


def shorten(text: str) -> str:
    """Shortens a text to at most `WIDEST` characters."""
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def tile_of(schedule: str) -> str:
    """Returns a short description of the tile sizes of a schedule, such as `64x64x16`."""
    tile = re.search(r"workgroup_tile = \[([^\]]+)\]", schedule)
    if tile is not None:
        instruction = re.search(r"instruction = \w+ (\S+?),", schedule)
        suffix = f" of {instruction[1]}" if instruction else ""
        by_elements = ", by elements" if "result = elements" in schedule else ""
        return tile[1].replace(", ", "x") + suffix + by_elements
    attention = re.search(r"query_tile = (\d+), key_tile = (\d+)", schedule)
    if attention is not None:
        place = re.search(r"probabilities = (\w+)", schedule)
        return f"{attention[1]}x{attention[2]}" + (f", {place[1]}" if place else "")
    window = re.search(r"outputs = (\d+)", schedule)
    if window is not None:
        return f"window, {window[1]} outputs"
    rows = re.search(r"rows = (\d+), columns = (\d+), lanes = (\d+)", schedule)
    if rows is not None:
        return f"{rows[1]}x{rows[2]} of each, K by {rows[3]} lanes"
    reduce = re.search(r"reduce = (\w+)", schedule)
    return f"by {reduce[1]}" if reduce else ""


def _reasons(notes: Sequence[Note]) -> str:
    """Lists the notes with the numbers by which table rows refer to them."""
    lines: list[str] = []
    for taken, title in ((False, "why no faster path:"), (True, "why this path:")):
        named = [note for note in notes if note.taken == taken]
        lines += [title] if named else []
        lines += [
            f"  ({note.number}) {note.path}: {note.reason}  [{shorten(ranges(note.dispatches))}]"
            for note in named
        ]
    return "\n".join(lines)


def ranges(numbers: Sequence[int]) -> str:
    """
    Formats sorted numbers, with a range for consecutive numbers.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7, 8'
    """
    if not numbers:
        return ""
    parts: list[str] = []
    start = previous = numbers[0]
    for number in [*numbers[1:], -1]:
        if number == previous + 1:
            previous = number
            continue
        if previous - start > 1:
            parts.append(f"{start}-{previous}")
        else:
            parts += [str(n) for n in range(start, previous + 1)]
        start = previous = number
    return ", ".join(parts)


def aligned_table(rows: Sequence[Sequence[str]]) -> str:
    """Formats a table with aligned columns; the first row is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    numeric = {"#", "work", "moved", "roofline", "measured", "share", *COUNTED}
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.rjust(width) if rows[0][i] in numeric else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def size(count: int | None) -> str:
    """
    Formats a number of bytes with a unit.

    >>> size(1536), size(12), size(None)
    ('1.54 kB', '12 B', '?')
    """
    if count is None:
        return "?"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


def duration(seconds: float | None) -> str:
    """
    Formats a duration with a unit.

    >>> duration(0.00123), duration(2e-7), duration(None)
    ('1.23 ms', '200 ns', 'unknown')
    """
    if seconds is None:
        return "unknown"
    for unit, factor in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
