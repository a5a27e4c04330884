"""
Registers the dialects and passes of this package with `xdsl-opt`, without importing them.

Every factory imports inside its body, so that the installed package does not slow down `xdsl-opt
--version`.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from xdsl.ir import Dialect
from xdsl.universe import XDSL_UNIVERSE, Universe

from xdsl_spirv.upstream import (
    block_labels,
    dense_literals,
    fast_text,
    lazy_formats,
    on_demand,
    string_literals,
)


def _lazy(path: str) -> Callable[[], Any]:
    """Returns a function that imports `module:name` when called."""
    module, name = path.split(":")
    return lambda: getattr(import_module(f"xdsl_spirv.{module}"), name)


DIALECTS = {
    "spirv": "dialects.spirv:SPIRV",
    "schedule": "dialects.schedule:Schedule",
    "tile": "dialects.tile:Tile",
}

PASSES: dict[str, str] = {
    "lift-weights": "compiler.weights:LiftWeightsPass",
    "fold-constants": "compiler.fold:FoldConstantsPass",
    "note-ranges": "compiler.weights:NoteRangesPass",
    "own-results": "passes.graph.own_results:OwnResultsPass",
    "decompose-linalg": "passes.graph.decompose_linalg:DecomposeLinalgPass",
    "split-products": "passes.schedule.split_products:SplitProductsPass",
    "unroll-host-loops": "passes.graph.unroll_host_loops:UnrollHostLoopsPass",
    "attention-to-cooperative-matrix": (
        "passes.kernel.attention_code:AttentionToCooperativeMatrixPass"
    ),
    "attention-to-fma": "passes.kernel.attention_lanes_code:AttentionToFMAPass",
    "form-attention": "passes.schedule.form_attention:FormAttentionPass",
    "join-products": "passes.schedule.join_products:JoinProductsPass",
    "split-reductions": "passes.schedule.split_reductions:SplitReductionsPass",
    "narrow-to-32-bits": "passes.graph.narrow_to_32_bits:NarrowTo32BitsPass",
    "scalars-into-loops": "passes.graph.scalars_into_loops:ScalarsIntoLoopsPass",
    "choose-layouts": "passes.schedule.choose_layouts:ChooseLayoutsPass",
    "linalg-to-contraction": "passes.schedule.linalg_to_contraction:LinalgToContractionPass",
    "form-dispatches": "passes.graph.form_dispatches:FormDispatchesPass",
    "linalg-quantized-to-contraction": (
        "passes.graph.quantized_contractions:QuantizedContractionsPass"
    ),
    "update-states": "passes.graph.update_states:UpdateStatesPass",
    "join-dispatches": "passes.graph.join_dispatches:JoinDispatchesPass",
    "turn-weights": "passes.schedule.turn_weights:TurnWeightsPass",
    "assign-schedule": "passes.schedule.assign_schedule:AssignSchedulePass",
    "fold-norms": "passes.schedule.fold_rows:FoldNormsPass",
    "fold-readers": "passes.schedule.fold_rows:FoldReadersPass",
    "fold-elements": "passes.schedule.fold_rows:FoldElementsPass",
    "fold-parts": "passes.schedule.fold_parts:FoldPartsPass",
    "pack-operands": "passes.schedule.packing:PackOperandsPass",
    "outline-dispatches": "passes.kernel.outline_dispatches:OutlineDispatchesPass",
    "contraction-to-dot": "passes.kernel.contraction_to_fma:ContractionToDotPass",
    "contraction-to-fma": "passes.kernel.contraction_to_fma:ContractionToFMAPass",
    "contraction-to-rotate": "passes.kernel.contraction_to_rotate:ContractionToRotatePass",
    "contraction-to-rows": "passes.kernel.shared_units:ContractionToRowsPass",
    "contraction-to-cooperative-matrix": (
        "passes.kernel.contraction_to_cooperative_matrix:ContractionToCooperativeMatrixPass"
    ),
    "raise-tiles": "passes.graph.raise_tiles:RaiseTilesPass",
    "lower-tiles": "passes.kernel.lower_tiles:LowerTilesPass",
    "loops-to-invocations": "passes.loops.to_invocations:LoopsToInvocationsPass",
    "kernel-to-spirv": "passes.spirv.kernel_to_spirv:KernelToSPIRVPass",
    "linalg-to-spirv": "compiler.pipeline:LinalgToSPIRVPass",
    "spirv-bfloat16-to-bits": "passes.spirv.fallback.bfloat16_to_bits:BFloat16ToBitsPass",
    "spirv-cooperative-matrix-to-invocations": (
        "passes.spirv.fallback.cooperative_matrix_to_invocations:CooperativeMatrixToInvocationsPass"
    ),
    "spirv-dot-to-shifts": "passes.spirv.fallback.dot_to_shifts:DotToShiftsPass",
    "spirv-int64-to-words": "passes.spirv.fallback.int64_to_words:Int64ToWordsPass",
    "spirv-small-integers-to-32-bits": (
        "passes.spirv.fallback.small_integers_to_32_bits:SmallIntegersTo32BitsPass"
    ),
    "spirv-small-storage-to-words": (
        "passes.spirv.fallback.small_storage_to_words:SmallStorageToWordsPass"
    ),
    "spirv-rotate-to-shuffle": "passes.spirv.fallback.rotate_to_shuffle:RotateToShufflePass",
    "spirv-to-glsl450-memory-model": (
        "passes.spirv.fallback.glsl450_memory_model:GLSL450MemoryModelPass"
    ),
    "spirv-to-vulkan12": "passes.spirv.fallback.to_vulkan12:ToVulkan12Pass",
    "spirv-share-kernels": "passes.spirv.share_kernels:ShareKernelsPass",
    "spirv-split-entry-points": "passes.spirv.split_entry_points:SplitEntryPointsPass",
    "spirv-specialize": "passes.spirv.specialize:SpecializePass",
    "spirv-update-vce": "passes.spirv.update_vce:UpdateVCEPass",
}

NEEDS: dict[str, tuple[str, ...]] = {
    "lift-weights": ("dense", "dense_resource"),
    "note-ranges": ("program.value",),
    "decompose-linalg": (
        *("linalg.softmax", "linalg.pack", "linalg.unpack", "bf16"),
        *("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"),
        *("tensor.from_elements", "arith on tensors", "affine.apply", "tensor=index"),
        "bufferization.alloc_tensor",
        *(f"arith.{name}_extended" for name in ("addui", "mulsi", "mului")),
        *(f"i{width}" for width in range(2, 64) if width not in (8, 16, 32)),
        *(f"linalg.winograd_{part}_transform" for part in ("filter", "input", "output")),
    ),
    "unroll-host-loops": ("scf.for", "scf.forall", "scf.if"),
    "linalg-quantized-to-contraction": ("integer_type",),
    "narrow-to-32-bits": ("i64", "f64"),
    "choose-layouts": ("affine_map=windows",),
    "form-attention": ("math.exp", "math.exp2", "linalg.exp"),
    "join-products": ("schedule.attention",),
    "update-states": ("program.state",),
    "join-dispatches": ("several schedule.dispatch",),
    "turn-weights": ("program.value",),
    "fold-norms": ("schedule.rows",),
    "fold-readers": ("schedule.rows",),
    "fold-elements": ("schedule.rows",),
    "fold-parts": ("tensor.extract_slice",),
    "pack-operands": (
        "schedule.attention",
        "schedule.direct",
        "schedule.staged=panels",
        "schedule.staged=fragments",
    ),
    "attention-to-cooperative-matrix": ("schedule.attention", "schedule.pack"),
    "attention-to-fma": ("schedule.attention_lanes",),
    "contraction-to-dot": ("schedule.instruction=dot",),
    "contraction-to-fma": ("schedule.instruction=fma",),
    "contraction-to-rotate": ("schedule.window",),
    "contraction-to-rows": ("schedule.rows",),
    "loops-to-invocations": ("schedule.loops",),
    "spirv-bfloat16-to-bits": ("bf16",),
    "spirv-int64-to-words": ("i64", "si64", "ui64"),
    "spirv-small-storage-to-words": ("i8", "si8", "ui8", "i16", "si16", "ui16", "f16"),
    "spirv-small-integers-to-32-bits": ("i8", "si8", "ui8", "i16", "si16", "ui16"),
    "spirv-share-kernels": ("several spirv.module",),
}
"""
Maps a pass to the names of types, operations and attributes that it can change.

Pipelines skip a pass if the module contains none of the pass's names (see
upstream/passes_on_demand.py). A pass without an entry always runs.
"""

GRANTED: dict[str, dict[str, tuple[str, ...]]] = {
    "spirv-int64-to-words": {"int64": ("i64", "si64", "ui64")},
    "spirv-small-storage-to-words": {
        "storage-8-bit": ("i8", "si8", "ui8"),
        "storage-16-bit": ("i16", "si16", "ui16", "f16"),
    },
    "spirv-small-integers-to-32-bits": {
        "int8": ("i8", "si8", "ui8"),
        "int16": ("i16", "si16", "ui16"),
    },
}
"""
Maps a pass and a feature of targets to names in `NEEDS`. If the target has the feature, these names
alone do not make the pass run.
"""

TARGETS: dict[str, str] = {
    "spirv-assembly": "serialization.text.target:SPIRVAssembly",
    "spirv-run": "tools.run_target:SPIRVRun",
    "spirv-binary": "serialization.encode.target:SPIRVBinary",
}

UNIVERSE = Universe(
    all_dialects={name: _lazy(path) for name, path in DIALECTS.items()},
    all_passes={name: _lazy(path) for name, path in PASSES.items()},
    all_targets={name: _lazy(path) for name, path in TARGETS.items()},
)


def _extend_linalg() -> None:
    """Replaces `linalg` in xDSL's universe by the dialect of upstream/linalg_extensions.py."""
    factory = XDSL_UNIVERSE.all_dialects["linalg"]

    def extended() -> Dialect:
        from xdsl_spirv.upstream.linalg_extensions import ExtendedLinalg

        return ExtendedLinalg(factory())

    XDSL_UNIVERSE.all_dialects["linalg"] = cache(extended)


def _extend(name: str, module: str) -> None:
    """Adds the operations of a module of upstream/ to a dialect in xDSL's universe."""
    factory = XDSL_UNIVERSE.all_dialects[name]

    def extended() -> Dialect:
        return import_module(f"xdsl_spirv.upstream.{module}").extend(factory())

    XDSL_UNIVERSE.all_dialects[name] = extended


_extend_linalg()
_extend("arith", "scalar_extensions")
_extend("math", "scalar_extensions")
_extend("tensor", "reshapes")
_extend("scf", "forall")
_extend("tensor", "forall")

# Models without spirv operations contain such literals, too.
dense_literals.install()
fast_text.install()
string_literals.install()
block_labels.install()

# Must precede the import of any dialect: contexts import `dialects.spirv`, and xDSL's dialects have
# formats, too.
on_demand.install()
lazy_formats.install()
