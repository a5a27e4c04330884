"""Kernels with control flow: loops with early exits, switches, calls, returns within loops."""

from __future__ import annotations

from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.types import I32, INTEGERS, Type


def control_flow(k: Kernel) -> None:
    """Fills the kernel with one construct of each kind."""
    _nested_loops(k)
    _switch(k)
    _call(k)
    _variables(k)


def _small(k: Kernel, limit: int) -> str:
    value, _ = k.input(I32)
    return k.op(f"spirv.UMod {value}, {k.constant(limit)} : i32")


def _nested_loops(k: Kernel) -> None:
    outer, inner, last = _small(k, 6), _small(k, 9), k.constant(int(k.rng.integers(2, 9)))
    factor = k.constant(int(k.rng.integers(2, 100)))
    r = k.name()
    n = r[1:]
    k.block(
        r,
        f"""{r} = spirv.mlir.loop -> i32 {{
          spirv.Branch ^header{n}(%zero, %zero : i32, i32)
        ^header{n}(%i{n}: i32, %sum{n}: i32):
          %more{n} = spirv.SLessThan %i{n}, {outer} : i32
          spirv.BranchConditional %more{n}, ^body{n}, ^merge{n}
        ^body{n}:
          %limit{n} = spirv.IAdd {inner}, %i{n} : i32
          %found{n} = spirv.mlir.loop -> i32 {{
            spirv.Branch ^inner{n}(%zero : i32)
          ^inner{n}(%j{n}: i32):
            %square{n} = spirv.IMul %j{n}, %j{n} : i32
            %far{n} = spirv.SGreaterThan %square{n}, %limit{n} : i32
            spirv.BranchConditional %far{n}, ^done{n}(%j{n} : i32), ^step{n}
          ^step{n}:
            %k{n} = spirv.IAdd %j{n}, %one : i32
            %enough{n} = spirv.IEqual %k{n}, {last} : i32
            spirv.BranchConditional %enough{n}, ^done{n}(%k{n} : i32), ^again{n}
          ^again{n}:
            spirv.Branch ^inner{n}(%k{n} : i32)
          ^done{n}(%value{n}: i32):
            spirv.mlir.merge %value{n} : i32
          }}
          %scaled{n} = spirv.IMul %sum{n}, {factor} : i32
          %later{n} = spirv.IAdd %scaled{n}, %found{n} : i32
          spirv.Branch ^continue{n}
        ^continue{n}:
          %next{n} = spirv.IAdd %i{n}, %one : i32
          spirv.Branch ^header{n}(%next{n}, %later{n} : i32, i32)
        ^merge{n}:
          spirv.mlir.merge %sum{n} : i32
        }}""",
    )
    k.output(r, I32, "nested loops")


def _switch(k: Kernel) -> None:
    selector, value = _small(k, 5), k.input(I32)[0]
    r = k.name()
    n = r[1:]
    first, second = k.rng.choice(["IAdd", "IMul", "ISub", "BitwiseXor"], 2)
    k.block(
        r,
        f"""{r} = spirv.mlir.selection -> i32 {{
          spirv.Switch {selector} : i32, [
            default: ^other{n},
            0: ^a{n},
            2: ^a{n},
            3: ^b{n}
          ]
        ^a{n}:
          %x{n} = spirv.{first} {value}, {selector} : i32
          spirv.Branch ^merge{n}(%x{n} : i32)
        ^b{n}:
          %y{n} = spirv.{second} {selector}, {value} : i32
          spirv.Branch ^merge{n}(%y{n} : i32)
        ^other{n}:
          spirv.Branch ^merge{n}({value} : i32)
        ^merge{n}(%m{n}: i32):
          spirv.mlir.merge %m{n} : i32
        }}""",
    )
    k.output(r, I32, "switch")


def _call(k: Kernel) -> None:
    type = Type(str(k.rng.choice(INTEGERS)))
    step = int(k.rng.integers(1, 50))
    k.functions.append(f"""
      spirv.func @search(%n: {type}, %limit: i32) -> {type} "None" {{
        %zero = spirv.Constant 0 : i32
        %one = spirv.Constant 1 : i32
        %step = spirv.Constant {step} : {type}
        spirv.mlir.loop {{
          spirv.Branch ^header(%zero, %n : i32, {type})
        ^header(%i: i32, %x: {type}):
          %more = spirv.SLessThan %i, %limit : i32
          spirv.BranchConditional %more, ^body, ^merge
        ^body:
          %y = spirv.IAdd %x, %step : {type}
          %low = spirv.SLessThan %y, %n : {type}
          spirv.mlir.selection {{
            spirv.BranchConditional %low, ^then, ^after
          ^then:
            spirv.ReturnValue %y : {type}
          ^after:
            spirv.mlir.merge
          }}
          spirv.Branch ^continue
        ^continue:
          %j = spirv.IAdd %i, %one : i32
          spirv.Branch ^header(%j, %y : i32, {type})
        ^merge:
          spirv.mlir.merge
        }}
        spirv.ReturnValue %n : {type}
      }}""")
    value, _ = k.input(type)
    result = k.op(f"spirv.FunctionCall @search({value}, {_small(k, 7)}) : ({type}, i32) -> {type}")
    k.output(result, type, f"a call : {type}")


def _variables(k: Kernel) -> None:
    type = Type(str(k.rng.choice(INTEGERS)), int(k.rng.integers(1, 5)))
    array = f"!spirv.array<4 x {type}>"
    a, b = k.input(type)[0], k.input(type)[0]
    pointer = f"!spirv.ptr<{array}, Function>"
    k.functions.append(f"""
      spirv.func @keep(%a: {type}, %b: {type}, %i: i32) -> {type} "None" {{
        %array = spirv.Variable : {pointer}
        %zero = spirv.Constant 0 : i32
        %one = spirv.Constant 1 : i32
        %two = spirv.Constant 2 : i32
        %three = spirv.Constant 3 : i32
        %p0 = spirv.AccessChain %array[%zero] : {pointer}, i32 -> !spirv.ptr<{type}, Function>
        %p1 = spirv.AccessChain %array[%one] : {pointer}, i32 -> !spirv.ptr<{type}, Function>
        %p2 = spirv.AccessChain %array[%two] : {pointer}, i32 -> !spirv.ptr<{type}, Function>
        %p3 = spirv.AccessChain %array[%three] : {pointer}, i32 -> !spirv.ptr<{type}, Function>
        spirv.Store "Function" %p0, %a : {type}
        spirv.Store "Function" %p1, %b : {type}
        spirv.Store "Function" %p2, %a : {type}
        spirv.Store "Function" %p3, %b : {type}
        %last = spirv.BitwiseAnd %i, %three : i32
        %odd = spirv.IEqual %last, %one : i32
        spirv.mlir.selection {{
          spirv.BranchConditional %odd, ^then, ^merge
        ^then:
          %sum = spirv.IAdd %a, %b : {type}
          %mine = spirv.AccessChain %array[%last] : {pointer}, i32 -> !spirv.ptr<{type}, Function>
          spirv.Store "Function" %mine, %sum : {type}
          spirv.Branch ^merge
        ^merge:
          spirv.mlir.merge
        }}
        %p = spirv.AccessChain %array[%last] : {pointer}, i32 -> !spirv.ptr<{type}, Function>
        %r = spirv.Load "Function" %p : {type}
        spirv.ReturnValue %r : {type}
      }}""")
    result = k.op(f"spirv.FunctionCall @keep({a}, {b}, %id) : ({type}, {type}, i32) -> {type}")
    k.output(result, type, f"an array of variables : {type}")
