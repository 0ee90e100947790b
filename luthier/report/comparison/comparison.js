"use strict";
// Sorting, filtering and the drill-down of the comparison page. Texts only ever become text nodes.

const DATA = JSON.parse(document.getElementById("data").textContent);
const METHODS = new Map(DATA.methods.map(([key, label, kind, colour]) => [key, { label, kind, colour }]));
const ROWS = DATA.rows.map((row) => {
  const [run, question, score, outcome, heldOut, harness, answer, note, trace, generator, target, calls] = row;
  const [method, task, budget, fingerprint, home, seed] = DATA.runs[run];
  return { method, task, budget, fingerprint, home, seed: String(seed), question, score, outcome: DATA.outcomes[outcome],
    heldOut, harness, answer, note, trace, generator, target, calls };
});
const FIRST_ROWS = 60;
const form = document.getElementById("filters");
const dialog = document.getElementById("drill");
let everything = false; // whether the list shows more than its first rows
let listed = []; // question numbers in the order of the list
let opened = -1;

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

const number = (value) => value.toLocaleString("en-US");
const mean = (rows) => rows.reduce((sum, row) => sum + row.score, 0) / rows.length;

// --- sorting ------------------------------------------------------------------------------------------------------

function sortable(table) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = make("button", { type: "button", onclick: () => sort(table, column) });
    button.append(...head.childNodes);
    head.append(button);
  });
}

function sort(table, column) {
  const heads = [...table.querySelectorAll("thead th")];
  const down = heads[column].getAttribute("aria-sort") !== "descending" && heads[column].classList.contains("num")
    || heads[column].getAttribute("aria-sort") === "ascending";
  const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const rows = [...table.tBodies[0].rows];
  const numeric = rows.every((row) => row.cells[column].dataset.value !== undefined);
  rows.sort((a, b) => (numeric ? value(a) - value(b) : value(a).localeCompare(value(b), "en")) * (down ? -1 : 1));
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  table.tBodies[0].append(...rows);
}

// --- filtering ----------------------------------------------------------------------------------------------------

function chosen() {
  const values = Object.fromEntries(new FormData(form));
  return { ...values, text: values.text.trim().toLowerCase() };
}

function passes(row, want) {
  const target = want.target === undefined ? row.home : row.fingerprint === want.target;
  return target && (!want.method || row.method === want.method) && (!want.budget || !row.budget || row.budget === want.budget)
    && (!want.seed || row.seed === want.seed) && (!want.outcome || row.outcome === want.outcome)
    && (want.answer !== "right" || row.score >= 1) && (want.answer !== "wrong" || row.score < 1);
}

function asks(question, want) {
  const [id, task, family, text] = DATA.questions[question];
  return (!want.task || task === want.task) && (!want.family || family === want.family)
    && (!want.text || text.toLowerCase().includes(want.text) || id.includes(want.text));
}

// Contenders as columns: one for each method and budget, so that budgets are never mixed in a mean.
const column = (row) => JSON.stringify([row.method, row.budget]);

function matching(want) {
  const found = new Map();
  for (const row of ROWS) {
    if (!asks(row.question, want) || !passes(row, want)) continue;
    if (!found.has(row.question)) found.set(row.question, new Map());
    const cells = found.get(row.question);
    if (!cells.has(column(row))) cells.set(column(row), []);
    cells.get(column(row)).push(row);
  }
  if (want.answer === "mixed") {
    for (const [question, cells] of found) {
      const means = new Set([...cells.values()].map((rows) => mean(rows).toFixed(4)));
      if (means.size < 2) found.delete(question);
    }
  }
  return found;
}

function filter() {
  const want = chosen();
  for (const field of form.elements) field.classList.toggle("active", Boolean(field.value) && field.selectedIndex !== 0 && field.type !== "reset");
  for (const node of document.querySelectorAll("main [data-task], main [data-budget], main tr[data-method]")) {
    const { task, budget, method } = node.dataset;
    const gone = (want.task && task && task !== want.task) || (want.budget && budget && budget !== want.budget)
      || (want.method && method && !method.split(" ").includes(want.method));
    node.classList.toggle("gone", Boolean(gone));
  }
  for (const node of document.querySelectorAll("main g[data-method]")) {
    node.classList.toggle("dim", Boolean(want.method) && node.dataset.method !== want.method);
  }
  list(matching(want));
}

function list(found) {
  const heads = [...new Set(ROWS.map(column))].filter((key) => [...found.values()].some((cells) => cells.has(key)));
  const order = [...METHODS.keys()];
  const parts = (key) => JSON.parse(key);
  heads.sort((a, b) => order.indexOf(parts(a)[0]) - order.indexOf(parts(b)[0]) || parts(a)[1].localeCompare(parts(b)[1]));
  const budgets = new Set(heads.map((key) => parts(key)[1]).filter(Boolean));
  const names = heads.map((key) => METHODS.get(parts(key)[0]).label + (budgets.size > 1 && parts(key)[1] ? `, ${parts(key)[1]}` : ""));
  listed = [...found.keys()].sort((a, b) => compare(DATA.questions[a], DATA.questions[b]));
  const shown = everything ? listed : listed.slice(0, FIRST_ROWS);
  const table = make("table", {},
    make("caption", {}, "Mean score over the seeds that pass the filters, in per cent"),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "question"), make("th", { scope: "col" }, "family"),
      names.map((name) => make("th", { scope: "col", class: "who-head" }, make("span", { class: "upright" }, name))))),
    make("tbody", {}, shown.map((question) => entry(question, heads, found.get(question)))));
  const more = shown.length < listed.length
    ? make("button", { type: "button", class: "plain", onclick: () => { everything = true; filter(); } }, `Show all ${number(listed.length)} questions`) : null;
  document.getElementById("list").replaceChildren(...[table, more].filter(Boolean));
  const executions = [...found.values()].reduce((sum, cells) => sum + [...cells.values()].reduce((n, rows) => n + rows.length, 0), 0);
  document.getElementById("shown").textContent =
    `${number(listed.length)} of ${number(DATA.questions.length)} questions, ${number(executions)} executions pass the filters.`;
}

const compare = (a, b) => a[1].localeCompare(b[1]) || a[2].localeCompare(b[2]) || a[0].localeCompare(b[0]);

function entry(question, heads, cells) {
  const [id, , family, text] = DATA.questions[question];
  const short = text.length > 110 ? `${text.slice(0, 109)}…` : text;
  const button = make("button", { type: "button", class: "ask", "data-question": id, "aria-haspopup": "dialog", onclick: () => open(question) }, short);
  return make("tr", {}, make("th", { scope: "row" }, button), make("td", { class: "family" }, family),
    heads.map((key) => (cells.has(key) ? heat(cells.get(key)) : make("td", { class: "num" }, "–"))));
}

function heat(rows) {
  const share = Math.round(100 * mean(rows));
  const said = rows.map((row) => `seed ${row.seed}: ${row.outcome}, ${Math.round(100 * row.score)} %`).join("; ");
  const bad = rows.some((row) => row.outcome !== "ok");
  return make("td", { class: `heat${share > 55 ? " strong" : ""}`, style: `--v:${share}%`, title: said }, String(share), bad ? "*" : null);
}

// --- drill-down ---------------------------------------------------------------------------------------------------

function open(question) {
  opened = question;
  const [id, task, family, text, reference] = DATA.questions[question];
  const want = chosen();
  const cells = new Map();
  for (const row of ROWS) {
    const wanted = { ...want, outcome: "", answer: "" };
    if (row.question !== question || !passes(row, wanted)) continue;
    if (!cells.has(column(row))) cells.set(column(row), []);
    cells.get(column(row)).push(row);
  }
  const order = [...METHODS.keys()];
  const sides = [...cells.values()].sort((a, b) => order.indexOf(a[0].method) - order.indexOf(b[0].method) || a[0].budget.localeCompare(b[0].budget));
  const place = listed.indexOf(question);
  const move = (label, by) => make("button", { type: "button", class: "plain", ...(listed[place + by] === undefined ? { disabled: "" } : {}), onclick: () => step(by) }, label);
  dialog.replaceChildren(
    make("div", { class: "drill-head" },
      make("h2", { id: "drill-title", tabindex: "-1" }, `${family} `, make("span", { class: "tag" }, `${task} ${id}`)),
      move("← previous", -1), move("next →", 1),
      make("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close (Esc)")),
    make("div", { class: "drill-body" },
      make("p", { class: "question" }, text),
      reference ? make("p", {}, "Reference: ", make("code", {}, reference)) : null,
      make("div", { class: "sides" }, sides.map(side))));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  document.getElementById("drill-title").focus({ preventScroll: true });
}

function side(rows) {
  const method = METHODS.get(rows[0].method);
  const body = make("div", {});
  const tabs = rows.map((row) => make("button", { type: "button", onclick: () => show(row) }, `seed ${row.seed} ${row.score >= 1 ? "✓" : "✗"}`));
  function show(row) {
    tabs.forEach((tab, place) => tab.setAttribute("aria-pressed", String(rows[place] === row)));
    body.replaceChildren(...execution(row));
  }
  show(rows[0]);
  return make("article", { class: `side ${method.colour}`, "data-method": rows[0].method },
    make("h3", {}, `${method.label} `, make("span", { class: `tag kind-${method.kind}` }, method.kind),
      rows[0].budget ? make("span", { class: "tag" }, `budget ${rows[0].budget}`) : null,
      rows[0].heldOut ? make("span", { class: "tag" }, "family unseen in training") : null),
    rows.length > 1 ? make("div", { class: "tabs", role: "group", "aria-label": `seeds of ${method.label}` }, tabs) : null, body);
}

function execution(row) {
  const text = (index) => DATA.texts[index];
  const [steps, left] = DATA.traces[row.trace];
  const right = row.score >= 1;
  return [
    make("p", { class: right ? "verdict right" : "verdict" },
      row.outcome === "ok" ? ["answer ", make("code", {}, text(row.answer)), ", "] : `outcome ${row.outcome}, `,
      "score ", make("strong", {}, `${Math.round(1000 * row.score) / 10} %`), text(row.note) ? `. ${text(row.note)}` : "."),
    make("p", { class: "cost" }, `${number(row.generator)} generator + ${number(row.target)} target = ${number(row.generator + row.target)} tokens, ${number(row.calls)} calls`),
    make("h4", {}, "Harness"), make("pre", { tabindex: "0" }, make("code", {}, text(row.harness) || "(empty)")),
    make("h4", {}, "Trace"),
    steps.length ? make("table", {}, make("thead", {}, make("tr", {}, ["node", "read", "wrote", "tokens"].map((name) =>
      make("th", { scope: "col", class: name === "tokens" ? "num col-tokens" : `col-${name}` }, name)))),
    make("tbody", {}, steps.map(([node, kind, inputs, output, tokens]) => make("tr", {},
      make("th", { scope: "row" }, `${node} `, make("span", { class: "kind" }, kind)),
      make("td", {}, inputs.map(([name, value]) => make("div", {}, `${name}: `, make("code", {}, text(value))))),
      make("td", {}, make("code", {}, text(output))), make("td", { class: "num" }, tokens ? number(tokens) : "–")))))
      : make("p", { class: "note" }, "No node ran."),
    left ? make("p", { class: "note" }, `${left} more steps are not embedded.`) : null,
  ].filter((node) => node !== null);
}

function step(by) {
  const next = listed[listed.indexOf(opened) + by];
  if (next !== undefined) open(next);
}

// --- keys ---------------------------------------------------------------------------------------------------------

dialog.addEventListener("keydown", (event) => {
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") step(event.key === "ArrowRight" ? 1 : -1);
});
dialog.addEventListener("close", () => {
  const asked = opened >= 0 ? DATA.questions[opened][0] : "";
  opened = -1;
  document.querySelector(`.ask[data-question="${CSS.escape(asked)}"]`)?.focus();
});
document.getElementById("list").addEventListener("keydown", (event) => {
  const buttons = [...document.querySelectorAll(".ask")];
  const place = buttons.indexOf(document.activeElement);
  const next = buttons[place + { ArrowDown: 1, ArrowUp: -1 }[event.key]];
  if (place >= 0 && next) { event.preventDefault(); next.focus(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || dialog.open || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  form.elements.text.focus();
});
form.addEventListener("input", () => { everything = false; filter(); });
form.addEventListener("reset", () => setTimeout(() => { everything = false; filter(); }));
form.addEventListener("submit", (event) => event.preventDefault());

document.querySelectorAll("table.sortable").forEach(sortable);
filter();
const link = DATA.questions.findIndex(([id]) => location.hash === `#question=${id}`);
if (link >= 0) open(link);
