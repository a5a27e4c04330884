"""
Handwritten kernels in the spirv dialect for the interpreter's benchmark.

Each kernel multiplies two n x n matrices. B is transposed in memory, so that both operands are
read along K. An invocation computes 4 x 4 results. A workgroup has 8 x 8 invocations.
"""

from __future__ import annotations

TILE = 4
SIDE = 8
GROUP = TILE * SIDE


def grid(n: int) -> tuple[int, int, int]:
    """Returns the grid for n x n results."""
    return n // GROUP, n // GROUP, 1


def packed_dot(n: int) -> str:
    """Returns `@main` for int8 x int8 -> i32 by SDot. Buffers are vectors of 16 bytes."""
    lines: list[str] = []
    for part in range(4):
        for name in "ab":
            lines += [
                f"%{name}{i}_{part} = spirv.CompositeExtract %{name}{i}[{part} : i32] "
                ": vector<4xi32>"
                for i in range(TILE)
            ]
        for i in range(TILE):
            for j in range(TILE):
                before = f"%c{i}{j}" if part == 0 else f"%s{i}{j}_{part - 1}"
                lines += [
                    f"%d{i}{j}_{part} = spirv.SDot %a{i}_{part}, %b{j}_{part}, "
                    "<PackedVectorFormat4x8Bit> : i32 -> i32",
                    f"%s{i}{j}_{part} = spirv.IAdd {before}, %d{i}{j}_{part} : i32",
                ]
    results = [f"%s{i}{j}_3" for i in range(TILE) for j in range(TILE)]
    return _kernel(n, "vector<4xi32>", 16, 16, "i32", lines, results)


def scalar_half(n: int, wide: bool = True) -> str:
    """Returns `@main` for f16 x f16 on scalars, computed in f32 (`wide`) or in f16."""
    lines: list[str] = []
    type = "f32" if wide else "f16"
    for name in "ab":
        for i in range(TILE):
            if wide:
                lines.append(f"%w{name}{i} = spirv.FConvert %{name}{i} : f16 to f32")
    prefix = "%w" if wide else "%"
    for i in range(TILE):
        for j in range(TILE):
            lines += [
                f"%p{i}{j} = spirv.FMul {prefix}a{i}, {prefix}b{j} : {type}",
                f"%s{i}{j} = spirv.FAdd %c{i}{j}, %p{i}{j} : {type}",
            ]
    results = [f"%s{i}{j}" for i in range(TILE) for j in range(TILE)]
    return _kernel(n, "f16", 2, 1, type, lines, results)


def cooperative(n: int, element: str, result: str) -> str:
    """
    Returns `@main` in which a subgroup of 8 multiplies 2 x 2 fragments of 8 x 8 from global
    memory.

    B is not transposed: both operands are row-major.
    """
    stride, size = {"f16": 2, "i8": 1}[element], 4
    array = f"!spirv.struct<(!spirv.rtarray<{element}, stride={stride}> [0]), Block>"
    results = f"!spirv.struct<(!spirv.rtarray<{result}, stride={size}> [0]), Block>"
    pointer = (
        f"!spirv.ptr<{array}, StorageBuffer>, i32, i32 -> !spirv.ptr<{element}, StorageBuffer>"
    )
    matrix = {
        use: f"!spirv.coopmatrix<8x8x{kind}, Subgroup, Matrix{use}>"
        for use, kind in (("A", element), ("B", element), ("Acc", result))
    }
    signs = ""
    if element == "i8":
        signs = ", <ASigned|BSigned|CSigned|ResultSigned>"
    acc = ", ".join([matrix["Acc"]] * 4)
    tile = [(i, j) for i in range(2) for j in range(2)]
    arguments = ", ".join(f"%c{i}{j}: {matrix['Acc']}" for i, j in tile)
    nothing = "0" if result[0] == "i" else "0.0"
    buffers = [(0, "a", array), (1, "b", array), (2, "c", results)]
    out = [
        "spirv.module @kernels Logical Vulkan {",
        *(
            f"spirv.GlobalVariable @{name} bind(0, {at}) : !spirv.ptr<{type}, StorageBuffer>"
            for at, name, type in buffers
        ),
        *(
            f'spirv.GlobalVariable @{name} built_in("{name}") : !spirv.ptr<vector<3xi32>, Input>'
            for name in ("WorkgroupId", "LocalInvocationId")
        ),
        'spirv.func @main() "None" {',
        *(
            f"%{name} = spirv.mlir.addressof @{name} : !spirv.ptr<{type}, StorageBuffer>"
            for _, name, type in buffers
        ),
        "%at = spirv.mlir.addressof @WorkgroupId : !spirv.ptr<vector<3xi32>, Input>",
        '%group = spirv.Load "Input" %at : vector<3xi32>',
        "%x = spirv.CompositeExtract %group[0 : i32] : vector<3xi32>",
        "%y = spirv.CompositeExtract %group[1 : i32] : vector<3xi32>",
        *(f"%n{v} = spirv.Constant {v} : i32" for v in (0, 8, 16)),
        f"%n = spirv.Constant {n} : i32",
        f"%zero = spirv.Constant dense<{nothing}> : {matrix['Acc']}",
        "%row0 = spirv.IMul %y, %n16 : i32",
        "%row1 = spirv.IAdd %row0, %n8 : i32",
        "%column0 = spirv.IMul %x, %n16 : i32",
        "%column1 = spirv.IAdd %column0, %n8 : i32",
        "%start0 = spirv.IMul %row0, %n : i32",
        "%start1 = spirv.IMul %row1, %n : i32",
        f"%t00, %t01, %t10, %t11 = spirv.mlir.loop -> {acc} {{",
        f"spirv.Branch ^head(%n0, %zero, %zero, %zero, %zero : i32, {acc})",
        f"^head(%k: i32, {arguments}):",
        "%more = spirv.SLessThan %k, %n : i32",
        "spirv.BranchConditional %more, ^body, ^end",
        "^body:",
        "%down = spirv.IMul %k, %n : i32",
    ]
    for i in range(2):
        out += [
            f"%ia{i} = spirv.IAdd %start{i}, %k : i32",
            f"%ib{i} = spirv.IAdd %down, %column{i} : i32",
        ]
        for name, use in (("a", "A"), ("b", "B")):
            out += [
                f"%p{name}{i} = spirv.AccessChain %{name}[%n0, %i{name}{i}] : {pointer}",
                f"%{name}{i} = spirv.KHR.CooperativeMatrixLoad %p{name}{i}, %n, <RowMajor> : "
                f"!spirv.ptr<{element}, StorageBuffer>, i32 -> {matrix[use]}",
            ]
    for i, j in tile:
        out.append(
            f"%s{i}{j} = spirv.KHR.CooperativeMatrixMulAdd %a{i}, %b{j}, %c{i}{j}{signs} : "
            f"{matrix['A']}, {matrix['B']} -> {matrix['Acc']}"
        )
    out += [
        "spirv.Branch ^next",
        "^next:",
        "%following = spirv.IAdd %k, %n8 : i32",
        f"spirv.Branch ^head(%following, %s00, %s01, %s10, %s11 : i32, {acc})",
        "^end:",
        f"spirv.mlir.merge %c00, %c01, %c10, %c11 : {acc}",
        "}",
    ]
    target = (
        f"!spirv.ptr<{results}, StorageBuffer>, i32, i32 -> !spirv.ptr<{result}, StorageBuffer>"
    )
    for i, j in tile:
        out += [
            f"%o{i}{j} = spirv.IAdd %start{i}, %column{j} : i32",
            f"%q{i}{j} = spirv.AccessChain %c[%n0, %o{i}{j}] : {target}",
            f"spirv.KHR.CooperativeMatrixStore %q{i}{j}, %t{i}{j}, %n, <RowMajor> : "
            f"!spirv.ptr<{result}, StorageBuffer>, {matrix['Acc']}, i32",
        ]
    return "\n".join([*out, "spirv.Return", "}", *_entry((SIDE, 1, 1)), "}"])


def _kernel(
    n: int,
    element: str,
    stride: int,
    per: int,
    result: str,
    lines: list[str],
    results: list[str],
) -> str:
    """
    Returns a kernel that sums up over K in the variables %cIJ. `lines` are the body of the loop,
    and `results` the new values of the sums.

    An element of the buffers has `stride` bytes and contains `per` factors.
    """
    array = f"!spirv.struct<(!spirv.rtarray<{element}, stride={stride}> [0]), Block>"
    size = {"i32": 4, "f32": 4, "f16": 2}[result]
    stored = f"!spirv.struct<(!spirv.rtarray<{result}, stride={size}> [0]), Block>"
    tile = [(i, j) for i in range(TILE) for j in range(TILE)]
    types = ", ".join([result] * len(tile))
    arguments = ", ".join(f"%c{i}{j}: {result}" for i, j in tile)
    carried = ", ".join(f"%c{i}{j}" for i, j in tile)
    nothing = "0.0" if result[0] == "f" else "0"
    out = [
        "spirv.module @kernels Logical Vulkan {",
        *(
            f"spirv.GlobalVariable @{name} bind(0, {binding}) : !spirv.ptr<{type}, StorageBuffer>"
            for binding, (name, type) in enumerate((("a", array), ("b", array), ("c", stored)))
        ),
        *(
            f'spirv.GlobalVariable @{name} built_in("{name}") : !spirv.ptr<vector<3xi32>, Input>'
            for name in ("WorkgroupId", "LocalInvocationId")
        ),
        'spirv.func @main() "None" {',
        *(f"%{c} = spirv.mlir.addressof @{c} : !spirv.ptr<{array}, StorageBuffer>" for c in "ab"),
        f"%c = spirv.mlir.addressof @c : !spirv.ptr<{stored}, StorageBuffer>",
        *(
            line
            for name in ("WorkgroupId", "LocalInvocationId")
            for line in (
                f"%at{name} = spirv.mlir.addressof @{name} : !spirv.ptr<vector<3xi32>, Input>",
                f'%{name} = spirv.Load "Input" %at{name} : vector<3xi32>',
                f"%{name}_x = spirv.CompositeExtract %{name}[0 : i32] : vector<3xi32>",
                f"%{name}_y = spirv.CompositeExtract %{name}[1 : i32] : vector<3xi32>",
            )
        ),
        *(f"%n{v} = spirv.Constant {v} : i32" for v in range(TILE)),
        f"%tile = spirv.Constant {TILE} : i32",
        f"%group = spirv.Constant {GROUP} : i32",
        f"%line = spirv.Constant {n // per} : i32",
        f"%n = spirv.Constant {n} : i32",
        f"%nothing = spirv.Constant {nothing} : {result}",
    ]
    for name, axis in (("row", "y"), ("column", "x")):
        out += [
            f"%{name}_group = spirv.IMul %WorkgroupId_{axis}, %group : i32",
            f"%{name}_own = spirv.IMul %LocalInvocationId_{axis}, %tile : i32",
            f"%{name} = spirv.IAdd %{name}_group, %{name}_own : i32",
        ]
        for i in range(TILE):
            out += [
                f"%{name}{i} = spirv.IAdd %{name}, %n{i} : i32",
                f"%{name}_start{i} = spirv.IMul %{name}{i}, %line : i32",
            ]
    totals = [f"%t{i}{j}" for i, j in tile]
    out += [
        f"{', '.join(totals)} = spirv.mlir.loop -> {types} {{",
        f"spirv.Branch ^head(%n0, {', '.join(['%nothing'] * len(tile))} : i32, {types})",
        f"^head(%k: i32, {arguments}):",
        "%more = spirv.SLessThan %k, %line : i32",
        "spirv.BranchConditional %more, ^body, ^end",
        "^body:",
    ]
    pointer = (
        f"!spirv.ptr<{array}, StorageBuffer>, i32, i32 -> !spirv.ptr<{element}, StorageBuffer>"
    )
    for name, axis in (("a", "row"), ("b", "column")):
        for i in range(TILE):
            out += [
                f"%{name}_at{i} = spirv.IAdd %{axis}_start{i}, %k : i32",
                f"%{name}_pointer{i} = spirv.AccessChain %{name}[%n0, %{name}_at{i}] : {pointer}",
                f'%{name}{i} = spirv.Load "StorageBuffer" %{name}_pointer{i} : {element}',
            ]
    out += [
        *lines,
        "spirv.Branch ^next",
        "^next:",
        "%following = spirv.IAdd %k, %n1 : i32",
        f"spirv.Branch ^head(%following, {', '.join(results)} : i32, {types})",
        "^end:",
        f"spirv.mlir.merge {carried} : {types}",
        "}",
    ]
    target = f"!spirv.ptr<{stored}, StorageBuffer>, i32, i32 -> !spirv.ptr<{result}, StorageBuffer>"
    for i in range(TILE):
        out.append(f"%out_row{i} = spirv.IMul %row{i}, %n : i32")
        for j in range(TILE):
            out += [
                f"%out{i}{j} = spirv.IAdd %out_row{i}, %column{j} : i32",
                f"%out_at{i}{j} = spirv.AccessChain %c[%n0, %out{i}{j}] : {target}",
                f'spirv.Store "StorageBuffer" %out_at{i}{j}, %t{i}{j} : {result}',
            ]
    return "\n".join([*out, "spirv.Return", "}", *_entry((SIDE, SIDE, 1)), "}"])


def _entry(size: tuple[int, int, int]) -> list[str]:
    return [
        'spirv.EntryPoint "GLCompute" @main, @a, @b, @c, @WorkgroupId, @LocalInvocationId',
        f'spirv.ExecutionMode @main "LocalSize", {", ".join(map(str, size))}',
    ]


def small_loop(steps: int) -> tuple[str, int]:
    """
    Returns `@main` with a loop of `steps` iterations for one workgroup of 64 invocations, and the
    number of instructions that each invocation executes.
    """
    inside = [
        "%x0 = spirv.IMul %value, %n3 : i32",
        "%x1 = spirv.IAdd %x0, %id : i32",
        "%x2 = spirv.BitwiseXor %x1, %k : i32",
        "%x3 = spirv.BitwiseAnd %x2, %mask : i32",
        "%at = spirv.AccessChain %a[%n0, %x3] : {pointer}",
        '%x4 = spirv.Load "StorageBuffer" %at : i32',
        "%x5 = spirv.ISub %x1, %x4 : i32",
        "%big = spirv.SGreaterThan %x5, %x4 : i32",
        "%x6 = spirv.Select %big, %x5, %x4 : i1, i32",
    ]
    array = "!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>"
    pointer = f"!spirv.ptr<{array}, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>"
    text = f"""spirv.module @kernels Logical Vulkan {{
spirv.GlobalVariable @a bind(0, 0) : !spirv.ptr<{array}, StorageBuffer>
spirv.GlobalVariable @LocalInvocationIndex built_in("LocalInvocationIndex") : !spirv.ptr<i32, Input>
spirv.func @main() "None" {{
%a = spirv.mlir.addressof @a : !spirv.ptr<{array}, StorageBuffer>
%id_at = spirv.mlir.addressof @LocalInvocationIndex : !spirv.ptr<i32, Input>
%id = spirv.Load "Input" %id_at : i32
%n0 = spirv.Constant 0 : i32
%n1 = spirv.Constant 1 : i32
%n3 = spirv.Constant 3 : i32
%mask = spirv.Constant 63 : i32
%steps = spirv.Constant {steps} : i32
%last = spirv.mlir.loop -> i32 {{
spirv.Branch ^head(%n0, %id : i32, i32)
^head(%k: i32, %value: i32):
%more = spirv.SLessThan %k, %steps : i32
spirv.BranchConditional %more, ^body, ^end
^body:
{chr(10).join(inside).format(pointer=pointer)}
spirv.Branch ^next
^next:
%following = spirv.IAdd %k, %n1 : i32
spirv.Branch ^head(%following, %x6 : i32, i32)
^end:
spirv.mlir.merge %value : i32
}}
%out = spirv.AccessChain %a[%n0, %id] : {pointer}
spirv.Store "StorageBuffer" %out, %last : i32
spirv.Return
}}
spirv.EntryPoint "GLCompute" @main, @a, @LocalInvocationIndex
spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}}"""
    per_round = len(inside) + 5
    return text, steps * per_round
