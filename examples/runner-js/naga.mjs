// naga's command line as far as `xdsl-spirv test x.wgsl` needs it: NAGA="node naga.mjs" (npm ci --prefix examples/runner-js).
import { readFileSync, writeFileSync } from "node:fs";

const { parseWgsl, validate, writeSpirv } = await import("naga-wasm").catch(() => {
  console.error("naga-wasm is not installed: npm ci --prefix examples/runner-js");
  process.exit(1);
});

const [source, output] = process.argv.slice(2).filter((word) => !word.startsWith("-"));
try {
  const module = parseWgsl(readFileSync(source, "utf8"));
  writeFileSync(output, Buffer.from(writeSpirv(module, validate(module), { flags: { debug: true } }).buffer));
} catch (error) {
  console.error(String(error.formatted ?? error).replace("wgsl:", `${source}:`));
  process.exit(1);
}
