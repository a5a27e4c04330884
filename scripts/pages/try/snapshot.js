// Makes what the page loads in the place of Python's start, in the browser that scripts/build_try_page.py opens.
import { compile } from "./compile.js";
import { PAGE, show, startPython, test, UNPACK } from "./python.js";

async function fetched(name) {
  return new Uint8Array(await (await fetch(name)).arrayBuffer());
}

async function packed(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  const reader = new FileReader();
  reader.readAsDataURL(await new Response(stream).blob());
  await new Promise((resolve) => (reader.onload = resolve));
  return reader.result.split(",")[1];
}

async function serve(python, request) {
  const kernel = await compile(request);
  const { problems, summary } = test(python, kernel, request.launch ?? "");
  if (!problems.some(({ rule }) => rule === "COMPILE")) show(python, kernel);
  return { binary: kernel.binary ?? new Uint8Array(), said: [summary, ...problems.map(({ rule }) => rule)].join(" ") };
}

// Empties the ring in which the garbage collector holds an object and all others of the picture: it need not collect them, and its links do not compress.
// Each object has its two links before it. The ring's head lies before all objects, in memory that the module starts with.
function emptyRing(buffer, object) {
  const words = new Uint32Array(buffer);
  const first = object / 4 - 2;
  const ring = [];
  for (let at = first; ring.length === 0 || at !== first; at = words[at] >>> 2) ring.push(at);
  const head = ring.reduce((least, at) => Math.min(least, at));
  for (const at of ring) words[at] = words[at + 1] = at === head ? 4 * head : 0;
}

// The numbers of the pages that are not all zero, and what is in them.
function pictureOf(buffer) {
  const pages = buffer.byteLength / PAGE;
  const page = (number) => new Uint8Array(buffer, number * PAGE, PAGE);
  const isUsed = (number) => new Uint32Array(buffer, number * PAGE, PAGE / 4).some((word) => word);
  const used = Array.from({ length: pages }, (_, number) => number).filter(isUsed);
  const contents = new Uint8Array(used.length * PAGE);
  used.forEach((number, place) => contents.set(page(number), place * PAGE));
  return { pages, used, contents };
}

// Puts compiled modules in the place of sources: a Python that compiles them leaves a memory full of holes.
async function compileArchives(module, files, functions) {
  const python = await startPython(module, files);
  python.memory.grow(Math.ceil(functions / PAGE));
  python.start();
  python.run("import sys; sys.path.insert(0, '/site'); from plain import compile_archive");
  for (const [name, place] of [["site.zip", "/site/site.zip"], ["library.zip", "/usr/local/lib/python315.zip"]]) {
    python.run(`compile_archive('${place}', '/page/${name}')`);
    files[name] = python.take(name);
  }
}

// A picture of a Python that has served all requests, a 1 for each function that was called, and the kernels that requests compile to. Which
// functions numpy calls depends on addresses as well, so the first requests, `again`, are served by a Python of the picture, too.
export async function make({ base, functions, requests, again }, module) {
  module = await WebAssembly.compile(await fetched(module));
  const names = ["library.zip", "site.zip", "session.py", "tidy.py", "plain.py"];
  const files = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await fetched(name)])));
  await compileArchives(module, files, functions);
  const python = await startPython(module, files);
  python.memory.grow(Math.ceil(functions / PAGE));
  python.start();
  python.run(UNPACK);
  python.run("import session");
  const notes = ({ memory }) => new Uint8Array(memory.buffer, base, functions);
  const binaries = [];
  for (const request of requests) {
    const { binary, said } = await serve(python, request);
    binaries.push(binary);
    console.log(`${request.title}: ${said}`);
  }
  python.run("import tidy; tidy.tidy()");
  const object = Number(python.run("print(id(session))"));
  emptyRing(python.memory.buffer, object);
  const called = notes(python).slice();
  notes(python).fill(0);
  const picture = pictureOf(python.memory.buffer);
  for (const request of requests.slice(0, again)) {
    const other = await startPython(module, {}, picture);
    const { said } = await serve(other, request);
    notes(other).forEach((note, place) => (called[place] |= note));
    console.log(`${request.title}, again: ${said}`);
  }
  const { pages, used, contents } = picture;
  return { pages, used, parts: await Promise.all([contents, called, ...binaries].map(packed)) };
}
