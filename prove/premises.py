"""
Parses premises about launches that users give, and suggests further premises.

len(Output) >= n      grid.y == 1      all(Indices) < 256      subgroups.consecutive
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations
from math import prod

from xdsl_spirv.prove.addresses import DISTINCT
from xdsl_spirv.prove.kernel import CONSECUTIVE, Kernel
from xdsl_spirv.prove.loops import ITERATION, ONE, WORKGROUP
from xdsl_spirv.prove.questions import rename_for
from xdsl_spirv.prove.values import Term, both, known_number, z3


def offer_premises(kernel: Kernel, launch: dict[str, int]) -> list[dict[str, Term]]:
    """
    Returns sets of suggested premises, for example `len(Output) >= n` or `grid.y == 1`.

    The first set compares lengths, sizes and other numbers, but no products of unknown numbers. The
    last set has premises about subgroups and addresses.

    A `launch`, if given, is assumed to be correct, and only premises that it satisfies are
    suggested. There are then three sets: the second adds products, and the last adds sizes and
    contents of the launch.
    """
    offers = that_hold(_general(kernel), launch)
    plain = {text: term for text, term in offers.items() if not _is_product(text)}
    own = [DISTINCT] if len(kernel.addresses) > 1 and (not launch or DISTINCT in launch) else []
    texts = [CONSECUTIVE, *own]
    for name, value in launch.items():
        if name.startswith("all("):
            texts.append(name)
        elif name.startswith(("len(", "subgroup.size")):
            texts.append(f"{name} >= {value}")
        if name.startswith(("grid.", "subgroup.size")):
            texts.append(f"{name} <= {value}")
    sizes = {text: premise(text, kernel) for text in texts}
    return [plain, offers, sizes] if launch else [plain, sizes]


def _general(kernel: Kernel) -> dict[str, Term]:
    x, y, z = kernel.grid
    offers = {"grid.y == 1": y == 1, "grid.z == 1": z == 1, "grid.x == 1": x == 1}
    numbers = {n: t for n, t in _list_numbers(kernel).items() if known_number(t) is None}
    wide = {name: z3.ZeroExt(32, number) for name, number in numbers.items()}
    axes = {axis: z3.ZeroExt(32, grid) for axis, grid in zip("xyz", kernel.grid, strict=True)}
    counts = {**wide, "grid.x": axes["x"]}
    for size in dict.fromkeys((kernel.size[0], prod(kernel.size))):
        counts[f"grid.x * {size}"] = counts["grid.x"] * size
    threads = list(counts)[-1]
    for name in wide:
        for groups in ("grid.x", threads):
            counts[f"{groups} * {name}"] = counts[groups] * wide[name]
    counts |= {f"{a} * {b}": wide[a] * wide[b] for a, b in combinations(wide, 2)}
    for length, number in kernel.lengths.items():
        if known_number(number) is not None:
            continue
        term = z3.ZeroExt(32, number)
        if not length.startswith("len("):
            # Suggests that images have the sizes of the grid.
            axis = length[-1]
            size = kernel.size["xyz".index(axis)]
            along = {f"grid.{axis}": axes[axis], f"grid.{axis} * {size}": axes[axis] * size}
            other = {n: t for n, t in wide.items() if not n.startswith("size(")}
            same = {n: t for n, t in wide.items() if n.endswith(f").{axis}")}
            others = {n: t for n, t in (same | other | along | wide).items() if n != length}
            offers |= {
                f"{length} >= {n}": z3.UGE(term, t) for n, t in others.items() if n != length
            }
            continue
        for name, number in counts.items():
            if name == length:
                continue
            for part in (1, 2, 4, 8, 16, 32) if name in (*wide, threads) else (1,):
                text = f"{length} >= {name}" if part == 1 else f"{length} * {part} >= {name}"
                offers[text] = z3.UGE(term * part, number)
            for part in (2, 4, 8, 16) if name in ("grid.x", threads) else ():
                offers[f"{length} >= {name} * {part}"] = z3.UGE(term, number * part)
    for name, number in numbers.items():
        offers[f"{name} >= 1"] = z3.UGE(number, 1)
        offers[f"{name} < 2147483648"] = z3.ULT(number, 1 << 31)
    return offers


def _list_numbers(kernel: Kernel) -> dict[str, Term]:
    """
    Returns the 32-bit numbers that a kernel reads, by name: push constants, block members, lengths
    and sizes.
    """
    lengths = {name: kernel.lengths[name] for name in sorted(kernel.read_lengths)}
    listed = kernel.pushed | kernel.members | lengths
    return {name: t for name, t in listed.items() if z3.is_bv(t) and t.size() == 32}


def that_hold(offers: dict[str, Term], values: dict[str, int]) -> dict[str, Term]:
    """
    Returns the suggested premises that a launch satisfies.

    If several differ only in a factor (`len(x) >= n`, `len(x) * 2 >= n`), returns the tightest of
    them. Without a launch (`values` is empty), returns the premises without such factors and
    without products of unknown numbers.
    """
    if not values:
        usual = (t for t in offers if " * " not in t.partition(">=")[0] and not _is_product(t))
        return {t: offers[t] for t in usual if t != "grid.x == 1"}
    pairs = {n: (z3.BitVec(n, 32), z3.BitVecVal(value, 32)) for n, value in values.items()}

    def holds(text: str, offer: Term) -> bool:
        named = [pair for name, pair in pairs.items() if name in text]
        return z3.is_true(z3.simplify(z3.substitute(offer, *named)))

    held = {text: offer for text, offer in offers.items() if holds(text, offer)}
    seen = set[tuple[str, str]]()
    tight: dict[str, Term] = {}
    for text, term in held.items():
        left, _, right = text.partition(" >= ")
        key = (left.partition(" * ")[0], right)
        if not right or key not in seen:
            tight[text] = term
        seen.add(key)
    return tight


def premise(text: str, kernel: Kernel) -> Term:
    """
    Parses a premise: comparisons of names and numbers with `+ - * //`, on integers without
    overflow. A comparison of `all(Buffer)` must hold for each number that is read from a read-only
    buffer.

    Raises `ValueError` for other text.
    """
    if text.strip() == CONSECUTIVE:
        return _for_all_invocations(kernel, [kernel.consecutive])
    if text.strip() == DISTINCT:
        return z3.Bool(DISTINCT)
    numbers = kernel.unread_numbers() | kernel.members | kernel.launch_numbers()
    numbers["subgroup.size"] = kernel.built_ins["SubgroupSize"]
    named = ((name, t) for name, t in numbers.items() if z3.is_bv(t) and t.size() == 32)
    known = {name: z3.ZeroExt(96, term) for name, term in named}

    def term(node: ast.expr) -> Term:
        spelled = ast.unparse(node)
        if spelled in known:
            return known[spelled]
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return z3.BitVecVal(node.value, 128)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -term(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](term(node.left), term(node.right))
        raise ValueError(
            f"{spelled!r} is not a known name; the known names are: {', '.join(known)}"
        )

    def compare(parsed: ast.Compare) -> Term:
        terms = [term(node) for node in (parsed.left, *parsed.comparators)]
        pairs = zip(parsed.ops, terms, terms[1:], strict=False)
        return reduce(both, [_COMPARISONS[type(o)](x, y) for o, x, y in pairs])

    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not a comparison such as grid.y == 1") from error
    if not isinstance(parsed, ast.Compare):
        raise ValueError(f"{text!r} is not a comparison such as grid.y == 1")
    asked = {ast.unparse(node) for node in ast.walk(parsed)}
    for name, leaves in kernel.contents.items():
        if f"all({name})" in asked:
            each = list[Term]()
            for leaf, signed in leaves:
                size = 128 - leaf.size()
                known[f"all({name})"] = (z3.SignExt if signed else z3.ZeroExt)(size, leaf)
                each.append(compare(parsed))
            return _for_all_invocations(kernel, each)
    return compare(parsed)


def _for_all_invocations(kernel: Kernel, terms: Sequence[Term]) -> Term:
    """
    Returns the condition that the terms hold for an invocation, and for every other invocation that
    the kernel considers.
    """
    others = [rename_for(kernel, level) for level in (WORKGROUP, ITERATION, ONE)]
    return z3.And(*terms, *[other(term) for other in others for term in terms])


def _is_product(text: str) -> bool:
    """True if a premise has a product of two unknown numbers, or of three numbers."""
    right = text.partition(">=")[2].split(" * ")
    return len(right) > 2 or sum(not part.strip().isdecimal() for part in right) > 1


_ARITHMETIC: dict[type[ast.operator], Callable[[Term, Term], Term]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.FloorDiv: z3.UDiv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Term, Term], Term]] = {
    ast.Lt: lambda x, y: x < y,
    ast.LtE: lambda x, y: x <= y,
    ast.Gt: lambda x, y: x > y,
    ast.GtE: lambda x, y: x >= y,
    ast.Eq: lambda x, y: x == y,
    ast.NotEq: lambda x, y: x != y,
}
