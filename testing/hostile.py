"""
Generated modules of about 100 kB that take long in a naive reader: deep, wide or repetitive.

Each generator takes the size in bytes, so that tests can measure the growth of the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

from xdsl_spirv.serialization.raw.binary import Header, RawModule
from xdsl_spirv.serialization.raw.operands import opcode_of
from xdsl_spirv.serialization.raw.words import instruction, string_words
from xdsl_spirv.testing.sampling import sample_module

Rows = list[list[int]]
Maker = Callable[[int], Rows]

SIZE = 100_000
"""Size in bytes of the largest input for which the limits on time and memory hold."""


def of(name: str, *operands: int) -> list[int]:
    return instruction(opcode_of(name), operands)


def build(rows: Rows, bound: int = 0x3FFFFF) -> bytes:
    return RawModule.build(Header((1, 6), 0, bound), rows).encode()


VOID, FUNCTION, BOOL, TRUE, UINT, FOUR, MAIN, FIRST = 1, 2, 3, 4, 5, 6, 7, 10
DECLARED = [
    of("OpCapability", 1),
    of("OpMemoryModel", 0, 1),
    of("OpTypeVoid", VOID),
    of("OpTypeFunction", FUNCTION, VOID),
    of("OpTypeBool", BOOL),
    of("OpConstantTrue", BOOL, TRUE),
    of("OpTypeInt", UINT, 32, 0),
    of("OpConstant", UINT, FOUR, 4),
]
BEGIN = [*DECLARED, of("OpFunction", VOID, MAIN, 0, FUNCTION)]
END = [of("OpReturn"), of("OpFunctionEnd")]
ENTRY = [*BEGIN, of("OpLabel", FIRST)]


def fill(size: int, head: Rows, body: Callable[[int], Rows], tail: Rows | None = None) -> Rows:
    """Returns a text: `head`, as many numbered copies of `body` as fit the size, and `tail`."""
    rows, room = list(head), size // 4 - sum(map(len, head))
    for number in count():
        more = body(number)
        room -= sum(map(len, more))
        if room < 0:
            return rows + (tail or [])
        rows += more
    return rows


# Words and texts


def nothing_but_nops(size: int) -> Rows:
    return [of("OpNop")] * (size // 4)


def unknown_opcodes(size: int) -> Rows:
    return [instruction(0x7777, [])] * (size // 4)


def every_opcode(size: int) -> Rows:
    return [instruction(k % 0x10000, [k]) for k in range(size // 8)]


def undecided_then_unknown(size: int) -> Rows:
    pair = [of("OpReturnValue", 1), of("OpLoad", 1, 2, 3)]
    return fill(size, [], lambda _: pair, [instruction(0x7777, [])])


def one_name_for_all(size: int) -> Rows:
    return fill(size, [], lambda k: [of("OpName", k + 1, *string_words("x"))])


def a_long_name(size: int) -> Rows:
    name = of("OpName", 1, *string_words("x" * (size // 2)))
    return fill(size, [name], lambda _: [of("OpReturnValue", 1)])


def numbers_for_names(size: int) -> Rows:
    names = fill(size // 2, [], lambda k: [of("OpName", k + 1, *string_words(str(k % 7)))])
    return names + [of("OpTypeVoid", k + 1) for k in range(len(names))]


def many_lines(size: int) -> Rows:
    file = of("OpString", 100, *string_words("a.comp"))
    head = [*DECLARED[:2], file, *DECLARED[2:], of("OpFunction", VOID, MAIN, 0, FUNCTION)]
    body = [of("OpLine", 100, 1, 1), of("OpNop")]
    return fill(size, [*head, of("OpLabel", FIRST)], lambda _: body, END)


def a_long_file(size: int) -> Rows:
    """Builds a module that repeats OpLine with one file name, which takes half of the module."""
    file = of("OpString", 100, *string_words("x" * (size // 2)))
    head = [*DECLARED[:2], file, *DECLARED[2:], of("OpFunction", VOID, MAIN, 0, FUNCTION)]

    def body(k: int) -> Rows:
        return [of("OpLine", 100, 1, 1), of("OpIAdd", UINT, 200 + k, FOUR, FOUR)]

    return fill(size, [*head, of("OpLabel", FIRST)], body, END)


def errors_with_a_long_name(size: int) -> Rows:
    """
    Builds a module with many errors. Each message contains a long id name and a long file name.
    """
    file = of("OpString", 100, *string_words("x" * (size // 4)))
    name = of("OpName", TRUE, *string_words("x" * (size // 4)))
    head = [*DECLARED[:2], file, name, *DECLARED[2:], of("OpFunction", VOID, MAIN, 0, FUNCTION)]
    body = [of("OpIAdd", BOOL, 101, TRUE, TRUE), of("OpStore", TRUE, TRUE)]
    return fill(size, [*head, of("OpLabel", FIRST), of("OpLine", 100, 1, 1)], lambda _: body, END)


def a_long_decoration_for_all(size: int) -> Rows:
    """
    Builds a module that decorates every variable of a large group with a string of half the
    module's size.
    """
    many = size // 50
    text = string_words("x" * (size // 2))
    notes = [of("OpDecorateString", 100, 5635, *text), of("OpDecorationGroup", 100)]
    targets = [200 + k for k in range(many)]
    head = [*DECLARED[:2], *notes, of("OpGroupDecorate", 100, *targets), *DECLARED[2:]]
    pointer = of("OpTypePointer", 10, 6, UINT)
    return [*head, pointer, *[of("OpVariable", 10, t, 6) for t in targets]]


# Types and constants


def many_types(size: int) -> Rows:
    return fill(size, [], lambda k: [of("OpTypeInt", k + 1, 32, 0)])


def arrays_of_arrays(size: int) -> Rows:
    return fill(size, DECLARED, lambda k: [of("OpTypeArray", k + 10, k + 9 if k else UINT, FOUR)])


def structs_of_two(size: int) -> Rows:
    """
    Builds nested structs: each has two members of the previous type. Expanded, their size is
    exponential.
    """

    def body(k: int) -> Rows:
        inner = k + 9 if k else UINT
        return [of("OpTypeStruct", k + 10, inner, inner)]

    rows = fill(size, DECLARED, body)
    last = rows[-1][1]
    pointer = [of("OpTypePointer", last + 1, 12, last), of("OpVariable", last + 1, last + 2, 12)]
    return [*rows[:2], of("OpDecorate", last, 2), *rows[2:], *pointer]


def few_structs_of_two(size: int) -> Rows:
    """
    Builds a module with many variables of one struct type. The type has thousands of nested
    members, but is not deep.
    """
    structs = [of("OpTypeStruct", 101 + k, 100 + k, 100 + k) for k in range(12)]
    head = [*DECLARED, of("OpTypeStruct", 100, UINT), *structs, of("OpTypePointer", 200, 6, 112)]
    return fill(size, head, lambda k: [of("OpVariable", 200, 300 + k, 6)])


def shared_structs_of_two(size: int) -> Rows:
    """Builds a nested struct in Workgroup memory, so that a validator must compute its size."""
    structs = [of("OpTypeStruct", 101 + k, 100 + k, 100 + k) for k in range(28)]
    entry = of("OpEntryPoint", 5, MAIN, *string_words("main"))
    head = [*DECLARED[:2], entry, *DECLARED[2:], of("OpTypeStruct", 100, UINT), *structs]
    head += [of("OpTypePointer", 200, 4, 128), of("OpVariable", 200, 300, 4)]
    main = [of("OpFunction", VOID, MAIN, 0, FUNCTION), of("OpLabel", FIRST)]
    return fill(size, head + main, lambda k: [of("OpCopyObject", 200, 400 + k, 300)], END)


def one_type_in_itself(size: int) -> Rows:
    members = of("OpTypeStruct", 10, *([10] * (size // 24)))
    return fill(size, [], lambda _: [members, of("OpTypeArray", 11, 11, 11)])


def a_wide_struct_of_constants(size: int) -> Rows:
    wide = size // 9
    head = [*DECLARED, of("OpTypeStruct", 10, *([UINT] * wide))]
    composite = of("OpConstantComposite", 10, 11, *([FOUR] * wide))
    null = [of("OpConstantNull", 10, 12), of("OpFunction", VOID, MAIN, 0, FUNCTION)]
    uses = [of("OpLabel", 20), of("OpCompositeExtract", UINT, 21, 11, 0), *END]
    return [*head, composite, *null, *uses]


def constants_in_constants(size: int) -> Rows:
    """Builds nested array constants of four equal elements. Expanded, their size is exponential."""
    head = [*DECLARED, of("OpTypeArray", 10, UINT, FOUR)]
    head += [of("OpConstantComposite", 10, 11, FOUR, FOUR, FOUR, FOUR)]

    def body(k: int) -> Rows:
        of_type, constant = 20 + 2 * k, 21 + 2 * k
        element, value = (of_type - 2, constant - 2) if k else (10, 11)
        return [
            of("OpTypeArray", of_type, element, FOUR),
            of("OpConstantComposite", of_type, constant, value, value, value, value),
        ]

    return fill(size, head, body)


def specialization_constants(size: int) -> Rows:
    def body(k: int) -> Rows:
        before = 19 + k if k else FOUR
        return [of("OpSpecConstantOp", UINT, 20 + k, 128, before, before)]

    return fill(size, DECLARED, body)


def many_variables(size: int) -> Rows:
    head = [*DECLARED, of("OpTypePointer", 10, 6, UINT)]
    return fill(size, head, lambda k: [of("OpVariable", 10, 20 + k, 6)])


def one_decoration_for_all(size: int) -> Rows:
    group = of("OpGroupDecorate", 1, *([1] * (size // 16)))
    return [group] * 3 + [of("OpDecorate", 1, 2)] * (size // 48)


def a_group_for_all(size: int) -> Rows:
    """
    Builds a module that gives every member of a large decoration group all decorations of the
    group.
    """
    many = size // 24
    notes = [of("OpDecorate", 100, 2)] * many + [of("OpDecorationGroup", 100)]
    targets = [200 + k for k in range(many)]
    names = [*notes, of("OpGroupDecorate", 100, *targets)]
    return [*DECLARED[:2], *names, *DECLARED[2:], *[of("OpTypeInt", t, 32, 0) for t in targets]]


def many_capabilities(size: int) -> Rows:
    return fill(size, [], lambda k: [of("OpCapability", k % 100)])


def many_entry_points(size: int) -> Rows:
    def body(k: int) -> Rows:
        return [of("OpEntryPoint", 5, MAIN, *string_words(f"m{k}"))]

    rows = fill(size - 400, DECLARED[:2], body)
    return [*rows, *DECLARED[2:], *BEGIN[-1:], of("OpLabel", FIRST), *END]


# Functions and control flow


def nested_selections(size: int) -> Rows:
    depth = size // 48
    rows = list(ENTRY)
    for k in range(depth):
        rows += [of("OpSelectionMerge", 50_000 + k, 0)]
        rows += [of("OpBranchConditional", TRUE, 11 + k, 50_000 + k), of("OpLabel", 11 + k)]
    for k in reversed(range(depth)):
        rows += [of("OpBranch", 50_000 + k), of("OpLabel", 50_000 + k)]
    return rows + END


def selections_in_a_row(size: int) -> Rows:
    def body(k: int) -> Rows:
        inside, behind = 100 + 2 * k, 101 + 2 * k
        return [
            of("OpSelectionMerge", behind, 0),
            of("OpBranchConditional", TRUE, inside, behind),
            of("OpLabel", inside),
            of("OpBranch", behind),
            of("OpLabel", behind),
        ]

    return fill(size, ENTRY, body, END)


def values_through_selections(size: int) -> Rows:
    """Builds nested selections. After all of them, the module uses a value of each one."""
    depth = size // 100
    rows = list(ENTRY)
    for k in range(depth):
        rows += [of("OpSelectionMerge", 50_000 + k, 0)]
        rows += [of("OpBranchConditional", TRUE, 11 + k, 50_000 + k), of("OpLabel", 11 + k)]
        rows += [of("OpIAdd", UINT, 20_000 + k, FOUR, FOUR)]
    for k in reversed(range(depth)):
        rows += [of("OpBranch", 50_000 + k), of("OpLabel", 50_000 + k)]
    rows += [of("OpIAdd", UINT, 40_000 + k, 20_000 + k, 20_000 + k) for k in range(depth)]
    return rows + END


def values_behind_a_selection(size: int) -> Rows:
    """Builds a module that uses many values after the selection that defines them."""
    rows = [*ENTRY, of("OpSelectionMerge", 12, 0), of("OpBranchConditional", TRUE, 11, 12)]
    rows.append(of("OpLabel", 11))
    rows = fill(size // 2, rows, lambda k: [of("OpIAdd", UINT, 1000 + k, FOUR, FOUR)])
    count = len(rows) - len(ENTRY) - 3
    rows += [of("OpBranch", 12), of("OpLabel", 12)]
    uses = [of("OpIAdd", UINT, 1000 + count + k, 1000 + k, FOUR) for k in range(count)]
    return [*rows, *uses, *END]


def a_chain_of_blocks(size: int) -> Rows:
    return fill(size, BEGIN, lambda k: [of("OpLabel", 10 + k), of("OpBranch", 11 + k)], END[1:])


def loops_in_a_row(size: int) -> Rows:
    def body(k: int) -> Rows:
        header, target, behind = 100 + 3 * k, 101 + 3 * k, 102 + 3 * k
        return [
            of("OpBranch", header),
            of("OpLabel", header),
            of("OpLoopMerge", behind, target, 0),
            of("OpBranchConditional", TRUE, target, behind),
            of("OpLabel", target),
            of("OpBranch", header),
            of("OpLabel", behind),
        ]

    return fill(size, ENTRY, body, END)


def breaks_out_of_everything(size: int) -> Rows:
    """Builds nested loops that all exit to the same block."""

    def body(k: int) -> Rows:
        leave = [of("OpLoopMerge", 50_000, 60_000, 0)]
        return [*leave, of("OpBranchConditional", TRUE, 11 + k, 50_000), of("OpLabel", 11 + k)]

    return fill(size, ENTRY, body, END)


def a_switch_of_many_cases(size: int) -> Rows:
    many = size // 28
    cases = [w for k in range(many) for w in (k, 100 + k)]
    rows = [*ENTRY, of("OpSelectionMerge", 99, 0), of("OpSwitch", FOUR, 99, *cases)]
    for k in range(many):
        rows += [of("OpLabel", 100 + k), of("OpBranch", 100 + (k * 7) % many)]
    return [*rows, of("OpLabel", 99), *END]


def one_long_switch(size: int) -> Rows:
    types = [of("OpTypeInt", 1, 64, 0), of("OpConstant", 1, 2, 4, 0)]
    return [*types, of("OpSwitch", 2, 3, *([9, 9, 3] * (size // 12 - 10)))]


def a_phi_of_many(size: int) -> Rows:
    """Builds a module with a phi that has many predecessors, each with its own value."""
    many = size // 36
    rows = list(BEGIN)
    for k in range(many):
        rows += [of("OpLabel", 100 + k), of("OpBranchConditional", TRUE, 99, 101 + k)]
    pairs = [w for k in range(many) for w in (FOUR, 100 + k)]
    rows += [of("OpLabel", 100 + many), of("OpBranch", 99)]
    phi = of("OpPhi", UINT, 98, *pairs, FOUR, 100 + many)
    return [*rows, of("OpLabel", 99), phi, *END]


def many_phis(size: int) -> Rows:
    """Builds a block with many phis, to which a switch branches a hundred times."""
    switch = of("OpSwitch", FOUR, 99, *[w for k in range(100) for w in (k, 99)])
    rows = [*ENTRY, of("OpSelectionMerge", 99, 0), switch, of("OpLabel", 99)]
    return fill(size, rows, lambda k: [of("OpPhi", UINT, 100 + k, FOUR, FIRST)], END)


def a_block_of_nops(size: int) -> Rows:
    return [*ENTRY, *[of("OpNop")] * (size // 4 - 60), *END]


def backward_branches(size: int) -> Rows:
    """Builds unstructured control flow, in which every block branches back to an earlier one."""

    def body(k: int) -> Rows:
        label = 11 + k
        back = 11 + k // 2
        return [of("OpBranchConditional", TRUE, label, back), of("OpLabel", label)]

    return fill(size, ENTRY, body, END)


def a_chain_of_sums(size: int) -> Rows:
    def body(k: int) -> Rows:
        before = 99 + k if k else FOUR
        return [of("OpIAdd", UINT, 100 + k, before, before)]

    return fill(size, ENTRY, body, END)


def values_before_they_are(size: int) -> Rows:
    """Builds a module whose instructions use each operand before its definition."""
    return fill(size, ENTRY, lambda k: [of("OpIAdd", UINT, 100 + k, 101 + k, 101 + k)], END)


def one_long_chain(size: int) -> Rows:
    """Builds access chains with an index for every level of a deep array."""
    deep = 90
    rows = [*DECLARED]
    for k in range(deep):
        rows += [of("OpTypeArray", 20 + k, 19 + k if k else UINT, FOUR)]
    top = 19 + deep
    rows += [of("OpTypePointer", 200, 6, top), of("OpTypePointer", 201, 6, UINT)]
    rows += [of("OpVariable", 200, 202, 6), of("OpFunction", VOID, MAIN, 0, FUNCTION)]
    rows += [of("OpLabel", FIRST)]
    chain = [FOUR] * deep
    return fill(size, rows, lambda k: [of("OpAccessChain", 201, 300 + k, 202, *chain)], END)


def many_functions(size: int) -> Rows:
    def body(k: int) -> Rows:
        begin = of("OpFunction", VOID, 100 + 2 * k, 0, FUNCTION)
        return [begin, of("OpLabel", 101 + 2 * k), *END]

    return fill(size, DECLARED, body)


def calls_of_calls(size: int) -> Rows:
    """Builds functions that each call the next function twice."""

    def body(k: int) -> Rows:
        here, callee = 100 + 4 * k, 104 + 4 * k
        return [
            of("OpFunction", VOID, here, 0, FUNCTION),
            of("OpLabel", here + 1),
            of("OpFunctionCall", VOID, here + 2, callee),
            of("OpFunctionCall", VOID, here + 3, callee),
            *END,
        ]

    rows = fill(size - 100, DECLARED, body)
    last = 100 + 4 * ((len(rows) - len(DECLARED)) // 6)
    return [*rows, of("OpFunction", VOID, last, 0, FUNCTION), of("OpLabel", last + 1), *END]


def anything_of_the_grammar(size: int) -> Rows:
    return list(sample_module(random.Random(1), size // 32).rows())


HOSTILE: tuple[Maker, ...] = (
    nothing_but_nops,
    unknown_opcodes,
    every_opcode,
    undecided_then_unknown,
    one_name_for_all,
    a_long_name,
    numbers_for_names,
    many_lines,
    a_long_file,
    errors_with_a_long_name,
    a_long_decoration_for_all,
    many_types,
    arrays_of_arrays,
    structs_of_two,
    few_structs_of_two,
    shared_structs_of_two,
    one_type_in_itself,
    a_wide_struct_of_constants,
    constants_in_constants,
    specialization_constants,
    many_variables,
    one_decoration_for_all,
    a_group_for_all,
    many_capabilities,
    many_entry_points,
    nested_selections,
    selections_in_a_row,
    values_through_selections,
    values_behind_a_selection,
    a_chain_of_blocks,
    loops_in_a_row,
    breaks_out_of_everything,
    a_switch_of_many_cases,
    one_long_switch,
    a_phi_of_many,
    many_phis,
    a_block_of_nops,
    backward_branches,
    a_chain_of_sums,
    values_before_they_are,
    one_long_chain,
    many_functions,
    calls_of_calls,
    anything_of_the_grammar,
)
