// A compiled program on a WebGPU device, in node or a browser: all of docs/program.md that WebGPU has.

import { elements, readInputs } from "./inputs.mjs";
import { inside, readManifest, readTensors } from "./manifest.mjs";
import { evaluate, Refused, refuse } from "./sizes.mjs";
import { bytesOf, encode } from "./types.mjs";
import { fit, nameOf, translate } from "./webgpu.mjs";

const LEAST_BYTES = 16;
const WORD = 4;
const SETS = 4;
const SCOPES = ["validation", "out-of-memory", "internal"];

const roundUp = (value, multiple) => Math.ceil(value / multiple) * multiple;

export class Program {
  // `adapter` is a GPUAdapter, `naga` is naga-wasm, and `read(name)` gives the bytes of a file of the
  // program's folder.
  static async open(adapter, naga, read) {
    const manifest = readManifest(await read("program.json"));
    const needs = fit(manifest.requires, adapter);
    const weights = manifest.weights
      ? readTensors(await read(inside(manifest.weights)))
      : new Map();
    const device = await adapter.requestDevice(needs.device);
    return new Program({
      manifest,
      needs,
      weights,
      device,
      naga,
      read,
      deviceName: nameOf(adapter),
    });
  }

  constructor(parts) {
    Object.assign(this, parts);
    const functions = [this.manifest, ...(this.manifest.functions ?? [])];
    this.functions = new Map(functions.map((f) => [f.function, f]));
    this.kept = new Map(); // buffers of weights and states, by name
    this.constants = new Map(); // those that dispatches marked `once` wrote, by function
    this.free = []; // buffers of the run before
    this.modules = new Map();
    this.pipelines = new Map();
    this.device.addEventListener?.(
      "uncapturederror",
      ({ error }) => (this.failure ??= error.message),
    );
    this.device.lost.then(({ message }) => (this.failure ??= `the device is lost: ${message}`));
  }

  close() {
    this.device.destroy();
  }

  // Results by name, each `{ type, shape, data }` with the bytes, of inputs by name: records of the
  // same form, or numbers for scalars. States keep their contents for the next run.
  async run(given, name = this.manifest.function) {
    if (this.isRunning) refuse("a run is under way");
    const f = this.functions.get(name) ?? refuse(`there is no function ${name}`);
    const sizes = readInputs(f, given);
    const run = { f, sizes, memory: new Map(), taken: [] };
    this.isRunning = true;
    try {
      const first = !this.constants.has(name);
      await this.checked(`memory for ${name}`, () => this.giveMemory(run, given));
      for (const isOnce of first ? [true, false] : [false]) {
        const steps = await this.steps(run, [...repeated(f, sizes, isOnce)]);
        await this.checked(`a run of ${name}`, () => this.submit(run, steps));
      }
      this.constants.set(name, run.constants);
      return await this.checked(`the results of ${name}`, () => this.results(run));
    } finally {
      for (const buffer of this.free) if (!run.taken.includes(buffer)) buffer.destroy();
      this.free = run.taken;
      this.isRunning = false;
    }
  }

  // What WebGPU says against some work is the reason of a refusal.
  async checked(what, work) {
    for (const scope of SCOPES) this.device.pushErrorScope(scope);
    const done = await Promise.allSettled([(async () => work())()]);
    const errors = await Promise.all(SCOPES.map(() => this.device.popErrorScope()));
    const [{ status, reason: thrown }] = done;
    if (thrown instanceof Refused || thrown instanceof TypeError) throw thrown;
    const failed = status === "rejected" ? thrown.message : undefined;
    const reason = errors.find(Boolean)?.message ?? this.failure ?? failed;
    return reason ? refuse(`${what}: WebGPU refuses it: ${reason}`) : done[0].value;
  }

  // A buffer of so many bytes at least, perhaps one of an earlier run.
  take(run, bytes) {
    const fits = this.free.filter(({ size }) => bytes <= size && size <= 2 * bytes);
    const buffer = fits.sort((a, b) => a.size - b.size)[0] ?? this.newBuffer(bytes);
    this.free = this.free.filter((other) => other !== buffer);
    if (!run.taken.includes(buffer)) run.taken.push(buffer);
    return buffer;
  }

  newBuffer(size, usage = GPUBufferUsage.STORAGE) {
    const most = this.device.limits.maxStorageBufferBindingSize;
    if (size > most)
      refuse(`a buffer takes ${size} bytes, and ${this.deviceName} has at most ${most}`);
    const copied = GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    return this.device.createBuffer({ size, usage: usage | copied });
  }

  fill(buffer, contents) {
    const words = new Uint8Array(roundUp(contents.length, WORD));
    words.set(contents);
    this.device.queue.writeBuffer(buffer, 0, words);
  }

  // The bytes of a buffer with what kernels may read behind it.
  room(record, sizes) {
    const bytes = Math.max(elements(record, sizes) * bytesOf(record.type), LEAST_BYTES);
    return roundUp(bytes, Math.max(this.manifest.padding ?? 0, LEAST_BYTES));
  }

  // Puts `{ buffer, size }` of every buffer into the run's memory.
  giveMemory(run, given) {
    const { f, sizes, memory } = run;
    const [once, later] = [true, false].map((isOnce) =>
      f.dispatches.filter((d) => Boolean(d.once) === isOnce),
    );
    const constant = new Set(once.flatMap((d) => d.bindings.map((b) => b.buffer)));
    run.constants = this.constants.get(f.function) ?? new Map();
    for (const record of f.buffers) {
      const { name, kind } = record;
      if (kind === "scalar" || (kind === "temporary" && !constant.has(name))) continue;
      const size = this.room(record, sizes);
      if (kind === "weight" || kind === "state")
        memory.set(name, { buffer: this.keep(record, sizes, size), size });
      else if (kind === "temporary")
        memory.set(name, { buffer: this.constant(run, name, size), size });
      else memory.set(name, { buffer: this.take(run, size), size });
      if (kind === "input") this.fill(memory.get(name).buffer, given.get(name).data);
    }
    this.giveTemporaries(run, later);
  }

  // Temporaries that never live at once share buffers.
  giveTemporaries(run, dispatches) {
    const records = new Map(run.f.buffers.map((record) => [record.name, record]));
    const last = new Map(
      dispatches.flatMap((d, number) => d.bindings.map((b) => [b.buffer, number])),
    );
    for (const [number, dispatch] of dispatches.entries()) {
      const names = new Set(dispatch.bindings.map((b) => b.buffer));
      const temporaries = [...names].filter(
        (name) => records.get(name)?.kind === "temporary" && !run.constants.has(name),
      );
      for (const name of temporaries.filter((name) => !run.memory.has(name))) {
        const size = this.room(records.get(name), run.sizes);
        run.memory.set(name, { buffer: this.take(run, size), size });
      }
      for (const name of temporaries.filter((name) => last.get(name) === number)) {
        this.free.push(run.memory.get(name).buffer);
      }
    }
    this.free = this.free.filter((buffer) => !run.taken.includes(buffer));
  }

  constant(run, name, size) {
    if (!run.constants.has(name)) run.constants.set(name, this.newBuffer(size));
    return run.constants.get(name);
  }

  // The buffer of a weight or state, which is filled once, whatever function asks first.
  keep({ name, type, first, shape }, sizes, size) {
    if (!this.kept.has(name)) {
      const bytes = elements({ name, shape }, sizes) * bytesOf(type);
      const data =
        first === undefined ? this.weights.get(name) : repeat(encode(first, type), bytes);
      if (data?.length !== bytes)
        refuse(`${name} has ${data?.length ?? "no"} bytes in the weights' file, not ${bytes}`);
      this.kept.set(name, this.newBuffer(size));
      this.fill(this.kept.get(name), data);
    }
    return this.kept.get(name);
  }

  // The dispatches that have something to do, with their pipelines.
  async steps(run, dispatches) {
    const most = this.device.limits.maxComputeWorkgroupsPerDimension;
    const steps = [];
    for (const { dispatch, sizes } of dispatches) {
      const grid = dispatch.grid.map((count) => evaluate(count, sizes));
      if (grid.includes(0)) continue;
      if (grid.some((count) => count > most)) {
        refuse(
          `${dispatch.entry_point} needs ${grid.join(" x ")} workgroups, and ${this.deviceName} has at most ${most} a dimension`,
        );
      }
      const pipeline = await this.pipeline(dispatch);
      steps.push({
        dispatch,
        grid,
        pipeline,
        pushed: pushed(dispatch, sizes, pipeline.places),
      });
    }
    return steps;
  }

  async pipeline(dispatch) {
    const constants = Object.fromEntries(
      (dispatch.spec_constants ?? []).map((c) => [c.id, Number(c.value)]),
    );
    const key = JSON.stringify([dispatch.kernel, dispatch.entry_point, constants]);
    if (!this.pipelines.has(key)) {
      const work = () => this.newPipeline(dispatch, constants);
      this.pipelines.set(key, await this.checked(`the kernel ${dispatch.kernel}`, work));
    }
    return this.pipelines.get(key);
  }

  async newPipeline({ kernel: name, entry_point: entryPoint }, constants) {
    const kernel =
      this.manifest.kernels.find((k) => k.name === name) ?? refuse(`there is no kernel ${name}`);
    const { module, bindings, entry, places } = await this.module(kernel);
    const sets = Array.from({ length: SETS }, () => []);
    for (const { set, binding, type } of bindings) {
      sets[set].push({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } });
    }
    const layouts = sets.map((entries) => this.device.createBindGroupLayout({ entries }));
    const layout = this.device.createPipelineLayout({ bindGroupLayouts: layouts });
    const compute = { module, entryPoint: entry(entryPoint), constants };
    const made = this.device.createComputePipelineAsync({ layout, compute });
    const pipeline = await made.catch((error) =>
      refuse(`the kernel ${name}: WebGPU refuses it: ${error.message}`),
    );
    return { pipeline, layouts, bindings, places };
  }

  async module(kernel) {
    if (!this.modules.has(kernel.name)) {
      const binary = await this.read(inside(kernel.binary));
      const { code, ...rest } = translate(
        this.naga,
        kernel,
        binary,
        this.freeBinding(kernel),
        this.needs,
      );
      const module = this.device.createShaderModule({ code });
      const { messages } = await module.getCompilationInfo();
      const error = messages.find(({ type }) => type === "error");
      if (error) refuse(`the kernel ${kernel.name}: WebGPU refuses it: ${error.message}`);
      this.modules.set(kernel.name, { module, ...rest });
    }
    return this.modules.get(kernel.name);
  }

  // A binding of set 0 that no dispatch of a kernel has.
  freeBinding({ name }) {
    const dispatches = [...this.functions.values()]
      .flatMap((f) => f.dispatches)
      .filter((d) => d.kernel === name);
    const numbers = dispatches.flatMap((d) =>
      d.bindings.filter((b) => b.set === 0).map((b) => b.binding),
    );
    return 1 + Math.max(-1, ...numbers);
  }

  // Runs steps in order: each sees what earlier ones wrote, also within a pass.
  submit(run, steps) {
    const uniforms = this.uniforms(run, steps);
    const encoder = this.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (const [number, { dispatch, grid, pipeline }] of steps.entries()) {
      pass.setPipeline(pipeline.pipeline);
      const sets = pipeline.layouts.map(() => []);
      for (const { set, binding, type } of pipeline.bindings) {
        const resource =
          type === "uniform" ? uniforms[number] : memoryAt(run, dispatch, set, binding);
        sets[set].push({
          binding,
          resource:
            resource ??
            refuse(`${dispatch.entry_point} has nothing at set ${set}, binding ${binding}`),
        });
      }
      for (const [set, layout] of pipeline.layouts.entries()) {
        pass.setBindGroup(set, this.device.createBindGroup({ layout, entries: sets[set] }));
      }
      pass.dispatchWorkgroups(...grid);
    }
    pass.end();
    this.device.queue.submit([encoder.finish()]);
  }

  // The part of one uniform buffer that holds each step's push constants; undefined where it has none.
  uniforms(run, steps) {
    const align = this.device.limits.minUniformBufferOffsetAlignment;
    const offsets = [0];
    for (const { pushed } of steps) offsets.push(offsets.at(-1) + roundUp(pushed.length, align));
    if (!offsets.at(-1)) return [];
    const bytes = new Uint8Array(offsets.at(-1));
    for (const [number, { pushed }] of steps.entries()) bytes.set(pushed, offsets[number]);
    const buffer = this.newBuffer(bytes.length, GPUBufferUsage.UNIFORM);
    this.fill(buffer, bytes);
    this.device.queue.onSubmittedWorkDone().then(() => buffer.destroy());
    return steps.map(({ pushed }, number) =>
      pushed.length ? { buffer, offset: offsets[number], size: pushed.length } : undefined,
    );
  }

  async results({ f, sizes, memory }) {
    const records = new Map(f.buffers.map((record) => [record.name, record]));
    const encoder = this.device.createCommandEncoder();
    const copies = f.results.map((name) => {
      const { buffer, size } = memory.get(name) ?? refuse(`the result ${name} is no buffer`);
      const copy = this.device.createBuffer({
        size,
        usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ,
      });
      encoder.copyBufferToBuffer(buffer, 0, copy, 0, size);
      return copy;
    });
    this.device.queue.submit([encoder.finish()]);
    await Promise.all(copies.map((copy) => copy.mapAsync(GPUMapMode.READ)));
    const results = f.results.map((name, number) => {
      const { type, shape } = records.get(name);
      const bytes = elements(records.get(name), sizes) * bytesOf(type);
      const data = new Uint8Array(copies[number].getMappedRange()).slice(0, bytes);
      copies[number].destroy();
      return [name, { type, shape: shape.map((size) => evaluate(size, sizes)), data }];
    });
    return new Map(results);
  }
}

// The dispatches of a run with their sizes: those of a loop once for each step, whose number counts
// among the sizes.
function* repeated({ dispatches, loops = [] }, sizes, isOnce) {
  let end = 0;
  for (const { first, dispatches: count, steps, counter } of [...loops, { first: dispatches.length }]) {
    const chosen = (part) => part.filter((d) => Boolean(d.once) === isOnce);
    for (const dispatch of chosen(dispatches.slice(end, first))) yield { dispatch, sizes };
    if (!counter) return;
    end = first + count;
    const body = chosen(dispatches.slice(first, end));
    const most = evaluate(steps, sizes);
    for (let step = 0; step < (isOnce ? Math.min(most, 1) : most); step++) {
      const at = new Map(sizes).set(counter, step);
      for (const dispatch of body) yield { dispatch, sizes: at };
    }
  }
}

function memoryAt(run, { bindings }, set, binding) {
  const bound = bindings.find((b) => b.set === set && b.binding === binding);
  return run.memory.get(bound?.buffer);
}

function repeat(element, bytes) {
  const data = new Uint8Array(bytes);
  if (element.some(Boolean))
    for (let at = 0; at < bytes; at += element.length) data.set(element, at);
  return data;
}

// The uniform buffer with the push constants of a dispatch; empty if it has none.
function pushed({ push_constants: constants = [] }, sizes, places) {
  const parts = constants.map(({ offset, type, value }) => {
    const number = typeof value === "string" ? evaluate(value, sizes) : value;
    const place = places.get(offset) ?? refuse(`no push constant lies at ${offset}`);
    return [place, encode(number, type)];
  });
  const end = Math.max(0, ...parts.map(([offset, bytes]) => offset + bytes.length));
  const block = new Uint8Array(roundUp(end, LEAST_BYTES));
  for (const [offset, bytes] of parts) block.set(bytes, offset);
  return block;
}
