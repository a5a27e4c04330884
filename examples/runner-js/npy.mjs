// Arrays `{ type, shape, data }` in numpy's files.

import { refuse } from "./sizes.mjs";
import { numpyNames } from "./types.mjs";

const MAGIC = "\x93NUMPY";
const latin = new TextDecoder("latin1");

// The array of a .npy file, which has to hold elements of a type.
export function readNpy(file, type, place) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.length < 12 || file[0] !== 0x93 || latin.decode(file.subarray(1, 6)) !== "NUMPY") {
    refuse(`${place} is no .npy file`);
  }
  const [start, length] =
    file[6] === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = latin.decode(file.subarray(start, start + length));
  const [, descr] = /'descr': '([^']*)'/.exec(header) ?? [];
  const [, shape] = /'shape': \(([^)]*)\)/.exec(header) ?? refuse(`${place} is cut off`);
  if (!header.includes("'fortran_order': False"))
    refuse(`${place}: only arrays in C's order are read`);
  if (!numpyNames(type).includes(descr)) refuse(`${place} holds ${descr}, and ${type} is wanted`);
  return { type, shape: (shape.match(/\d+/g) ?? []).map(Number), data: file.slice(start + length) };
}

// The bytes of a .npy file.
export function writeNpy({ type, shape, data }) {
  const extents = shape.map((size) => `${size},`).join(" ");
  const said = `{'descr': '${numpyNames(type)[0]}', 'fortran_order': False, 'shape': (${extents}), }`;
  const header = said.padEnd(Math.ceil((said.length + 11) / 64) * 64 - 11) + "\n";
  const start = [...MAGIC].map((letter) => letter.charCodeAt(0));
  const file = new Uint8Array(10 + header.length + data.length);
  file.set([...start, 1, 0, header.length & 255, header.length >> 8]);
  file.set(new TextEncoder().encode(header), 10);
  file.set(data, 10 + header.length);
  return file;
}
