// The page: a filter of pictures, and programs that the visitor has.

import { init, parseSpirv, validate, writeWgsl } from "./naga/index.js";
import { readNpy, writeNpy } from "./npy.mjs";
import { Program } from "./program.mjs";
import { Refused, refuse } from "./sizes.mjs";
import { nameOf } from "./webgpu.mjs";

const naga = { parseSpirv, validate, writeWgsl };
const [BORDER, SIZE] = [258, 256];
const FILTERS = {
  edges: [-1, -1, -1, -1, 8, -1, -1, -1, -1],
  blur: Array(9).fill(1 / 9),
  sharpen: [0, -1, 0, -1, 5, -1, 0, -1, 0],
  emboss: [-2, -1, 0, -1, 1, 1, 0, 1, 2],
};
const at = (id) => document.getElementById(id);

async function fetched(name) {
  const answer = await fetch(name);
  return answer.ok
    ? new Uint8Array(await answer.arrayBuffer())
    : refuse(`${name}: ${answer.statusText}`);
}

const element = (name, properties, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

// Does some work, and shows where what it refuses.
async function attempt(where, work) {
  document.body.dataset.state = "running";
  where.classList.remove("refused");
  try {
    await work();
    document.body.dataset.state = "done";
  } catch (error) {
    if (!(error instanceof Refused)) console.error(error);
    where.textContent = error.message;
    where.classList.add("refused");
    document.body.dataset.state = "refused";
  }
}

async function adapter() {
  if (!navigator.gpu) refuse("This browser has no WebGPU.");
  return (await navigator.gpu.requestAdapter()) ?? refuse("WebGPU finds no device here.");
}

function drawScene() {
  const context = at("image").getContext("2d");
  const sky = context.createLinearGradient(0, 0, 0, BORDER);
  sky.addColorStop(0, "#222");
  sky.addColorStop(1, "#bbb");
  context.fillStyle = sky;
  context.fillRect(0, 0, BORDER, BORDER);
  context.fillStyle = "#eee";
  context.beginPath();
  context.arc(80, 90, 48, 0, 7);
  context.fill();
  context.fillStyle = "#444";
  context.fillRect(150, 60, 70, 140);
  context.font = "bold 44px sans-serif";
  context.fillStyle = "#fff";
  context.fillText("SPIR-V", 40, 240);
}

// The picture's brightness, from 0 to 1.
function brightness() {
  const { data } = at("image").getContext("2d").getImageData(0, 0, BORDER, BORDER);
  return Float32Array.from({ length: BORDER * BORDER }, (_, pixel) => {
    const [red, green, blue] = data.subarray(4 * pixel, 4 * pixel + 3);
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
  });
}

const tensor = (values, ...shape) => ({ type: "f32", shape, data: new Uint8Array(values.buffer) });

async function runFilter(program) {
  const weights = Float32Array.from(FILTERS[at("filter").value]);
  const start = performance.now();
  const given = [
    ["image", tensor(brightness(), BORDER, BORDER)],
    ["weights", tensor(weights, 3, 3)],
  ];
  const { data } = (await program.run(new Map(given))).get("filtered");
  const took = performance.now() - start;
  const filtered = new Float32Array(data.buffer);
  const picture = new ImageData(SIZE, SIZE);
  filtered.forEach((value, pixel) =>
    picture.data.set([255 * value, 255 * value, 255 * value, 255], 4 * pixel),
  );
  at("filtered").getContext("2d").putImageData(picture, 0, 0);
  const sum = filtered.reduce((total, value) => total + value, 0);
  const first = at("said").textContent ? "" : " the kernel's compilation and";
  at("said").textContent =
    `${took.toFixed(1)} ms with${first} both copies; the pixels' mean is ${(sum / filtered.length).toFixed(4)}.`;
}

async function takePicture() {
  const bitmap = await createImageBitmap(at("picture").files[0]);
  at("image").getContext("2d").drawImage(bitmap, 0, 0, BORDER, BORDER);
}

// A program whose files the visitor chose, and a field for each of its inputs.
async function openOwn(files) {
  const byName = new Map(
    files.map((file) => [file.webkitRelativePath.split("/").slice(1).join("/"), file]),
  );
  const read = async (name) => {
    const file = byName.get(name) ?? refuse(`the folder has no ${name}`);
    return new Uint8Array(await file.arrayBuffer());
  };
  const program = await Program.open(await adapter(), naga, read);
  const choice = element("select", { ariaLabel: "Function" });
  choice.append(...[...program.functions.keys()].map((name) => element("option", {}, name)));
  const fields = element("div", {});
  const show = () => fields.replaceChildren(...inputsOf(program, choice.value).map(field));
  choice.onchange = show;
  show();
  at("own").replaceChildren(choice, fields, element("button", {}, "Run"));
  at("own").onsubmit = (event) => {
    event.preventDefault();
    attempt(at("results"), () => runOwn(program, choice.value));
  };
}

const inputsOf = (program, name) =>
  program.functions.get(name).buffers.filter(({ kind }) => kind === "input" || kind === "scalar");

function field({ name, kind, type, shape }) {
  const input =
    kind === "scalar" ? { type: "number", min: 0, value: 0 } : { type: "file", accept: ".npy" };
  const label = element("label", {}, `${name}: ${type} [${shape.join(", ")}] `);
  label.append(element("input", { ...input, name, required: true }));
  return element("div", { className: "row" }, label);
}

async function runOwn(program, name) {
  const given = new Map();
  for (const { name: input, kind, type } of inputsOf(program, name)) {
    const control = at("own").elements.namedItem(input);
    if (kind === "scalar") given.set(input, Number(control.value));
    else
      given.set(input, readNpy(new Uint8Array(await control.files[0].arrayBuffer()), type, input));
  }
  const results = await program.run(given, name);
  at("results").replaceChildren(
    ...[...results].map(([result, array]) => {
      const href = URL.createObjectURL(new Blob([writeNpy(array)]));
      const link = element("a", { href, download: `${result.replaceAll("/", "_")}.npy` }, result);
      return element("p", {}, link, `: ${array.type} [${array.shape.join(", ")}]`);
    }),
  );
}

await attempt(at("device"), async () => {
  drawScene();
  for (const name of Object.keys(FILTERS)) at("filter").append(element("option", {}, name));
  at("source").textContent = new TextDecoder().decode(await fetched("filter.mlir"));
  await init();
  const device = await adapter();
  const program = await Program.open(device, naga, (name) => fetched(`filter/${name}`));
  at("device").textContent = `Device: ${nameOf(device)}`;
  at("run").onclick = () => attempt(at("said"), () => runFilter(program));
  at("filter").onchange = at("run").onclick;
  at("picture").onchange = () =>
    attempt(at("said"), async () => {
      await takePicture();
      await runFilter(program);
    });
  at("folder").onchange = () => attempt(at("results"), () => openOwn([...at("folder").files]));
  for (const id of ["run", "folder"]) at(id).disabled = false;
  await runFilter(program);
});
