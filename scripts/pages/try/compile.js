// Compiles a kernel's source to SPIR-V: GLSL by glslang, WGSL by naga. Each compiler is loaded when it is needed first.
const ENDINGS = { glsl: "comp", wgsl: "wgsl", spirv: "spvasm" };
const GLSL_ERROR = /^(?:ERROR|WARNING): (?:\d+:(\d+): )?(.*)/;
const said = [];
let glslang, naga;

async function withGlslang(source) {
  glslang ??= (async () => {
    const { log, warn } = console; // it binds them when it starts
    console.log = console.warn = (text) => said.push(text);
    const started = (await import("./glslang/glslang.js")).default();
    Object.assign(console, { log, warn });
    return started;
  })();
  const { compileGLSL } = await glslang;
  said.length = 0;
  try {
    return compileGLSL(source, "compute", true, "1.5");
  } catch {
    const places = said.join("\n").split("\n").map((line) => line.match(GLSL_ERROR)).filter((match) => match?.[1]);
    throw places.map(([text, line, message]) => ({ line: +line, message, text }));
  }
}

// This glslang leaves the name of the source empty (OpString ""), and lines of a source without a name are not known.
function named(words, name) {
  const bytes = new TextEncoder().encode(name);
  const text = new Uint32Array(Math.floor(bytes.length / 4) + 1);
  new Uint8Array(text.buffer).set(bytes);
  for (let at = 5; at < words.length; at += words[at] >>> 16) {
    if (words[at] !== ((3 << 16) | 7) || words[at + 2] !== 0) continue;
    return Uint32Array.from([...words.slice(0, at), ((2 + text.length) << 16) | 7, words[at + 1], ...text, ...words.slice(at + 3)]);
  }
  return words;
}

async function withNaga(source) {
  naga ??= import("./naga/index.js").then(async (module) => (await module.init(), module));
  const { parseWgsl, validate, writeSpirv } = await naga;
  try {
    const module = parseWgsl(source);
    return writeSpirv(module, validate(module), { flags: { debug: true } });
  } catch (error) {
    const text = String(error.formatted ?? error);
    throw [{ line: +(text.match(/wgsl:(\d+)/)?.[1] ?? 0), message: text.split("\n")[0], text }];
  }
}

// What Python asks for: { name, source, binary }. Throws a list of { line, message, text }. Examples bring their binaries.
export async function compile({ language, source, binary }) {
  const name = `kernel.${ENDINGS[language]}`;
  if (binary) return { name, source, binary };
  if (language === "spirv") return { name, source };
  const words = language === "wgsl" ? await withNaga(source) : named(await withGlslang(source), name);
  return { name, source, binary: new Uint8Array(words.buffer, words.byteOffset, words.byteLength) };
}
