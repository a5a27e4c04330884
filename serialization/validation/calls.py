"""Rules of functions and calls (FUN)."""

from __future__ import annotations

from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)


@instruction_rule("FUN-01", "3.49.9", "Function")
def function(m: Module, i: Instruction) -> Problems:
    """A function must have a function type, which matches its result type and parameters."""
    type_ = m.types.get(i.get("function_type"))
    if type_ is None or type_.kind != "Function":
        yield Problem(
            f"{m.spell(i.get('function_type'))} is not a function type",
            "name the OpTypeFunction of the function's signature",
        )
        return
    if type_.element is not None and type_.element.id != i.type_id:
        yield Problem(
            f"the result type differs from the function type's {type_.element}",
            remedies.result_type(type_.element),
        )
    body = m.by_function.get(i.result)
    if body is None or body.at is not i:
        return
    if len(body.parameters) != len(type_.members):
        yield Problem(
            f"the function has {len(body.parameters)} parameters, but its type has "
            f"{len(type_.members)}",
            f"give the function {len(type_.members)} OpFunctionParameter",
        )
    for parameter, want in zip(body.parameters, type_.members, strict=False):
        if want is not None and parameter.type_id != want.id:
            yield Problem(
                f"the parameter has type {m.types.get(parameter.type_id)}, not {want}",
                f"make the parameter's type {want}",
                parameter,
            )


@instruction_rule("FUN-02", "3.49.9", "FunctionCall")
def call(m: Module, i: Instruction) -> Problems:
    """A call must have the function's result type, and arguments of the parameters' types."""
    callee = m.definitions.get(i.get("function"))
    if callee is None:
        return
    if callee.op != "Function":
        yield Problem(f"{m.spell(i.get('function'))} is not a function", remedies.FUNCTION)
        return
    if callee.type_id != i.type_id:
        yield Problem(
            f"the call must return {m.types.get(callee.type_id)}, as the function does",
            remedies.result_type(m.types.get(callee.type_id)),
        )
    type_ = m.types.get(callee.get("function_type"))
    if type_ is None:
        return
    arguments = i.words[4:]
    if len(arguments) != len(type_.members):
        yield Problem(
            f"the call has {len(arguments)} arguments, but the function has {len(type_.members)} "
            f"parameters",
            f"pass {len(type_.members)} arguments",
        )
    for k, (id, want) in enumerate(zip(arguments, type_.members, strict=False)):
        argument_type = m.type_of(id)
        if argument_type is None or want is None:
            continue
        if argument_type is not want:
            yield Problem(
                f"argument {k} has type {argument_type}, not {want}", remedies.convert("it", want)
            )
        elif want.kind == "Pointer" and m.addressing_model == "Logical":
            yield from _pointer_argument(m, k, id, want.storage)


def _pointer_argument(m: Module, k: int, id: int, storage: str) -> Problems:
    if "VariablePointers" in m.capabilities and storage in ("StorageBuffer", "Workgroup"):
        return
    if storage == "StorageBuffer":
        if "VariablePointersStorageBuffer" not in m.capabilities:
            yield Problem(
                f"argument {k} points to {storage}, and calls do not accept such pointers",
                remedies.declare("VariablePointersStorageBuffer"),
            )
        return
    if storage not in (
        "UniformConstant", "Function", "Private", "Workgroup", "AtomicCounter", "Image",
        "TileImageEXT", "TaskPayloadWorkgroupEXT", "NodePayloadAMDX",
    ):  # fmt: skip
        yield Problem(
            f"argument {k} points to {storage}, and calls do not accept such pointers",
            "load the pointee and pass its value",
        )
    elif storage != "UniformConstant" and m.op_of(id) not in (
        "Variable", "FunctionParameter", "UntypedVariableKHR", ""
    ):  # fmt: skip
        yield Problem(
            f"argument {k} is the result of Op{m.op_of(id)}, not a variable or a parameter",
            "pass a variable or a parameter",
        )


@instruction_rule("FUN-03", "3.49.17", "Return ReturnValue")
def returned(m: Module, i: Instruction) -> Problems:
    """A returned value must have the function's result type."""
    if i.block is None:
        return
    result = m.types.get(i.block.function.at.type_id)
    if result is None:
        return
    if i.op == "Return":
        if result.kind != "Void":
            yield Problem(f"the function must return {result}", "end the block with OpReturnValue")
        return
    value = m.type_of(i.get("value"))
    if value is None:
        return
    if value is not result or value.kind == "Void":
        yield Problem(
            f"the value has type {value}, but the function returns {result}",
            remedies.convert("it", result),
        )
    elif (
        value.is_pointer
        and m.addressing_model == "Logical"
        and not {"VariablePointers", "VariablePointersStorageBuffer"} & m.capabilities
    ):
        yield Problem("a function cannot return a pointer under logical addressing", remedies.INDEX)


@module_rule("FUN-04", "2.16.1")
def recursion(m: Module) -> Problems:
    """A function that an entry point reaches must not be recursive."""
    calls = {
        f.id: sorted({c.words[3] for c in _calls(m, f.id)} & set(m.by_function))
        for f in m.functions
    }
    state: dict[int, int] = {}
    entry = {e.function for e in m.entry_points}
    for start in calls:
        stack = [(start, iter(calls[start]))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            at, rest = stack[-1]
            for to in rest:
                if state.get(to) == 1:
                    if entry:
                        yield Problem(
                            f"the function {m.spell(to)} cannot call itself, also not indirectly",
                            "replace the recursion by a loop",
                            m.definitions[to],
                        )
                elif to not in state:
                    state[to] = 1
                    stack.append((to, iter(calls[to])))
                    break
            else:
                state[at] = 2
                stack.pop()


def _calls(m: Module, function: int) -> list[Instruction]:
    callee = m.by_function.get(function)
    if callee is None:
        return []
    return [
        c
        for b in callee.blocks
        for c in b.instructions
        if c.op == "FunctionCall" and len(c.words) > 3
    ]


@module_rule("FUN-05", "2.16.1")
def linkage(m: Module) -> Problems:
    """A function must have the linkage Import if and only if it has no body."""
    for f in m.functions:
        decoration = m.decoration(f.id, "LinkageAttributes")
        imported = decoration is not None and decoration.parameters[-1:] == (1,)
        if not f.blocks and not imported:
            yield Problem(
                "a function without a body is not imported",
                "add blocks, or decorate the function with LinkageAttributes Import",
                f.at,
            )
        elif f.blocks and imported:
            yield Problem(
                "an imported function cannot have a body",
                "remove its blocks, or decorate the function with LinkageAttributes Export",
                f.at,
            )
