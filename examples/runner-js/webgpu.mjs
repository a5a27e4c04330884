// What a program needs of a device, in the words of WebGPU; and its kernels in WGSL.

import { legalize } from "./legalize.mjs";
import { refuse } from "./sizes.mjs";

const ALWAYS = "";
const FEATURES = {
  vulkanMemoryModel: ALWAYS, // WGSL has a memory model of its own, and the translation is in it
  shaderFloat16: "shader-f16",
  storageBuffer16BitAccess: "shader-f16", // of f16; integers of 16 bits are refused with their kernel
};
const SUBGROUP_OPERATIONS = [
  "BASIC",
  "VOTE",
  "ARITHMETIC",
  "BALLOT",
  "SHUFFLE",
  "SHUFFLE_RELATIVE",
  "QUAD",
];
const LIMITS = {
  maxComputeSharedMemorySize: "maxComputeWorkgroupStorageSize",
  maxComputeWorkGroupInvocations: "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkGroupSize[0]": "maxComputeWorkgroupSizeX",
  "maxComputeWorkGroupSize[1]": "maxComputeWorkgroupSizeY",
  "maxComputeWorkGroupSize[2]": "maxComputeWorkgroupSizeZ",
  "maxComputeWorkGroupCount[0]": "maxComputeWorkgroupsPerDimension",
  "maxComputeWorkGroupCount[1]": "maxComputeWorkgroupsPerDimension",
  "maxComputeWorkGroupCount[2]": "maxComputeWorkgroupsPerDimension",
  maxPerStageDescriptorStorageBuffers: "maxStorageBuffersPerShaderStage",
  maxStorageBufferRange: "maxStorageBufferBindingSize",
  maxPushConstantsSize: "maxUniformBufferBindingSize", // they become a uniform buffer
};
const SUBGROUPS = "subgroups";
const SUBGROUP_SIZE = "subgroup-size-control";
const BASIC = "GroupNonUniform"; // the capability behind numbers of subgroups, and nothing else

// WebGPU's feature behind one way to have what is required; undefined if there is none.
function featureOf({ feature, property, bit = "" }) {
  if (property === "subgroupSupportedOperations") {
    const operation = /^VK_SUBGROUP_FEATURE_(\w+)_BIT$/.exec(bit)?.[1];
    return SUBGROUP_OPERATIONS.includes(operation) ? SUBGROUPS : undefined;
  }
  return Object.hasOwn(FEATURES, feature ?? "") ? FEATURES[feature] : undefined;
}

function checkLimits(limits, adapter) {
  for (const { limit, least, because } of limits) {
    if (!Object.hasOwn(LIMITS, limit))
      refuse(`${because} needs ${limit}, which WebGPU does not know`);
    const most = adapter.limits[LIMITS[limit]];
    if (most < least)
      refuse(`${because} needs ${limit} of ${least}, and ${nameOf(adapter)} has ${most}`);
  }
}

export const nameOf = ({ info }) => info.description || info.device || info.vendor || "the device";

// How kernels get subgroups of the size that they count on: `null` if they count on none, `numbers` if
// they only ask who they are, `device` or `asked` for if they exchange values.
function subgroupsOf({ full_subgroups, subgroup_size, features = [] }, adapter) {
  if (!full_subgroups) return null;
  const operations = features.filter(({ any }) => any.some((way) => featureOf(way) === SUBGROUPS));
  if (operations.every(({ because }) => because === BASIC)) return "numbers";
  const { subgroupMinSize: least, subgroupMaxSize: most } = adapter.info;
  if (least === subgroup_size && most === subgroup_size) return "device";
  if (adapter.features.has(SUBGROUP_SIZE) && least <= subgroup_size && subgroup_size <= most)
    return "asked";
  refuse(
    `the kernels count on subgroups of ${subgroup_size} invocations, and those of ${nameOf(adapter)} have ${least} to ${most}, which WebGPU does not choose from`,
  );
}

// Compares what a program requires with an adapter; returns what its device is to be made with, and
// how its kernels get their subgroups.
export function fit(requires, adapter) {
  if (requires.cooperative_matrices?.length)
    refuse("WebGPU has no cooperative matrices of Vulkan's");
  const features = new Set();
  for (const { because, any } of requires.features ?? []) {
    const names = any.map(featureOf).filter((name) => name !== undefined);
    const name =
      because === BASIC
        ? ALWAYS
        : names.find((name) => name === ALWAYS || adapter.features.has(name));
    if (name === undefined) refuse(`WebGPU lacks ${because} on ${nameOf(adapter)}`);
    if (name !== ALWAYS) features.add(name);
  }
  checkLimits(requires.limits ?? [], adapter);
  const subgroups = subgroupsOf(requires, adapter);
  if (subgroups === "asked") features.add(SUBGROUP_SIZE);
  const limits = [...new Set([...Object.values(LIMITS), "maxBufferSize"])];
  return {
    subgroups,
    subgroupSize: requires.subgroup_size,
    device: {
      requiredFeatures: [...features],
      requiredLimits: Object.fromEntries(limits.map((name) => [name, adapter.limits[name]])),
    },
  };
}

const STORAGE = /@group\((\d+)\) @binding\((\d+)\)\s*var<storage, read_write> (\w+):/g;
const ENTRY = /@compute @workgroup_size\([^)]*\)\s*fn (\w+)\(/g;

// A SPIR-V module in WGSL, by naga: `{ code, bindings, entry, places }`. Push constants become the uniform
// buffer at set 0 and binding `pushed`. What no statement writes is declared as read only, so that a
// dispatch may bind one buffer twice. `entry` gives an entry point the name that naga gave it, `places` a push constant its place in the
// uniform buffer.
export function translate(naga, kernel, binary, pushed, { subgroups, subgroupSize }) {
  const bindings = [];
  let { code, places } = wgsl(naga, kernel, binary);
  code = code.replace("var<immediate>", () => {
    bindings.push({ set: 0, binding: pushed, type: "uniform" });
    return `@group(0) @binding(${pushed}) var<uniform>`;
  });
  code = code.replace(STORAGE, (declared, set, binding, name) => {
    const isWritten = new RegExp(`&${name}\\b|^\\s*${name}\\b[^;]*[^=!<>]=[^=]`, "m").test(code);
    bindings.push({
      set: Number(set),
      binding: Number(binding),
      type: isWritten ? "storage" : "read-only-storage",
    });
    return isWritten ? declared : declared.replace("read_write", "read");
  });
  const entries = [...code.matchAll(ENTRY)].map(([, name]) => name);
  const entry = (name) => entryNamed(kernel, entries, name);
  if (subgroups === "numbers")
    return { code: withNumbers(kernel, code, subgroupSize), bindings, entry, places };
  if (subgroups === "asked") code = code.replace(ENTRY, `@subgroup_size(${subgroupSize}) $&`);
  const extensions =
    { device: [SUBGROUPS], asked: [SUBGROUPS, SUBGROUP_SIZE.replaceAll("-", "_")] }[subgroups] ??
    [];
  const enabled = extensions.map((name) => `enable ${name};\n`).join("");
  // SPIR-V asks for less uniformity than WGSL, and kernels keep to SPIR-V's rules.
  const [, own, body] = /^((?:enable \w+;\s*)*)([^]*)$/.exec(code);
  return {
    code: `${own}${enabled}diagnostic(off, subgroup_uniformity);\n${body}`,
    bindings,
    entry,
    places,
  };
}

function wgsl(naga, kernel, binary) {
  try {
    const legal = legalize(binary);
    const module = naga.parseSpirv(legal.binary);
    return { code: naga.writeWgsl(module, naga.validate(module)), places: legal.places };
  } catch (error) {
    const lines = String(error.formatted ?? error)
      .split("\n")
      .filter((line) => /\w/.test(line));
    return refuse(
      `the kernel ${kernel.name}: naga refuses it: ${[...new Set([lines[0], lines.at(-1)])].join(" ")}`,
    );
  }
}

// Kernels that exchange nothing within subgroups see those of any size: the numbers of invocations
// within their workgroup say which subgroup each would be in.
function withNumbers(kernel, code, size) {
  if (/\bsubgroup[A-Z]\w*\(/.test(code))
    refuse(`the kernel ${kernel.name} exchanges values within subgroups, and does not say so`);
  const [index] = /(?<=@builtin\(local_invocation_index\) )\w+/.exec(code) ?? [null];
  const own = index ?? "invocation_of_workgroup";
  const declared = index === null ? `@builtin(local_invocation_index) ${own}: u32, ` : "";
  const values = {
    subgroup_id: `${own} / ${size}u`,
    subgroup_invocation_id: `${own} % ${size}u`,
    subgroup_size: `${size}u`,
  };
  return code.replace(/^(fn \w+\()(.*@builtin\(.*)(\) \{)$/gm, (_, name, parameters, end) => {
    const lets = [];
    const rest = parameters.replace(
      /@builtin\((subgroup_\w+)\) (\w+): u32(, )?/g,
      (whole, builtin, parameter) => {
        if (!(builtin in values)) return whole;
        lets.push(`\n    let ${parameter} = ${values[builtin]};`);
        return "";
      },
    );
    return `${name}${lets.length ? declared : ""}${rest.replace(/, $/, "")}${end}${lets.join("")}`;
  });
}

// naga writes a name's last digit with a `_` behind it.
function entryNamed(kernel, entries, name) {
  const named = entries.filter((entry) => entry === name || entry === `${name}_`);
  if (named.length !== 1) refuse(`the kernel ${kernel.name} has no entry point ${name}`);
  return named[0];
}
