"use strict";

// The curves of a run: each draws one key of the metrics, of the lines that have the other key "of", if any.
const charts = [
  { title: "Loss", key: "loss", smooth: true },
  { title: "Held-out loss", key: "eval_loss" },
  { title: "Divergence from the teacher, nats", key: "divergence", of: "loss", smooth: true },
  { title: "Cross-entropy of the data, nats", key: "cross_entropy", of: "loss", smooth: true },
  { title: "Held-out cross-entropy, nats", key: "cross_entropy", of: "eval_loss" },
  { title: "Margin of rewards", key: "rewards_margin", of: "loss", smooth: true },
  { title: "Held-out margin of rewards", key: "rewards_margin", of: "eval_loss" },
  { title: "Reward of chosen answers", key: "rewards_chosen", of: "loss", smooth: true },
  { title: "Reward of rejected answers", key: "rewards_rejected", of: "loss", smooth: true },
  { title: "Accuracy of rewards, %", key: "rewards_accuracy", of: "loss", scale: 100, smooth: true },
  { title: "Held-out accuracy of rewards, %", key: "rewards_accuracy", of: "eval_loss", scale: 100 },
  { title: "KL divergence from the reference, nats", key: "kl", of: "loss", smooth: true },
  { title: "Learning rate", key: "learning_rate" },
  { title: "Norm of the gradient", key: "grad_norm" },
  { title: "Tokens a second", key: "tokens_per_second" },
  { title: "Share of the measured peak, %", key: "peak_share", scale: 100 },
  { title: "Memory, GB", key: "memory", scale: 1e-9 },
];
const light = ["#1f6fd1", "#c2410c", "#15803d", "#9333ea", "#b91c1c", "#0f766e"];
const dark = ["#6cb0ff", "#fb923c", "#4ade80", "#c084fc", "#f87171", "#2dd4bf"];
const wait = 1000, smoothing = 0.9;
const listEvery = 5; // requests
const wholeSteps = Array.from({ length: 24 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3)); // between ticks

const scheme = matchMedia("(prefers-color-scheme: dark)");
const runs = new Map(); // by name: { row, lines, version, next, shown, color, at }
let order = [];         // names, in the server's order
let faults = [];        // errors of folders that look like runs
let seen = 0;           // number of runs so far; selects the colour of the next one
let drawn = "";         // key of the charts on the page

const $ = (id) => document.getElementById(id);

// element creates an element. Its text is never parsed as HTML.
function element(name, text, attributes = {}) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return e;
}

// get returns the server's answer, or null if it answers 404. It throws if nothing answers.
async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  return answer.ok ? answer : null;
}

const query = (o) => new URLSearchParams(o).toString();
const color = (name) => (scheme.matches ? dark : light)[runs.get(name).color % light.length];
const shown = () => order.filter((name) => runs.get(name).shown);

async function readRuns() {
  const list = await (await get("runs.json")).json();
  faults = list.faults;
  order = list.runs.map((row) => row.name);
  for (const row of list.runs) {
    if (!runs.has(row.name)) {
      runs.set(row.name, { lines: [], version: 0, next: 0, shown: remembered(row.name) ?? row === list.runs[0], color: seen++, at: new Map() });
    }
    runs.get(row.name).row = row;
  }
  for (const name of [...runs.keys()]) if (!order.includes(name)) runs.delete(name);
}

// The choice of runs survives a reload.
function remembered(name) {
  const chosen = new URLSearchParams(location.hash.slice(1)).getAll("run");
  return chosen.length ? chosen.includes(name) : null;
}

function remember() {
  const chosen = new URLSearchParams();
  for (const name of shown()) chosen.append("run", name);
  history.replaceState(null, "", "#" + chosen);
}

// readMetrics fetches the new metrics of a run, in as many requests as needed, and reports whether there were
// any.
async function readMetrics(name) {
  const run = runs.get(name);
  for (let isNew = false; ; isNew = true) {
    const answer = await get("metrics.jsonl?" + query({ name, version: run.version, from: run.next }));
    if (!answer) return isNew; // no metrics yet
    const text = await answer.text();
    const version = answer.headers.get("Metrics-Version"), next = answer.headers.get("Metrics-Next");
    if (answer.headers.get("Metrics-From") === "0") run.lines = [];
    for (const line of text.split("\n")) if (line) run.lines.push(JSON.parse(line));
    if (version === run.version && next === run.next) return isNew;
    run.version = version;
    run.next = next;
  }
}

const digits = (x) => (x === undefined || x === null ? "–" : x.toFixed(4));

function drawRuns() {
  const focused = document.activeElement; // moving an element removes its focus
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
    cell.append(label, element("div", row.status + (row.time ? ", begun " + row.time + " UTC" : ""), { class: "state " + row.state.replace(" ", "-") }));
    const line = element("tr");
    line.append(cell, element("td", row.model), element("td", row.step + "/" + row.steps, { class: "n" }), element("td", digits(row.loss), { class: "n" }), element("td", digits(row.best_loss), { class: "n" }));
    return line;
  });
  body.replaceChildren(...rows);
  if (focused && body.contains(focused)) focused.focus();
}

// table returns the columns of a chart: steps, then for each run one column, or two if a smoothed one exists.
function table(chart, names) {
  const tables = [], series = [{ label: "step" }];
  for (const name of names) {
    const steps = [], values = [], smoothed = [];
    let mean = null, isBroken = false;
    for (const line of runs.get(name).lines) {
      if (line === null) { isBroken = true; continue; }
      const y = line[chart.key];
      if (y === undefined || chart.of && line[chart.of] === undefined) continue;
      const last = steps.at(-1);
      if (isBroken && line.step > last + 1) { // a gap for unreadable lines
        steps.push(last + 1);
        values.push(null);
        smoothed.push(null);
      }
      isBroken = false;
      steps.push(line.step);
      values.push(y * (chart.scale ?? 1));
      mean = mean === null ? y : smoothing * mean + (1 - smoothing) * y;
      smoothed.push(mean);
    }
    const points = { show: steps.length < 40, filter: (plot, i, show) => (show ? null : lone(plot.data[i])) };
    const style = { label: name, stroke: color(name), spanGaps: false, points };
    if (!chart.smooth) {
      tables.push([steps, values]);
      series.push({ ...style, width: 2 });
      continue;
    }
    tables.push([steps, values, smoothed]);
    series.push({ ...style, width: 1, alpha: 0.4 }, { ...style, label: name + ", smoothed", width: 2, points: { ...points, show: false } });
  }
  return { data: uPlot.join(tables.length ? tables : [[[], []]]), series };
}

// lone finds values between two gaps, which a line would not show. undefined marks steps of other runs, null
// marks gaps.
function lone(values) {
  const own = [...values.keys()].filter((i) => values[i] !== undefined);
  const isGap = (k) => (values[own[k]] ?? null) === null;
  return own.filter((_, k) => !isGap(k) && isGap(k - 1) && isGap(k + 1));
}

const drawnKey = () => JSON.stringify([shown(), scheme.matches]);

function drawCharts() {
  const names = shown();
  const key = drawnKey();
  const box = $("charts"); // a chart without points has no box
  if (key !== drawn) { // other charts than before: rebuild
    for (const chart of charts) if (chart.plot) { chart.plot.destroy(); chart.plot = null; }
    box.replaceChildren();
    drawn = key;
  }
  const css = getComputedStyle(document.documentElement);
  const axis = { stroke: css.getPropertyValue("--dim"), grid: { stroke: css.getPropertyValue("--line"), width: 1 }, ticks: { stroke: css.getPropertyValue("--line") } };
  for (const chart of charts) {
    const { data, series } = table(chart, names);
    if (chart.plot) { chart.plot.setData(data); continue; }
    if (!data[0].length) continue;
    const figure = element("figure");
    figure.append(element("figcaption", chart.title));
    box.insertBefore(figure, charts.slice(charts.indexOf(chart) + 1).find((c) => c.plot)?.figure ?? null);
    chart.figure = figure;
    const legend = { ...axis, size: 64, values: (_, splits) => splits.map(short) };
    chart.plot = new uPlot({ ...sizeOf(figure), series, scales: { x: { time: false } }, axes: [{ ...axis, incrs: wholeSteps }, legend] }, data, figure);
  }
}

// short formats a number for people.
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

// drawText shows samples and settings of the runs.
async function drawText() {
  const samples = [], settings = [];
  for (const name of shown()) {
    const lines = await get("samples.jsonl?" + query({ name })), about = await get("run.json?" + query({ name }));
    if (!lines || !about) continue; // the run is gone
    const list = (await lines.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
    if (list.length) samples.push(details("samples of " + name, samplesOf(runs.get(name), list), true));
    const info = await about.json();
    settings.push(details("settings of " + name, texts([["config.yaml", info.config], ["commands", info.commands], ["made by", info.program + ", ggml " + info.ggml],
      ["files", (info.files || []).map((f) => [f.flag, f.path, f.bytes + " bytes", f.sha256].join("  ")).join("\n")]])));
  }
  replace($("samples"), samples);
  replace($("about"), settings);
}

// replace replaces the parts in a box. Parts stay open if they were, and the focus stays.
function replace(box, parts) {
  const before = new Map([...box.querySelectorAll("details")].map((d) => [d.dataset.key, d.open]));
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  for (const d of parts) d.open = before.get(d.dataset.key) ?? d.open;
  box.replaceChildren(...parts);
  if (focused !== undefined) [...box.querySelectorAll("[data-key]")].find((e) => e.dataset.key === focused && e.tagName !== "DETAILS")?.focus();
}

function details(title, parts, open = false) {
  const d = element("details", undefined, { "data-key": title });
  d.open = open;
  d.append(element("summary", title, { "data-key": title }), ...parts);
  return d;
}

const texts = (parts) => parts.filter(([, text]) => text).flatMap(([name, text]) => [element("h3", name), element("pre", text)]);

// samplesOf shows for each prompt the reply of the base model and the reply after the chosen step; by default
// the last step.
function samplesOf(run, lines) {
  return [...new Set(lines.map((s) => s.prompt))].flatMap((prompt) => {
    const all = lines.filter((s) => s.prompt === prompt), later = all.filter((s) => s.step > 0);
    const parts = texts([["prompt", prompt], ["before", all.find((s) => s.step === 0)?.text]]);
    if (!later.length) return parts;
    const text = element("pre"), after = element("output"), label = element("label", undefined, { class: "step" });
    const last = later.length - 1, chosen = later.findIndex((s) => s.step === run.at.get(prompt));
    const slider = element("input", undefined, { type: "range", min: 0, max: last, "data-key": "step of " + run.row.name + ": " + prompt });
    slider.value = chosen < 0 ? last : chosen;
    const show = () => {
      const s = later[slider.value];
      after.textContent = "after step " + s.step;
      slider.setAttribute("aria-valuetext", "step " + s.step);
      text.textContent = s.text;
    };
    slider.addEventListener("input", () => {
      if (+slider.value === last) run.at.delete(prompt); else run.at.set(prompt, later[slider.value].step);
      show();
    });
    show();
    label.append(after, slider);
    return [...parts, label, text];
  });
}

let busy = false, described = "", ticks = 0;

async function tick() {
  if (busy) return;
  busy = true;
  const status = $("status");
  try {
    if (ticks++ % listEvery === 0) await readRuns();
    let isNew = false;
    for (const name of shown()) isNew = await readMetrics(name) || isNew;
    drawRuns();
    if (isNew || drawn !== drawnKey()) drawCharts();
    const key = JSON.stringify(shown().map((name) => [name, runs.get(name).version, runs.get(name).row.step === runs.get(name).row.steps, runs.get(name).row.samples]));
    if (key !== described) { await drawText(); described = key; }
    status.textContent = [order.length ? order.length + (order.length === 1 ? " run" : " runs") : "there is no run in this folder yet", ...faults].join("; ");
    status.classList.remove("lost");
  } catch (e) {
    ticks = 0; // list the runs again first
    status.textContent = "the program does not answer; the curves are those of before";
    status.classList.add("lost");
  }
  busy = false;
}

scheme.addEventListener("change", tick);
tick();
setInterval(tick, wait);
