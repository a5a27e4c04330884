// Makes what the page loads in the place of Python's start, in the browser that scripts/build_try_page.py opens.
import { compile } from "./compile.js";
import { PAGE, startPython, test, show, UNPACK } from "./python.js";

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
  let kernel;
  try {
    kernel = await compile(request);
  } catch (errors) {
    return { summary: "not compiled", problems: [], refusal: errors[0]?.text ?? String(errors) };
  }
  const answer = test(python, kernel, request.launch ?? "");
  if (!answer.problems.some(({ rule }) => rule === "COMPILE")) show(python, kernel);
  return answer;
}

// The picture of the memory behind all imports and the first `warm` requests, and a 1 for each function that requests call from there.
export async function make({ base, functions, warm, requests }, module) {
  module = await WebAssembly.compile(await fetched(module));
  const names = ["library.zip", "site.zip", "session.py", "tidy.py"];
  const files = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await fetched(name)])));
  // The first Python leaves compiled modules in /tmp; the second, which only reads them, has less in its memory.
  const temporary = new Map();
  const start = async (code) => {
    const python = await startPython(module, files, undefined, temporary);
    python.memory.grow(Math.ceil(functions / PAGE));
    python.start();
    python.run(code);
    python.run("import session, tidy");
    for (const request of requests.slice(0, warm)) await serve(python, request);
    return python;
  };
  const compiling = await start(`${UNPACK}; zipfile.ZipFile('/usr/local/lib/python315.zip').extractall('/tmp/site')`);
  compiling.run("tidy.strip()");
  const first = await start(UNPACK.split(";").slice(0, 2).join(";"));
  first.run("tidy.tidy()");
  const notes = (python) => new Uint8Array(python.memory.buffer, base, functions);
  notes(first).fill(0);
  const memory = new Uint8Array(first.memory.buffer);
  const pages = memory.length / PAGE;
  const used = memory.slice(0, memory.findLastIndex((byte) => byte) + 1);
  const called = new Uint8Array(functions);
  for (const request of requests) {
    const python = await startPython(module, {}, { used, pages });
    const start = performance.now();
    let answer;
    try {
      answer = await serve(python, request);
    } catch (error) {
      answer = { summary: "FAILS", problems: [], refusal: String(error) };
    }
    notes(python).forEach((note, index) => (called[index] |= note));
    const rules = answer.problems.map(({ rule }) => rule).join(" ");
    console.log(`${request.title}: ${answer.summary} ${rules} ${answer.refusal} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  }
  return { used: await packed(used), pages, called: await packed(called) };
}
