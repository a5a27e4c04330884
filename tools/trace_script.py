"""
The style and the script of a trace's page: stepping from pass to pass, following a node.

Without the script the page shows all passes one below the other.
"""

from __future__ import annotations

STYLE = """
table.passes td { padding-right: 1rem; } table.passes td:last-child { overflow-wrap: anywhere; }
tr.here td { background: var(--band); } tr.quiet { opacity: .4; }
@media (min-width: 801px) { table.passes td:first-child { white-space: nowrap; } }
.bar { position: sticky; top: 0; background: var(--page); padding: .5rem 0; z-index: 1;
  border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: .4rem .8rem;
  align-items: center; } .bar b { min-width: 12rem; }
.bar label { display: flex; gap: .4rem; min-width: 0;
  max-width: 100%; } .bar select { min-width: 0; }
.bar button, .bar select { font: inherit; color: inherit; background: var(--band);
  border: 1px solid var(--line); border-radius: 6px; padding: .15rem .6rem; }
.bar[hidden], section[hidden], details[hidden], tr[hidden] { display: none; }
details.unit { overflow: hidden; } details.unit > * { margin: 0 !important; }
details.unit summary .soft { float: right; margin-left: 1rem; }
table.diff { table-layout: fixed; font: 12px/1.45 ui-monospace, monospace; }
table.diff td { border: 0; padding: 0; white-space: pre-wrap; overflow-wrap: anywhere;
  width: 50%; } table.diff td + td { border-left: 1px solid var(--line); }
table.diff ins, table.diff del, table.diff span { display: block; text-decoration: none;
  padding: 0 .6rem; min-height: 1.45em; }
table.diff ins { background: var(--added); color: var(--added-ink); }
table.diff del { background: var(--removed); color: var(--removed-ink); }
tr.skip td { color: var(--soft); border-top: 1px dashed var(--line); padding: 0 .6rem; }
tr.renamed td span { color: var(--soft); }
pre { margin: 0; padding: .4rem .6rem; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 800px) { table.diff, table.diff tbody, table.diff tr, table.diff td {
  display: block; width: 100%; } table.diff td:empty, tr.same td:first-child,
  tr.renamed td:first-child { display: none; } table.diff td + td { border-left: 0; }
  tr[hidden] { display: none !important; } }
"""

SCRIPT = """
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
"""
"""`n`, `j` and the right arrow go forth, `p`, `k` and the left arrow back."""
