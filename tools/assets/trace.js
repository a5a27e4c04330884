// n, j and the right arrow go forth, p, k and the left arrow back.
"use strict";
const bar = document.querySelector(".bar");
const stages = [...document.querySelectorAll("section.stage")];
const [previous, next, all] = bar.querySelectorAll("button");
const select = bar.querySelector("select");
const here = bar.querySelector("b");
const rows = document.querySelectorAll("table.passes tr[data-stage]");
const place = document.querySelector(".place");
let current = 0, whole = false;

function shows(element, node) {
  const list = element.dataset.n;
  return list !== undefined && list.split(" ").includes(node);
}
function follow(stage, node) {
  let seen = false;
  for (const unit of stage.querySelectorAll("details.unit")) {
    unit.hidden = node !== "" && !shows(unit, node);
    seen = seen || !unit.hidden;
    if (node !== "" && !unit.hidden) unit.open = true;
    const rows = unit.dataset.lines === "1" ? unit.querySelectorAll("tr") : [];
    for (const row of rows) row.hidden = node !== "" && !shows(row, node);
  }
  return seen || node === "";
}
function show() {
  const node = select === null ? "" : select.value;
  stages.forEach((stage, number) => {
    const seen = follow(stage, node);
    stage.hidden = whole ? !seen : number !== current;
    stage.querySelector(".nothing").hidden = seen;
    rows[number].classList.toggle("here", !whole && number === current);
    rows[number].classList.toggle("quiet", !seen);
  });
  here.textContent = whole ? "all passes" : (current + 1) + "/" + stages.length + " " +
    stages[current].dataset.name;
  previous.disabled = whole || current === 0;
  next.disabled = whole || current === stages.length - 1;
  all.textContent = whole ? "one pass" : "all passes";
}
function go(number) {
  whole = false;
  current = Math.max(0, Math.min(stages.length - 1, number));
  history.replaceState(null, "", "#" + stages[current].id);
  show();
  place.scrollIntoView();
}
function fromHash() {
  const number = stages.findIndex(stage => "#" + stage.id === location.hash);
  if (number >= 0) go(number);
}
bar.hidden = false;
previous.addEventListener("click", () => go(current - 1));
next.addEventListener("click", () => go(current + 1));
all.addEventListener("click", () => { whole = !whole; show(); });
if (select !== null) select.addEventListener("change", show);
window.addEventListener("hashchange", fromHash);
document.addEventListener("keydown", event => {
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = {ArrowRight: 1, j: 1, n: 1, ArrowLeft: -1, k: -1, p: -1}[event.key];
  if (step !== undefined) { event.preventDefault(); go(current + step); }
});
current = Math.min(1, stages.length - 1);
show();
fromHash();
