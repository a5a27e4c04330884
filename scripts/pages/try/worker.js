// Loads Python, compiles and tests kernels, so that the page never waits. In: { pages, used, version } once, then requests { id, language, source, launch }.
// Out: { got }, { ready }, { id, answer }, { id, shown }, { id, errors }, { id, failed }, { id, note }.
import { compile } from "./compile.js";
import { isMissing, show, startPython, test, UNPACK } from "./python.js";

const ELSEWHERE = "../"; // the tutorials' Python, which has all functions and modules
const WASM = { headers: { "Content-Type": "application/wasm" } };
let small, whole, keep;

async function fetched(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer;
}

async function loaded(name) {
  const report = new TransformStream({ transform: (part, to) => (postMessage({ got: part.length }), to.enqueue(part)) });
  return (await fetched(name)).body.pipeThrough(report);
}

const bytesOf = async (stream) => new Uint8Array(await new Response(stream).arrayBuffer());
const compiled = (stream) => WebAssembly.compileStreaming(new Response(stream, WASM));

async function unpacked(name) {
  await import("./xz-decompress.js");
  return new globalThis["xz-decompress"].XzReadableStream(await loaded(name));
}

// The browser's cache, where it has one, keeps the pages of memory decompressed for the next visit, after the first answer.
async function loadContents(version) {
  const cache = await globalThis.caches?.open("xdsl-spirv-try").catch(() => undefined);
  const kept = await cache?.match(version);
  if (kept) return bytesOf(kept.body);
  const contents = await bytesOf(await unpacked(`memory.xz?${version}`));
  keep = async () => {
    for (const old of (await cache?.keys()) ?? []) await cache.delete(old);
    await cache?.put(version, new Response(contents));
  };
  return contents;
}

async function load({ pages, used, version }) {
  const [module, contents] = await Promise.all([unpacked(`python.wasm.xz?${version}`).then(compiled), loadContents(version)]);
  return { module, picture: { pages, used, contents } };
}

async function wholePython() {
  const module = await compiled((await fetched(`${ELSEWHERE}python.wasm.gz`)).body.pipeThrough(new DecompressionStream("gzip")));
  const names = [`${ELSEWHERE}library.zip`, `${ELSEWHERE}site.zip`, "session.py"];
  const contents = await Promise.all(names.map(async (name) => new Uint8Array(await (await fetched(name)).arrayBuffer())));
  return { module, files: Object.fromEntries(names.map((name, place) => [name.split("/").at(-1), contents[place]])) };
}

async function startWhole() {
  const { module, files } = await (whole ??= wholePython());
  const python = await startPython(module, files);
  python.start();
  python.run(UNPACK);
  python.run("import session");
  return python;
}

// A kernel may call a function that the page did not load (it stops), or import a module that is not in the picture.
async function withPython(id, action) {
  if (!whole) {
    try {
      const { module, picture } = await small;
      return action(await startPython(module, {}, picture));
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError) && !isMissing(error)) throw error;
      console.info(`The small Python stopped: ${error.stack}`);
      postMessage({ id, note: "This kernel needs the whole of Python: loading 30 MB, once ..." });
    }
  }
  return action(await startWhole());
}

onmessage = async ({ data }) => {
  if (data.version) {
    small = load(data);
    return void small.then(() => postMessage({ ready: true }), (error) => postMessage({ broken: error.message }));
  }
  const { id, launch } = data;
  let kernel;
  try {
    kernel = await compile(data);
  } catch (errors) {
    return postMessage(Array.isArray(errors) ? { id, errors } : { id, failed: `The compiler stopped: ${errors}` });
  }
  try {
    await withPython(id, (python) => {
      const answer = test(python, kernel, launch);
      postMessage({ id, answer });
      const readable = !answer.problems.some(({ rule }) => rule === "COMPILE");
      postMessage({ id, shown: readable ? show(python, kernel) : { assembly: "", dialect: "" } });
    });
    await keep?.().catch(() => {}); // a full disk is no reason to stop
    keep = undefined;
  } catch (error) {
    postMessage({ id, failed: `The interpreter stopped: ${error.message}` });
  }
};
