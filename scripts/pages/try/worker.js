// Compiles and tests kernels, so that the page never waits. In: { module, memory } once, then requests { id, language, source, launch }.
// Out: { id, answer }, { id, shown }, { id, errors }, { id, failed }, { id, note }.
import { compile } from "./compile.js";
import { show, startPython, test, UNPACK } from "./python.js";

const ELSEWHERE = "../"; // the tutorials' Python, which has all functions and modules
let small, whole;

async function fetched(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer;
}

async function wholePython() {
  const stream = (await fetched(`${ELSEWHERE}python.wasm.gz`)).body.pipeThrough(new DecompressionStream("gzip"));
  const module = await WebAssembly.compileStreaming(new Response(stream, { headers: { "Content-Type": "application/wasm" } }));
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
      return action(await startPython(small.module, {}, small.memory));
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError) && !/No such file|No module named/.test(error.message)) throw error;
      postMessage({ id, note: "This kernel needs the whole of Python: loading 30 MB, once ..." });
    }
  }
  return action(await startWhole());
}

onmessage = async ({ data }) => {
  if (data.module) return void (small = data);
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
  } catch (error) {
    postMessage({ id, failed: `The interpreter stopped: ${error.message}` });
  }
};
