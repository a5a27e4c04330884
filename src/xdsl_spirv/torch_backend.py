"""
Implements the backend `xdsl_spirv` of `torch.compile`: graphs run as programs on a Vulkan device.

    model = torch.compile(model.eval(), backend="xdsl_spirv", options={"target": "nvidia-h200"})
    with torch.no_grad():
        y = model(x)

A graph is compiled at its first call, with the parameters and input sizes of that call. Sizes that
are dynamic in TorchDynamo stay dynamic, so that one program accepts any batch. If dynamic sizes are
refused, a program is compiled for each size. If static sizes are also refused, the graph runs
eagerly, and a warning gives the reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.torch_import import from_torch
from xdsl_spirv.runtime.errors import ProgramError

if TYPE_CHECKING:
    from xdsl_spirv.frontends.model import ImportedModel
    from xdsl_spirv.runtime.program import Program

KEPT = 8
"""Maximum number of programs of one graph, for different input shapes and parameter values."""
STATIC = "_dynamo_static_input_type"
"""TorchDynamo's attribute of graph inputs that are parameters or buffers of a module."""
OPTIONS: dict[str, Any] = {"target": None, "device": None, "fallback": True}


class EagerGraphWarning(UserWarning):
    """The warning that a graph runs eagerly, with the reason."""


def backend(
    graph: Any, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """
    Compiles a graph of TorchDynamo; `torch.compile(backend="xdsl_spirv")` calls this function.

    Options: `target` (name or file of a target, default: the best device of this machine),
    `device` (as in `Program.__call__`), and `fallback` (False raises errors instead of running
    eagerly).
    """
    given = dict(options or {})
    unknown = given.keys() - OPTIONS.keys()
    if unknown:
        raise ProgramError(
            f"there is no option {min(unknown)!r}",
            f"options: {', '.join(OPTIONS)}",
            "correct the name",
        )
    return CompiledGraph(graph, **{**OPTIONS, **given})


@dataclass
class CompiledGraph:
    """
    A graph and its compiled programs, which are cached by input shapes and parameter versions.
    """

    graph: Any
    target: str | None
    device: str | None
    fallback: bool
    programs: dict[Any, Program | None] = field(default_factory=dict[Any, Any])

    def __post_init__(self) -> None:
        nodes = [node for node in self.graph.graph.nodes if node.op == "placeholder"]
        self.fixed = [STATIC in (node.meta.get("tensor_dict") or {}) for node in nodes]
        """For each argument, True if it is a parameter or buffer of a module."""
        values = [node.meta.get("example_value") for node in nodes]
        self.sizes: list[Any] = _open_sizes(values)
        """
        For each argument, the symbol of a size, or the symbols of a tensor's dynamic dimensions.
        """

    def __call__(self, *arguments: Any) -> Any:
        import torch

        inputs = [
            argument
            for argument, fixed in zip(arguments, self.fixed, strict=True)
            if isinstance(argument, torch.Tensor) and not fixed
        ]
        key = tuple(map(_key, arguments, self.fixed, self.sizes)), torch.is_grad_enabled()
        if key not in self.programs:
            while len(self.programs) >= KEPT:
                del self.programs[next(iter(self.programs))]
            self.programs[key] = self._compile_program(arguments, inputs)
        program = self.programs[key]
        if program is None:
            return self.graph(*arguments)
        results = program(*(tensor.detach().cpu().numpy() for tensor in inputs), device=self.device)
        results = results if isinstance(results, tuple) else (results,)
        place = inputs[0].device if inputs else "cpu"
        return tuple(torch.from_numpy(result).to(place) for result in results)

    def _compile_program(self, arguments: Sequence[Any], inputs: Sequence[Any]) -> Program | None:
        """
        Compiles the graph for these arguments. Warns and returns None if the graph is refused.
        """
        from xdsl_spirv.tools.messages import message

        try:
            return self._program(arguments, inputs)
        except Exception as error:
            said = message(error)
            if not self.fallback or said is None:
                raise
            text = f"xdsl_spirv: the graph runs eagerly: {said}"
            warnings.warn(text, EagerGraphWarning, stacklevel=4)
            return None

    def _program(self, arguments: Sequence[Any], inputs: Sequence[Any]) -> Program:
        import torch

        from xdsl_spirv.compiler.api import compile

        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise FrontendError(
                "the graph computes gradients",
                "torch.compile",
                "call the module under torch.no_grad()",
            )
        if any(self.sizes):
            try:
                return compile(self._open_model(torch, arguments, inputs), self.target)
            except (FrontendError, ProgramError, DiagnosticException):
                self.sizes = [None] * len(self.sizes)
        return compile(from_torch(self._module(torch, arguments), inputs), self.target)

    def _open_model(
        self, torch: Any, arguments: Sequence[Any], inputs: Sequence[Any]
    ) -> ImportedModel:
        """Imports the graph with dynamic sizes. Raises the errors of exporter and importer."""
        symbols = [
            sizes
            for argument, sizes, fixed in zip(arguments, self.sizes, self.fixed, strict=True)
            if isinstance(argument, torch.Tensor) and not fixed
        ]
        dims = {symbol: torch.export.Dim(symbol) for sizes in symbols for symbol in sizes.values()}
        shapes = tuple({n: dims[symbol] for n, symbol in sizes.items()} for sizes in symbols)
        module = self._module(torch, arguments, symbols)
        return from_torch(module, inputs, dynamic_shapes={"inputs": shapes})

    def _module(
        self, torch: Any, arguments: Sequence[Any], open_sizes: Sequence[Mapping[int, str]] = ()
    ) -> Any:
        """
        Wraps the graph in a module whose buffers are the graph's parameters. `open_sizes` are the
        dynamic sizes of the arguments.
        """
        graph, kinds, sizes = self.graph, self.fixed, self.sizes
        places = {symbol: (n, d) for n, at in enumerate(open_sizes) for d, symbol in at.items()}

        class Fixed(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for number, (argument, fixed) in enumerate(zip(arguments, kinds, strict=True)):
                    if fixed:
                        self.register_buffer(f"fixed{number}", argument.detach())

            def forward(self, *inputs: Any) -> Any:
                rest = iter(inputs)
                merged: list[Any] = []
                for number, argument in enumerate(arguments):
                    if kinds[number]:
                        merged.append(getattr(self, f"fixed{number}"))
                    elif isinstance(argument, torch.Tensor):
                        merged.append(next(rest))
                    elif isinstance(sizes[number], str) and sizes[number] in places:
                        position, dimension = places[sizes[number]]
                        merged.append(inputs[position].shape[dimension])
                    else:
                        merged.append(argument)
                return graph(*merged)

        return Fixed().eval()


def _open_sizes(values: Sequence[Any]) -> list[Any]:
    """
    Returns the dynamic size (`s0`) or dimensions (`{0: "s0"}`) of each argument.

    Every element is None if no size is dynamic, or if a size is an expression of symbols.
    """
    listed: list[Any] = []
    for value in values:
        if hasattr(value, "shape"):
            shape = enumerate(map(str, value.shape))
            listed.append({n: size for n, size in shape if not size.isdigit()})
        else:
            listed.append(str(value) if hasattr(value, "node") else None)
    symbols = {s for sizes in listed if isinstance(sizes, dict) for s in sizes.values()}
    named = {sizes for sizes in listed if isinstance(sizes, str)}
    plain = all(symbol.isidentifier() for symbol in symbols) and named <= symbols
    return listed if plain and symbols else [None] * len(values)


def _key(argument: Any, fixed: bool, sizes: Any) -> Any:
    """Returns the cache key of an argument: an input's shape, or a parameter and its version."""
    if not hasattr(argument, "dtype"):
        return argument if sizes is None else sizes
    if fixed:
        return id(argument), argument._version, argument.data_ptr()
    shape = tuple((sizes or {}).get(n, size) for n, size in enumerate(argument.shape))
    return str(argument.dtype), shape, argument.requires_grad
