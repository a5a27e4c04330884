// RUN: xdsl-opt %s -p 'assign-schedule{target=nvidia-h2000}' --verify-diagnostics | filecheck %s
// RUN: xdsl-opt %s -p outline-dispatches --verify-diagnostics | filecheck %s --check-prefix=NONE

// CHECK: assign-schedule: 'builtin.module': there is no target 'nvidia-h2000': known targets are amd-rdna2, amd-rdna3, amd-rdna3.5, amd-rdna4, arm-mali, intel-dg2, intel-lnl, intel-xe2, lavapipe, nvidia-ada, nvidia-ampere, nvidia-h200, qualcomm-adreno, webgpu; did you mean 'nvidia-h200'?
// NONE: outline-dispatches: 'builtin.module': the module has no target: run assign-schedule{target=...}, or set its attribute schedule.target = "..."
builtin.module {
}
