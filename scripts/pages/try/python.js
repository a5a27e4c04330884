// CPython in WebAssembly with the package in it. It starts anew for each request: from a picture of its memory behind all imports.
import { ConsoleStdout, Directory, File, PreopenDirectory, WASI } from "./wasi/index.js";

export const PAGE = 65536;
const encode = (text) => new TextEncoder().encode(text);

// `files`: contents by name, library.zip, site.zip, session.py. `picture`: { pages, used, contents }, how many pages of memory there are, the numbers
// of those that are not all zero, and what is in these; without a picture Python starts from its beginning.
export async function startPython(module, files, picture) {
  let printed = "";
  const decoder = new TextDecoder();
  const output = new ConsoleStdout((data) => (printed += decoder.decode(data, { stream: true })));
  const work = new Map();
  const folder = (name, content) => new PreopenDirectory(name, content);
  const file = (name) => (files[name] ? [[name === "library.zip" ? "python315.zip" : name, new File(files[name], { readonly: true })]] : []);
  const site = new Map(["site.zip", "session.py", "tidy.py", "plain.py"].flatMap(file));
  const folders = [
    output, output, output,
    folder("/usr/local/lib", new Map(file("library.zip"))), folder("/site", site), folder("/tmp", new Map()), folder("/page", work),
  ];
  const environment = ["HOME=/tmp", "TMPDIR=/tmp"];
  const system = new WASI(["/usr/local/bin/python.wasm"], environment, folders, { debug: false });
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: system.wasiImport, host: { call: () => -1 } });
  const python = instance.exports;
  const run = (code) => {
    const bytes = encode(code);
    const place = python.host_alloc(bytes.length) >>> 0;
    new Uint8Array(python.memory.buffer, place, bytes.length).set(bytes);
    printed = "";
    const failed = python.turn(place, bytes.length);
    if (failed) throw new Error(printed || "Python stopped");
    return printed;
  };
  const start = () => system.initialize(instance);
  if (picture) {
    const { pages, used, contents } = picture;
    system.inst = instance;
    python.memory.grow(pages - python.memory.buffer.byteLength / PAGE);
    const memory = new Uint8Array(python.memory.buffer);
    used.forEach((page, place) => memory.set(contents.subarray(place * PAGE, (place + 1) * PAGE), page * PAGE));
  }
  const put = (name, content) => work.set(name, new File(typeof content === "string" ? encode(content) : content));
  const take = (name) => work.get(name).data;
  const answer = () => JSON.parse(new TextDecoder().decode(take("answer.json")));
  return { run, start, put, take, answer, memory: python.memory };
}

export const UNPACK = "import sys, zipfile; sys.path[:0] = ['/site', '/tmp/site']; zipfile.ZipFile('/site/site.zip').extractall('/tmp/site')";

// A picture has no files, and no modules but those that were imported.
export const isMissing = (error) => /No such file|No module named/.test(error.message);

function ask(python, { name, source, binary }, call) {
  python.put(name, source);
  if (binary) python.put("kernel.spv", binary);
  python.run(`session.${call}`);
  return python.answer();
}

// Tests a kernel, { name, source, binary }, with a launch; shows it as assembly and in the dialect.
export const test = (python, kernel, launch) => ask(python, kernel, `test(${JSON.stringify(kernel.name)}, ${JSON.stringify(launch)})`);
export const show = (python, kernel) => ask(python, kernel, `show(${JSON.stringify(kernel.name)})`);
