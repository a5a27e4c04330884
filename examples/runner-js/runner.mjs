// Runs a compiled program over WebGPU: naga translates its SPIR-V, Dawn runs it.
//
//     node runner.mjs DIR A=a.npy B=b.npy -o out                     writes out/result0.npy, ...
//     node runner.mjs DIR prefill tokens=t.npy past=0 -o 0 --then decode token=n.npy past=7 -o 1
//
// Runs behind --then share states.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as naga from "naga-wasm";
import { create, globals } from "webgpu";
import { Program } from "./program.mjs";
import { Refused, refuse } from "./sizes.mjs";
import { bytesOf, numpyNames } from "./types.mjs";

const USAGE =
  "usage: runner.mjs DIR [--adapter NAME] CALL [--then CALL ...], a call: [FUNCTION] [NAME=FILE.npy|NUMBER ...] [-o DIR]";

function bytesIn(path) {
  try {
    return readFileSync(path);
  } catch (error) {
    refuse(`${path} cannot be read: ${error.code}`);
  }
}

// The array of a .npy file, which has to hold elements of a type.
function readNpy(path, type) {
  const file = bytesIn(path);
  if (file.length < 12 || file.toString("latin1", 0, 6) !== "\x93NUMPY")
    refuse(`${path} is no .npy file`);
  const [start, length] = file[6] === 1 ? [10, file.readUInt16LE(8)] : [12, file.readUInt32LE(8)];
  const header = file.toString("latin1", start, start + length);
  const [, descr] = /'descr': '([^']*)'/.exec(header) ?? [];
  const [, shape] = /'shape': \(([^)]*)\)/.exec(header) ?? refuse(`${path} is cut off`);
  if (!header.includes("'fortran_order': False"))
    refuse(`${path}: only arrays in C's order are read`);
  if (!numpyNames(type).includes(descr)) refuse(`${path} holds ${descr}, and ${type} is wanted`);
  return {
    type,
    shape: (shape.match(/\d+/g) ?? []).map(Number),
    data: new Uint8Array(file.subarray(start + length)),
  };
}

function writeNpy(path, { type, shape, data }) {
  const extents = shape.map((size) => `${size},`).join(" ");
  const said = `{'descr': '${numpyNames(type)[0]}', 'fortran_order': False, 'shape': (${extents}), }`;
  const header = said.padEnd(Math.ceil((said.length + 11) / 64) * 64 - 11) + "\n";
  const length = Buffer.alloc(2);
  length.writeUInt16LE(header.length);
  writeFileSync(
    path,
    Buffer.concat([Buffer.from("\x93NUMPY\x01\x00", "latin1"), length, Buffer.from(header), data]),
  );
}

// The value behind an option, which is taken out of the words.
function option(words, name) {
  const at = words.indexOf(name);
  if (at < 0) return undefined;
  const [, value] = words.splice(at, 2);
  return value ?? refuse(`${name} takes a value. ${USAGE}`);
}

async function call(program, words) {
  const output = option(words, "-o");
  const name = words[0]?.includes("=") === false ? words.shift() : program.manifest.function;
  const f = program.functions.get(name) ?? refuse(`there is no function ${name}`);
  const given = new Map(
    words.map((word) => {
      const [input, value] =
        word.match(/^(.*?)=(.*)$/s)?.slice(1) ?? refuse(`what is ${word}? ${USAGE}`);
      const record =
        f.buffers.find((b) => b.name === input) ?? refuse(`there is no input ${input}`);
      if (record.kind !== "scalar") return [input, readNpy(value, record.type)];
      return [
        input,
        /^\d+$/.test(value) ? Number(value) : refuse(`${input}: ${value} is no number`),
      ];
    }),
  );
  const results = await program.run(given, name);
  if (output === undefined) return;
  mkdirSync(output, { recursive: true });
  for (const [result, array] of results)
    writeNpy(join(output, `${result.replaceAll("/", "_")}.npy`), array);
}

let gpu; // Dawn is there for as long as this refers to it

async function adapterNamed(name) {
  Object.assign(globalThis, globals);
  try {
    gpu = create(name === undefined ? [] : [`adapter=${name}`]);
    return (await gpu.requestAdapter()) ?? refuse("there is none");
  } catch (error) {
    return refuse(`WebGPU finds no device ${name ?? ""}: ${error.message}`);
  }
}

async function main([folder, ...words]) {
  if (folder === undefined) refuse(USAGE);
  const adapter = await adapterNamed(option(words, "--adapter"));
  const program = await Program.open(adapter, naga, async (name) => bytesIn(join(folder, name)));
  while (words.length) {
    const end = words.includes("--then") ? words.indexOf("--then") : words.length;
    await call(program, words.splice(0, end));
    words.shift();
  }
  program.close();
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Refused ? `runner: ${error.message}` : error);
  process.exitCode = 1;
}
process.exit(); // with Dawn still there: it has threads of its own
