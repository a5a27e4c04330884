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
import { readNpy, writeNpy } from "./npy.mjs";
import { Program } from "./program.mjs";
import { Refused, refuse } from "./sizes.mjs";

const USAGE =
  "usage: runner.mjs DIR [--adapter NAME] CALL [--then CALL ...], a call: [FUNCTION] [NAME=FILE.npy|NUMBER ...] [-o DIR]";

function bytesIn(path) {
  try {
    return readFileSync(path);
  } catch (error) {
    refuse(`${path} cannot be read: ${error.code}`);
  }
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
      if (record.kind !== "scalar") return [input, readNpy(bytesIn(value), record.type, value)];
      return [
        input,
        /^\d+$/.test(value) ? Number(value) : refuse(`${input}: ${value} is no number`),
      ];
    }),
  );
  const results = await program.run(given, name);
  if (output === undefined) return;
  mkdirSync(output, { recursive: true });
  for (const [result, array] of results) {
    writeFileSync(join(output, `${result.replaceAll("/", "_")}.npy`), writeNpy(array));
  }
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
