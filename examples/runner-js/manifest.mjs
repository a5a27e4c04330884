// program.json: a reader refuses versions and fields that it does not know (docs/program.md).

import { refuse } from "./sizes.mjs";

const SCHEMA = "xdsl-spirv-program";
const VERSIONS = [1, 2, 3, 4, 5, 6];

const FUNCTION = "function arguments results buffers dispatches memory equal limits loops";
const FIELDS = {
  program: `${FUNCTION} schema version generator target subgroup_size kernels weights source component_map functions requires padding`,
  functions: FUNCTION,
  buffers: "name kind type shape offset first",
  kernels: "name binary text entry_points spec_constants",
  entry_points: "name workgroup_size push_constant_bytes",
  dispatches: "kernel entry_point grid bindings spec_constants push_constants once",
  bindings: "set binding buffer",
  spec_constants: "id type default name value",
  push_constants: "offset type value",
  equal: "left right because",
  limits: "size most because limit least",
  loops: "first dispatches steps counter carried",
  requires: "vulkan spirv subgroup_size full_subgroups features cooperative_matrices limits",
  features: "because any",
  any: "feature structure property bit version extensions",
  cooperative_matrices: "m n k a b c result saturating scope",
};
const known = Object.fromEntries(
  Object.entries(FIELDS).map(([k, names]) => [k, new Set(names.split(" "))]),
);

function check(record, kind, place) {
  for (const [name, value] of Object.entries(record)) {
    if (!known[kind].has(name)) refuse(`program.json: the field ${place}${name} is not known`);
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && typeof item === "object" && !Array.isArray(item)) {
        if (!(name in known)) refuse(`program.json: ${place}${name} is no record`);
        check(item, name, `${place}${name}.`);
      }
    }
  }
}

// The manifest in a file's bytes.
export function readManifest(bytes) {
  let manifest;
  try {
    manifest = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    refuse(`program.json cannot be read: ${error.message}`);
  }
  const { schema, version } = manifest ?? {};
  if (schema !== SCHEMA || !VERSIONS.includes(version)) {
    refuse(`version ${version} of ${schema} is not known: 1 to ${VERSIONS.at(-1)} are`);
  }
  check(manifest, "program", "");
  if (!manifest.requires) {
    refuse(`a program of version ${version} does not say what it requires: compile it again`);
  }
  return manifest;
}

// The tensors of a safetensors file by name.
export function readTensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = bytes.length < 8 ? Infinity : 8 + Number(view.getBigUint64(0, true));
  if (start > bytes.length) refuse("the weights' file is cut off");
  const { __metadata__, ...entries } = JSON.parse(
    new TextDecoder().decode(bytes.subarray(8, start)),
  );
  return new Map(
    Object.entries(entries).map(([name, entry]) => {
      const [first, end] = entry.data_offsets;
      return [name, bytes.subarray(start + first, start + end)];
    }),
  );
}

// A file's name, which has to stay inside the program's folder.
export function inside(name) {
  const parts = String(name).split("/");
  if (/[\\:\0]/.test(name) || parts.some((part) => ["", ".", ".."].includes(part))) {
    refuse(`program.json: ${name} is no file of this folder`);
  }
  return name;
}
