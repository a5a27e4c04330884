// The page: what is shown and asked. A worker compiles and tests; it is ended, and another started, where a kernel does not end.
const LIMIT = 60; // seconds that a test may take
const $ = (id) => document.getElementById(id);
const make = (tag, text, properties = {}) => Object.assign(document.createElement(tag), text === undefined ? {} : { textContent: text }, properties);
const data = fetch("data.json").then((answer) => answer.json());
let worker, running, limit, example, number = 0, edited = true;

function setState(state, text) {
  document.body.dataset.state = state;
  $("state").textContent = text;
  $("run").disabled = state === "loading" || state === "running" || state === "broken";
  $("stop").hidden = state !== "running";
  $("progress").hidden = state !== "loading";
}

// The worker loads Python first; requests wait for it.

async function startWorker() {
  const { pages, used, bytes, version } = await data;
  let got = 0;
  worker?.terminate();
  worker = new Worker("worker.js", { type: "module" });
  const loading = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.ready) return resolve();
      if (data.broken) return reject(new Error(data.broken));
      if (!data.got) return data.id === number && take(data);
      got += data.got;
      $("progress").value = got / bytes;
      if (document.body.dataset.state === "loading") $("state").textContent = `Loading ${(got / 1e6).toFixed(1)} of ${(bytes / 1e6).toFixed(1)} MB, once ...`;
    };
    worker.onerror = (event) => reject(new Error(event.message));
  });
  worker.postMessage({ pages, used, version });
  return loading.catch((error) => setState("broken", `This browser cannot run it: ${error.message}`));
}

// A run.

async function run() {
  setState("running", "Testing ...");
  mark([]);
  edited = false;
  number += 1;
  running = performance.now();
  limit = setTimeout(() => stop(`Stopped after ${LIMIT} s: the kernel may not end. Launch less of it`), LIMIT * 1000);
  const source = $("source").value;
  const binary = source === example?.source ? Uint8Array.from(atob(example.binary), (letter) => letter.charCodeAt(0)) : undefined;
  worker.postMessage({ id: number, language: $("language").value, source, launch: $("launch").value, binary });
}

function stop(text) {
  finish("stopped", text);
  startWorker();
}

function finish(state, text) {
  clearTimeout(limit);
  setState(state, text);
}

const seconds = () => `${((performance.now() - running) / 1000).toFixed(1)} s`;

async function take({ answer, shown, errors, failed, note }) {
  if (note) return void ($("state").textContent = note);
  if (failed) return finish("failed", failed);
  if (errors) {
    const problems = errors.map(({ line, message, text }) => ({ rule: "COMPILE", message, text, location: { line } }));
    await showFindings({ summary: "The kernel does not compile", problems, notes: [], settings: "", refusal: "" });
    show({ dialect: "", assembly: "" });
    showBuffers([]);
    return finish("done", `Compiled in ${seconds()}`);
  }
  if (answer) {
    await showFindings(answer);
    showBuffers(answer.buffers);
    if (!edited) $("launch").value = answer.launch;
    $("state").textContent = `Tested in ${seconds()}`;
    document.body.dataset.found = answer.problems.length;
    return;
  }
  show(shown);
  finish("done", $("state").textContent);
}

// Results.

function choose(tab) {
  for (const other of document.querySelectorAll("[role=tab]")) {
    other.setAttribute("aria-selected", other === tab);
    $(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
}

function placeButton({ line, text, message }) {
  const button = make("button", undefined, { className: "place", type: "button", onclick: () => goTo(line) });
  button.append(make("span", `Line ${line}${message ? ` (${message})` : ""}: `), make("code", text?.trim() || $("source").value.split("\n")[line - 1]?.trim()));
  return button;
}

async function showFindings({ summary, problems, notes, settings, refusal }) {
  const { rules } = await data;
  const found = problems.map(({ rule, message, remedy, text, location, related = [] }) => {
    const box = make("article", undefined, { className: "finding" });
    const name = rules[rule] ? make("a", rule, { href: `../../../${rules[rule]}#:~:text=${encodeURIComponent(rule).replaceAll("-", "%2D")}` }) : make("span", rule);
    const heading = make("h2");
    heading.append(name, ` ${message}`);
    box.append(heading);
    for (const place of [location, ...related]) if (place?.line) box.append(placeButton(place));
    if (remedy) box.append(make("p", remedy));
    const details = make("details");
    details.append(make("summary", "All that is known"), make("pre", text));
    if (text && text !== message) box.append(details);
    return box;
  });
  if (refusal) found.push(make("article", refusal, { className: "finding" }));
  if (!found.length) found.push(make("article", "No findings.", { className: "finding good" }));
  const rest = [...notes, settings].filter(Boolean).map((text) => make("p", text.trim(), { className: "quiet" }));
  $("findings").replaceChildren(make("p", summary, { className: "summary" }), ...found, ...rest);
  mark(problems.map(({ location }) => location?.line).filter(Boolean));
  if (refusal) $("launching").open = true;
  choose($("tab-findings"));
}

function showBuffers(buffers) {
  const parts = buffers.flatMap(({ name, type, shape, values }) => {
    const count = shape.reduce((product, size) => product * size, 1);
    const more = values.length < count ? `, the first ${values.length} of ${count}` : "";
    const numbers = make("div", undefined, { className: "numbers", tabIndex: 0 });
    numbers.append(...values.map((value, place) => {
      const cell = make("span");
      cell.append(make("i", place), make("b", value));
      return cell;
    }));
    return [make("p", `${name}: ${type} ${shape.join(" x ")}${more}`, { className: "summary" }), numbers];
  });
  const none = make("p", "No launch came to its end.", { className: "quiet" });
  $("buffers").replaceChildren(...(parts.length ? parts : [none]));
}

function show({ dialect, assembly }) {
  $("dialect").replaceChildren(make("pre", dialect || "-", { tabIndex: 0 }));
  $("assembly").replaceChildren(make("pre", assembly || "-", { tabIndex: 0 }));
}

// The editor: a text area with numbers of lines, red where something is wrong.

let marked = new Set();

function mark(lines) {
  marked = new Set(lines);
  const count = $("source").value.split("\n").length;
  const numbers = Array.from({ length: count }, (_, place) => {
    const bad = marked.has(place + 1);
    return [bad ? make("span", place + 1, { className: "bad", onclick: () => choose($("tab-findings")) }) : `${place + 1}`, "\n"];
  });
  $("gutter").replaceChildren(...numbers.flat());
  $("gutter").scrollTop = $("source").scrollTop;
}

function goTo(line) {
  const area = $("source");
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  area.scrollTop = Math.max(0, (line - 6) * 20);
}

// A link holds the language, the source and the launch.

const bytesThrough = async (stream, bytes) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

async function link() {
  const { value: language } = $("language");
  const text = JSON.stringify({ language, source: $("source").value, launch: $("launch").value });
  const bytes = await bytesThrough(new CompressionStream("deflate-raw"), new TextEncoder().encode(text));
  const word = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#${word.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

async function read(word) {
  const text = atob(word.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await bytesThrough(new DecompressionStream("deflate-raw"), Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
  return JSON.parse(new TextDecoder().decode(bytes));
}

function fill({ title, language, source, launch, binary }) {
  example = binary && { source, binary };
  $("language").value = language;
  $("source").value = source;
  $("launch").value = launch ?? "";
  $("example").value = title ?? "";
  document.body.dataset.found = "";
  mark([]);
}

async function open() {
  const { examples } = await data;
  const options = examples.map(({ title }) => make("option", title, { value: title }));
  $("example").replaceChildren($("example").firstElementChild, ...options);
  let given = examples[0];
  try {
    if (location.hash.length > 1) given = await read(location.hash.slice(1));
  } catch {
    $("findings").replaceChildren(make("p", "The link is damaged: it holds no kernel. Ask for it again.", { className: "finding" }));
  }
  fill(given);
}

$("example").onchange = async () => {
  const chosen = (await data).examples.find(({ title }) => title === $("example").value);
  fill(chosen ?? { language: $("language").value, source: "" });
  if (chosen && !$("run").disabled) run();
};
$("source").oninput = () => {
  edited = true;
  $("example").value = "";
  mark([]);
};
$("source").onscroll = () => ($("gutter").scrollTop = $("source").scrollTop);
$("launch").oninput = () => (edited = true);
$("language").onchange = () => ($("launch").value = "");
$("anew").onclick = () => ($("launch").value = "");
$("run").onclick = run;
$("stop").onclick = () => stop(`Stopped after ${seconds()}`);
$("share").onclick = async () => {
  history.replaceState(null, "", await link());
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  $("share").textContent = "Copied: the address has it too";
  setTimeout(() => ($("share").textContent = "Copy a link"), 3000);
};
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("run").disabled) run();
});
document.querySelectorAll("[role=tab]").forEach((tab) => (tab.onclick = () => choose(tab)));
addEventListener("hashchange", open);

await Promise.all([open(), startWorker()]).then(run, (error) => setState("broken", `The page cannot load what it needs: ${error.message}`));
