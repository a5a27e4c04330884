// naga's command line as far as `xdsl-spirv test x.wgsl` needs it: NAGA="node naga.mjs" (npm ci --prefix examples/runner-js).
import { readFileSync, writeFileSync } from "node:fs";
import { parseWgsl, validate, writeSpirv } from "naga-wasm";

const [source, output] = process.argv.slice(2).filter((word) => !word.startsWith("-"));
try {
  const module = parseWgsl(readFileSync(source, "utf8"));
  writeFileSync(output, Buffer.from(writeSpirv(module, validate(module), { flags: { debug: true } }).buffer));
} catch (error) {
  console.error(String(error.formatted ?? error).replace("wgsl:", `${source}:`));
  process.exit(1);
}
