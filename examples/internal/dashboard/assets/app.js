"use strict";

// The curves of a run: what a line of metrics has under a key.
const charts = [
  { title: "Loss", key: "loss", smooth: true },
  { title: "Held-out loss", key: "eval_loss" },
  { title: "Learning rate", key: "learning_rate" },
  { title: "Norm of the gradient", key: "grad_norm" },
  { title: "Tokens a second", key: "tokens_per_second" },
  { title: "Memory, GB", key: "memory", scale: 1e-9 },
];
const light = ["#1f6fd1", "#c2410c", "#15803d", "#9333ea", "#b91c1c", "#0f766e"];
const dark = ["#6cb0ff", "#fb923c", "#4ade80", "#c084fc", "#f87171", "#2dd4bf"];
const wait = 1000, smoothing = 0.9;
const listEvery = 5; // waits: the server reads the whole history of a run for its line in the list

const scheme = matchMedia("(prefers-color-scheme: dark)");
const runs = new Map(); // by name: { row, lines, version, next, shown, about }
let order = [];         // of names, as the server lists them
let drawn = "";         // what the charts have

const $ = (id) => document.getElementById(id);

// element makes one with text, which is never mark-up.
function element(name, text, attributes = {}) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return e;
}

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

const query = (o) => new URLSearchParams(o).toString();
const color = (name) => (scheme.matches ? dark : light)[order.indexOf(name) % light.length];
const shown = () => order.filter((name) => runs.get(name).shown);

async function readRuns() {
  const rows = await (await get("runs.json")).json();
  order = rows.map((row) => row.name);
  for (const row of rows) {
    if (!runs.has(row.name)) runs.set(row.name, { lines: [], version: 0, next: 0, shown: remembered(row.name) ?? row === rows[0] });
    runs.get(row.name).row = row;
  }
  for (const name of [...runs.keys()]) if (!order.includes(name)) runs.delete(name);
}

// A choice of runs survives a reload.
function remembered(name) {
  const chosen = new URLSearchParams(location.hash.slice(1)).getAll("run");
  return chosen.length ? chosen.includes(name) : null;
}

function remember() {
  const chosen = new URLSearchParams();
  for (const name of shown()) chosen.append("run", name);
  history.replaceState(null, "", "#" + chosen);
}

async function readMetrics(name) {
  const run = runs.get(name);
  let answer;
  try {
    answer = await get("metrics.jsonl?" + query({ name, version: run.version, from: run.next }));
  } catch (e) {
    return; // it has none yet
  }
  const text = await answer.text();
  if (answer.headers.get("Metrics-From") === "0") run.lines = [];
  run.version = answer.headers.get("Metrics-Version");
  run.next = answer.headers.get("Metrics-Next");
  for (const line of text.split("\n")) if (line) run.lines.push(JSON.parse(line));
}

const digits = (x) => (x === undefined || x === null ? "–" : x.toFixed(4));

function drawRuns() {
  const focused = document.activeElement; // which moving takes away
  const body = $("runs").tBodies[0];
  const boxes = new Map([...body.querySelectorAll("input")].map((box) => [box.value, box]));
  const rows = order.map((name) => {
    const { row, shown } = runs.get(name);
    let box = boxes.get(name);
    if (!box) {
      box = element("input", undefined, { type: "checkbox", value: name });
      box.addEventListener("change", () => { runs.get(name).shown = box.checked; remember(); tick(); });
    }
    box.checked = shown;
    const dot = element("span", undefined, { class: "dot" });
    dot.style.background = shown ? color(name) : "transparent";
    const label = element("label");
    label.append(box, dot, name);
    const cell = element("td");
    cell.append(label);
    const line = element("tr");
    line.append(cell, element("td", row.model), element("td", row.step + "/" + row.steps, { class: "n" }), element("td", digits(row.loss), { class: "n" }), element("td", digits(row.best_loss), { class: "n" }));
    return line;
  });
  body.replaceChildren(...rows);
  if (focused && body.contains(focused)) focused.focus();
}

// table is what a chart draws: steps, and of each run a column, or two where there is a smoothed one.
function table(chart, names) {
  const tables = [], series = [{ label: "step" }];
  for (const name of names) {
    const steps = [], values = [], smoothed = [];
    let mean = null;
    for (const line of runs.get(name).lines) {
      const y = line[chart.key];
      if (y === undefined) continue;
      steps.push(line.step);
      values.push(y * (chart.scale ?? 1));
      mean = mean === null ? y : smoothing * mean + (1 - smoothing) * y;
      smoothed.push(mean);
    }
    const style = { label: name, stroke: color(name), spanGaps: true, points: { show: steps.length < 40 } };
    if (!chart.smooth) {
      tables.push([steps, values]);
      series.push({ ...style, width: 2 });
      continue;
    }
    tables.push([steps, values, smoothed]);
    series.push({ ...style, width: 1, alpha: 0.4 }, { ...style, label: name + ", smoothed", width: 2, points: { show: false } });
  }
  return { data: uPlot.join(tables.length ? tables : [[[], []]]), series };
}

function drawCharts() {
  const names = shown();
  const key = JSON.stringify([names, scheme.matches]);
  const box = $("charts");
  if (key !== drawn) { // others than before: anew
    for (const chart of charts) if (chart.plot) { chart.plot.destroy(); chart.plot = null; }
    box.replaceChildren();
    drawn = key;
  }
  const css = getComputedStyle(document.documentElement);
  const axis = { stroke: css.getPropertyValue("--dim"), grid: { stroke: css.getPropertyValue("--line"), width: 1 }, ticks: { stroke: css.getPropertyValue("--line") } };
  for (const chart of charts) {
    const { data, series } = table(chart, names);
    if (chart.plot) { chart.plot.setData(data); continue; }
    const figure = element("figure");
    figure.append(element("figcaption", chart.title));
    box.append(figure);
    chart.figure = figure;
    const legend = { ...axis, size: 64, values: (_, splits) => splits.map(short) };
    chart.plot = new uPlot({ ...sizeOf(figure), series, scales: { x: { time: false } }, axes: [axis, legend] }, data, figure);
  }
}

// short is a number as a person reads it.
function short(x) {
  const size = Math.abs(x);
  return size > 0 && (size < 0.001 || size >= 1e5) ? x.toExponential(1) : String(+x.toPrecision(3));
}

function sizeOf(figure) {
  const style = getComputedStyle(figure);
  return { width: Math.max(120, figure.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)), height: 220 };
}

new ResizeObserver(() => {
  for (const chart of charts) if (chart.plot) chart.plot.setSize(sizeOf(chart.figure));
}).observe($("charts"));

async function drawText() {
  const samples = $("samples"), about = $("about");
  const open = new Set([...document.querySelectorAll("details[open]")].map((d) => d.dataset.key));
  const list = [], settings = [];
  for (const name of shown()) {
    const run = runs.get(name);
    const lines = (await (await get("samples.jsonl?" + query({ name }))).text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
    if (lines.length) list.push(details(open, "samples of " + name, lines.map((s) => ["step " + s.step, s.prompt + "\n" + s.text])));
    const info = await (await get("run.json?" + query({ name }))).json();
    settings.push(details(open, "settings of " + name, [["config.yaml", info.config], ["commands", info.commands], ["made by", info.program + ", ggml " + info.ggml],
      ["files", (info.files || []).map((f) => [f.flag, f.path, f.bytes + " bytes", f.sha256].join("  ")).join("\n")]]));
    run.described = run.row.step;
  }
  samples.replaceChildren(...list);
  about.replaceChildren(...settings);
}

function details(open, title, parts) {
  const d = element("details");
  d.dataset.key = title;
  d.open = open.has(title);
  d.append(element("summary", title));
  for (const [name, text] of parts) if (text) d.append(element("h3", name), element("pre", text));
  return d;
}

let busy = false, described = "", ticks = 0;

async function tick() {
  if (busy) return;
  busy = true;
  const status = $("status");
  try {
    if (ticks++ % listEvery === 0) await readRuns();
    for (const name of shown()) await readMetrics(name);
    drawRuns();
    drawCharts();
    const key = JSON.stringify(shown().map((name) => [name, runs.get(name).version, runs.get(name).row.step === runs.get(name).row.steps]));
    if (key !== described) { await drawText(); described = key; }
    status.textContent = order.length ? order.length + (order.length === 1 ? " run" : " runs") : "there is no run in this folder yet";
    status.classList.remove("lost");
  } catch (e) {
    ticks = 0; // begin by the list again
    status.textContent = "the program does not answer; the curves are those of before";
    status.classList.add("lost");
  }
  busy = false;
}

scheme.addEventListener("change", tick);
tick();
setInterval(tick, wait);
