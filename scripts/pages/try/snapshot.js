// Makes what the page loads in the place of Python's start, in the browser that scripts/build_try_page.py opens.
import { compile } from "./compile.js";
import { isMissing, PAGE, startPython, test, show, PATHS } from "./python.js";

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
  request.binary = kernel.binary;
  const answer = test(python, kernel, request.launch ?? "");
  if (!answer.problems.some(({ rule }) => rule === "COMPILE")) show(python, kernel);
  return answer;
}

// The picture of the memory behind all imports and the first `warm` requests, a 1 for each function that requests call from there, and the
// kernels that `examples` requests compile to.
export async function make({ base, functions, warm, examples, requests }, module) {
  module = await WebAssembly.compile(await fetched(module));
  const names = ["library.zip", "site.zip", "session.py", "tidy.py", "watch.py"];
  const files = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await fetched(name)])));
  // The first Python serves all requests and leaves compiled modules, without functions that it did not call, in /tmp. The second reads them.
  const temporary = new Map();
  const start = async (code, served) => {
    const python = await startPython(module, files, undefined, temporary);
    python.memory.grow(Math.ceil(functions / PAGE));
    python.start();
    python.run(code);
    python.run("import session");
    for (const request of served) await serve(python, request);
    return python;
  };
  const unpack = "import zipfile; [zipfile.ZipFile(name).extractall('/tmp/site') for name in ('/site/site.zip', '/usr/local/lib/python315.zip')]";
  const compiling = await start(`${unpack}; ${PATHS}; import watch`, requests);
  console.log(compiling.run("import tidy; tidy.strip(watch)"));
  const first = await start(`${PATHS}; import tidy; tidy.load()`, requests.slice(0, warm));
  first.run("tidy.tidy()");
  const notes = (python) => new Uint8Array(python.memory.buffer, base, functions);
  notes(first).fill(0);
  const memory = new Uint8Array(first.memory.buffer);
  const pages = memory.length / PAGE;
  const used = memory.slice(0, memory.findLastIndex((byte) => byte) + 1);
  const called = new Uint8Array(functions);
  const failed = [];
  for (const request of requests) {
    const python = await startPython(module, {}, { used, pages });
    const start = performance.now();
    let answer;
    try {
      answer = await serve(python, request);
    } catch (error) {
      if (isMissing(error)) console.log(`${request.title}: needs the whole Python (${error.message.trim().split("\n").at(-1)})`);
      else failed.push(`${request.title}: ${error}`);
      continue;
    }
    notes(python).forEach((note, index) => (called[index] |= note));
    const rules = answer.problems.map(({ rule }) => rule).join(" ");
    console.log(`${request.title}: ${answer.summary} ${rules} ${answer.refusal} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  }
  if (failed.length) throw new Error(failed.join("\n"));
  const binaries = await Promise.all(requests.slice(0, examples).map(({ binary }) => packed(binary)));
  return { used: await packed(used), pages, called: await packed(called), binaries };
}
