"use strict";
// The report's page. Its data is one JSON object (docs/report.md). Names in it come from a model and are only ever set as text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const classOfState = {parameter: "parameters", frozen: "parameters", statistic: "parameters", optimizer: "optimizer_state",
                        accumulator: "gradients", counter: "other"};
  const classWords = {parameters: "Parameters", gradients: "Gradients", optimizer_state: "Optimizer state", activations: "Activations",
                      workspace: "Workspace", inputs: "Inputs", other: "Other"};
  const actionWords = {keep: "keep", swap: "swap", rebuild: "rebuild"};
  const kindWords = {run: "run", swap_out: "copy below", swap_in: "copy back"};

  // ---- Text

  const signed = (text) => text.replace("-", "\u2212");
  const three = (x) => x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
  function bytesText(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1024;
    return (unit === 0 ? bytes : three(bytes)) + "\u00a0" + units[unit];
  }
  function secondsText(seconds) {
    if (seconds === 0) return "0";
    if (seconds >= 1) return three(seconds) + "\u00a0s";
    if (seconds >= 1e-3) return three(seconds * 1e3) + "\u00a0ms";
    return three(seconds * 1e6) + "\u00a0\u00b5s";
  }
  const nanosecondsText = (ns) => secondsText(ns / 1e9);
  const percentText = (part) => signed((part * 100).toFixed(Math.abs(part) < 0.0995 ? 1 : 0)) + "\u00a0%";
  const countText = (n, one, many) => n.toLocaleString("en") + " " + (n === 1 ? one : many);

  // An element with text and children; attributes are ours, text may be anybody's.
  function make(tag, attributes, ...content) {
    const element = document.createElement(tag);
    for (const key in attributes) {
      if (key === "class") element.className = attributes[key];
      else element.setAttribute(key, attributes[key]);
    }
    element.append(...content.map((part) => part instanceof Node ? part : String(part)));
    return element;
  }
  function makeSvg(tag, attributes, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  const swatch = (name) => {
    const mark = make("i", {});
    mark.style.background = "var(--" + name + ")";
    return mark;
  };

  // ---- A program, with what the lists imply

  const typeOf = (program, tensor) => program.tensors.type.texts[program.tensors.type.of[tensor]] || "";

  function open(program) {
    if (program.live) return program;
    const {buffers, steps} = program, stepCount = steps.kind.length, bufferCount = buffers.tensor.length;
    const classIndex = (name) => data.classes.indexOf(name);
    program.stays = data.states.name.map((name, i) => ({
      state: i, offset: data.states.offset_bytes[i], size: data.states.size_bytes[i], first: 0, last: stepCount - 1,
      kind: classOfState[data.states.kind[i]] || "other", action: "keep"}));
    program.stateCount = program.stays.length;
    const decisionsOfBuffer = new Map();
    const decisions = program.decisions;
    program.actionOfTensor = new Map();
    decisions.tensor.forEach((tensor, i) => {
      const before = program.actionOfTensor.get(tensor);
      if (!before || before === "keep" || decisions.action[i] === "rebuild") program.actionOfTensor.set(tensor, decisions.action[i]);
      for (const buffer of [decisions.before[i], decisions.after[i]]) {
        if (!decisionsOfBuffer.has(buffer)) decisionsOfBuffer.set(buffer, []);
        decisionsOfBuffer.get(buffer).push(i);
      }
    });
    program.decisionsOfBuffer = decisionsOfBuffer;
    for (let b = 0; b < bufferCount; ++b) {
      const tensor = buffers.tensor[b];
      program.stays.push({buffer: b, tensor, offset: data.state_bytes + buffers.offset_bytes[b], size: buffers.size_bytes[b],
                          first: buffers.first_step[b], last: buffers.last_step[b], inplace: buffers.inplace_of[b],
                          kind: tensor < 0 ? "workspace" : data.classes[program.tensors.class[tensor]],
                          action: tensor < 0 ? "keep" : program.actionOfTensor.get(tensor)});
    }
    // Live bytes of each class at each step. What works in place has one set of bytes for both.
    program.live = data.classes.map(() => new Float64Array(stepCount + 2));
    let placed = 0;
    for (const stay of program.stays) {
      const line = program.live[classIndex(stay.kind)];
      if (stay.state !== undefined) placed += stay.size;
      line[stay.first + (stay.inplace >= 0 ? 1 : 0)] += stay.size;
      line[stay.last + 1] -= stay.size;
    }
    program.live[classIndex("other")][0] += data.state_bytes - placed; // what aligning the states' places adds
    for (const line of program.live) for (let s = 1; s < stepCount; ++s) line[s] += line[s - 1];
    // Lanes run ahead of each other; memory is counted in the order of the schedule, so its time does not fall.
    program.reached = new Float64Array(stepCount + 1);
    let latest = 0, end = 0;
    const seen = new Set();
    program.again = steps.kind.map((kind, s) => {
      latest = Math.max(latest, steps.start_ns[s]);
      end = Math.max(end, steps.end_ns[s]);
      program.reached[s] = latest;
      if (data.kinds[kind] !== "run") return false;
      const again = seen.has(steps.subject[s]);
      seen.add(steps.subject[s]);
      return again;
    });
    program.reached[stepCount] = end;
    program.endNs = end;
    program.stepCount = stepCount;
    return program;
  }

  const stayName = (program, stay) => stay.state !== undefined ? data.states.name[stay.state]
      : stay.tensor < 0 ? "Workspace of " + stepName(program, stay.first) : program.tensors.name[stay.tensor];
  const stayType = (program, stay) => stay.state !== undefined ? data.states.type[stay.state] || ""
      : stay.tensor < 0 ? "" : typeOf(program, stay.tensor);
  function stepName(program, step) {
    if (step < 0) return "the start";
    if (step >= program.stepCount) return "the end";
    const kind = data.kinds[program.steps.kind[step]], subject = program.steps.subject[step];
    if (kind === "run") return program.nodes.name[subject];
    return kindWords[kind] + " of " + program.tensors.name[program.buffers.tensor[subject]];
  }
  const stepOperator = (program, step) => data.kinds[program.steps.kind[step]] === "run"
      ? program.nodes.operator.texts[program.nodes.operator.of[program.steps.subject[step]]] || "" : "";

  // ---- What the page shows of a program

  const view = {program: null, axis: "time", colour: "kind", from: 0, to: 1, marked: null, hover: null,
                sort: "paid", descending: true, actions: new Set(["swap", "rebuild", "keep"]), text: "", rows: 100};
  const chart = byId("chart"), tip = byId("tip");
  const still = document.createElement("canvas"); // the drawing without what follows the pointer
  let layout = null; // of the last drawing

  const xOf = (step) => view.axis === "step" ? step : view.program.steps.start_ns[step];
  const xEnd = (step) => view.axis === "step" ? step + 1 : view.program.steps.end_ns[step];
  const xReached = (step) => view.axis === "step" ? step : view.program.reached[step];
  const xAll = () => view.axis === "step" ? view.program.stepCount : view.program.endNs || 1;
  const isMarked = (stay) => view.marked && (stay.state !== undefined ? view.marked === "s" + stay.state
      : stay.tensor >= 0 && view.marked === "t" + stay.tensor);
  const markOf = (stay) => stay.state !== undefined ? "s" + stay.state : stay.tensor >= 0 ? "t" + stay.tensor : null;

  function niceStep(span, most) {
    const raw = span / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
    return [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  }
  // Powers of two, which read well in every unit.
  function byteTicks(top, most) {
    const step = Math.pow(2, Math.max(0, Math.ceil(Math.log2(top / most)))), ticks = [];
    for (let at = 0; at <= top * 1.0001; at += step) ticks.push(at);
    return ticks;
  }

  function draw() {
    const program = view.program;
    if (!program) return;
    const width = chart.clientWidth || 1200, height = chart.clientHeight || 640;
    const scale = document.documentElement.hasAttribute("data-print") ? 3 : window.devicePixelRatio || 1;
    still.width = Math.round(width * scale);
    still.height = Math.round(height * scale);
    const paint = still.getContext("2d");
    paint.scale(scale, scale);
    const styles = getComputedStyle(document.documentElement), colour = (name) => styles.getPropertyValue("--" + name).trim();
    const left = 78, right = width - 8;
    const used = data.lanes.map((_, lane) => program.steps.lane.some((l) => l === lane));
    const laneHeight = 24, laneTop = height - 26 - laneHeight * data.lanes.length;
    const panels = {live: {top: 16, bottom: 16 + Math.round((laneTop - 60) * 0.27)}};
    panels.blocks = {top: panels.live.bottom + 32, bottom: laneTop - 16};
    const arena = Math.max(data.state_bytes + program.arena_bytes, 1);
    const budget = data.budget_bytes;
    const top = (budget !== null && budget < arena * 1.25 ? Math.max(arena, budget) : arena) * 1.02;
    const all = xAll(), from = view.from * all, to = view.to * all;
    const px = (x) => left + (x - from) / (to - from) * (right - left);
    const py = (panel, bytes) => panel.bottom - bytes / top * (panel.bottom - panel.top);
    layout = {left, right, width, height, scale, panels, laneTop, laneHeight, px, py, from, to, top, all,
              xAt: (pixel) => from + (pixel - left) / (right - left) * (to - from)};

    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    // Titles, scales
    paint.fillStyle = colour("ink");
    paint.textAlign = "left";
    paint.font = "600 12px system-ui, sans-serif";
    paint.fillText("Live bytes", left, panels.live.top - 8);
    paint.fillText("Addresses", left, panels.blocks.top - 9);
    paint.font = "12px system-ui, sans-serif";
    for (const panel of [panels.live, panels.blocks]) {
      for (const tick of byteTicks(top, Math.max(2, Math.floor((panel.bottom - panel.top) / 28)))) {
        const y = Math.round(py(panel, tick)) + 0.5;
        paint.strokeStyle = colour("line");
        paint.lineWidth = 1;
        paint.beginPath();
        paint.moveTo(left, y);
        paint.lineTo(right, y);
        paint.stroke();
        paint.fillStyle = colour("soft");
        paint.textAlign = "right";
        paint.fillText(bytesText(tick), left - 8, y);
      }
    }
    paint.save();
    paint.beginPath();
    paint.rect(left, 0, right - left, height);
    paint.clip();
    drawLive(paint, program, panels.live, colour);
    drawBlocks(paint, program, panels.blocks, colour);
    drawLanes(paint, program, colour, used);
    drawMarks(paint, program, panels, colour, budget, top);
    paint.restore();
    // Names of lanes and the axis
    data.lanes.forEach((name, lane) => {
      paint.fillStyle = colour(used[lane] ? "ink" : "soft");
      paint.textAlign = "right";
      paint.fillText(name, left - 8, laneTop + laneHeight * (lane + 0.5));
    });
    drawAxis(paint, colour, laneTop + laneHeight * data.lanes.length, from, to);
    chart.width = still.width;
    chart.height = still.height;
    drawPointer();
  }

  // Copies the drawing and puts on it what follows the pointer: many blocks are painted once, and not with every move.
  function drawPointer() {
    const paint = chart.getContext("2d"), styles = getComputedStyle(document.documentElement);
    paint.setTransform(1, 0, 0, 1, 0, 0);
    paint.clearRect(0, 0, chart.width, chart.height);
    paint.drawImage(still, 0, 0);
    paint.scale(layout.scale, layout.scale);
    drawHover(paint, (name) => styles.getPropertyValue("--" + name).trim());
  }

  function drawLive(paint, program, panel, colour) {
    const {px, py, from, to} = layout;
    const base = new Float64Array(program.stepCount + 1);
    data.classes.forEach((name, k) => {
      const line = program.live[k], lower = [];
      if (!line.some((bytes, s) => s < program.stepCount && bytes > 0)) return;
      paint.beginPath();
      let lastPixel = -Infinity, upper = 0, under = Infinity, started = false;
      for (let s = 0; s < program.stepCount; ++s) {
        const begin = xReached(s), end = xReached(s + 1), under0 = base[s];
        base[s] += line[s];
        if (end < from || begin > to) continue;
        // Of all steps in one pixel the fullest is shown.
        const x0 = px(Math.max(begin, from)), x1 = px(Math.min(end, to));
        if (x1 - lastPixel < 0.5 && started) {
          if (base[s] <= upper) continue;
        }
        upper = base[s];
        under = under0;
        const y = py(panel, upper);
        if (started) paint.lineTo(x0, y);
        else paint.moveTo(x0, y);
        started = true;
        paint.lineTo(x1, y);
        lower.push([x0, py(panel, under)], [x1, py(panel, under)]);
        lastPixel = x1;
      }
      for (let i = lower.length - 1; i >= 0; --i) paint.lineTo(lower[i][0], lower[i][1]);
      paint.closePath();
      paint.fillStyle = colour(name);
      paint.fill();
    });
  }

  function drawBlocks(paint, program, panel, colour) {
    const {px, py, from, to} = layout, card = colour("card"), ink = colour("ink"), mark = colour("mark");
    const colours = new Map();
    const named = (name) => {
      if (!colours.has(name)) colours.set(name, colour(name));
      return colours.get(name);
    };
    const marked = [];
    paint.textAlign = "left";
    paint.font = "11px system-ui, sans-serif";
    for (const stay of program.stays) {
      const begin = stay.state !== undefined ? 0 : xOf(stay.first), end = stay.state !== undefined ? layout.all : xEnd(stay.last);
      if (end < from || begin > to) continue;
      const x0 = px(Math.max(begin, from)), x1 = Math.max(px(Math.min(end, to)), x0 + 0.75);
      const y0 = py(panel, stay.offset + stay.size), y1 = Math.max(py(panel, stay.offset), y0 + 0.5);
      paint.fillStyle = named(view.colour === "kind" ? stay.kind : stay.action);
      paint.fillRect(x0, y0, x1 - x0, y1 - y0);
      if (x1 - x0 > 3 && y1 - y0 > 3) {
        paint.strokeStyle = card;
        paint.lineWidth = 0.7;
        paint.strokeRect(x0, y0, x1 - x0, y1 - y0);
      }
      if (x1 - x0 > 74 && y1 - y0 > 13) {
        const name = stayName(program, stay), most = Math.floor((x1 - x0 - 10) / 6.2);
        paint.fillStyle = "#fff";
        paint.fillText(name.length > most ? name.slice(0, most - 1) + "\u2026" : name, Math.max(x0, layout.left) + 5, (y0 + y1) / 2);
      }
      if (isMarked(stay)) marked.push([x0, y0, x1 - x0, y1 - y0]);
    }
    paint.strokeStyle = mark;
    paint.lineWidth = 2;
    for (const [x, y, w, h] of marked) paint.strokeRect(x, y, Math.max(w, 1.5), Math.max(h, 1.5));
    paint.font = "12px system-ui, sans-serif";
    paint.fillStyle = ink;
  }

  function drawLanes(paint, program, colour, used) {
    const {px, from, to, laneTop, laneHeight, left, right} = layout, {steps} = program;
    const shades = {run: colour("run"), again: colour("rebuild"), swap_out: colour("swap"), swap_in: colour("swap")};
    const mark = colour("mark"), faint = colour("faint");
    data.lanes.forEach((_, lane) => {
      paint.fillStyle = faint;
      paint.fillRect(left, laneTop + laneHeight * lane + 2, right - left, laneHeight - 4);
      if (!used[lane]) return;
      for (let s = 0; s < program.stepCount; ++s) {
        if (steps.lane[s] !== lane) continue;
        const begin = xOf(s), end = xEnd(s);
        if (end < from || begin > to) continue;
        const x0 = px(Math.max(begin, from)), x1 = Math.max(px(Math.min(end, to)), x0 + 0.6);
        const kind = data.kinds[steps.kind[s]];
        paint.fillStyle = program.again[s] ? shades.again : shades[kind];
        paint.fillRect(x0, laneTop + laneHeight * lane + 3, x1 - x0, laneHeight - 6);
        if (x1 - x0 > 5) {
          paint.fillStyle = faint;
          paint.fillRect(x0, laneTop + laneHeight * lane + 3, 0.6, laneHeight - 6);
        }
        const tensor = kind === "run" ? -1 : program.buffers.tensor[steps.subject[s]];
        if (tensor >= 0 && view.marked === "t" + tensor) {
          paint.strokeStyle = mark;
          paint.lineWidth = 2;
          paint.strokeRect(x0, laneTop + laneHeight * lane + 3, Math.max(x1 - x0, 2), laneHeight - 6);
        }
      }
    });
  }

  function drawMarks(paint, program, panels, colour, budget, top) {
    const {px, py, left, right, from, to} = layout;
    if (budget !== null && budget <= top) {
      for (const panel of [panels.live, panels.blocks]) {
        const y = Math.round(py(panel, budget)) + 0.5;
        paint.strokeStyle = colour("ink");
        paint.setLineDash([6, 4]);
        paint.lineWidth = 1;
        paint.beginPath();
        paint.moveTo(left, y);
        paint.lineTo(right, y);
        paint.stroke();
        paint.setLineDash([]);
      }
      paint.fillStyle = colour("ink");
      paint.textAlign = "right";
      paint.fillText("budget " + bytesText(budget), right - 4, panels.live.top - 8);
    }
    const begin = xReached(program.peak_step), x = px(begin);
    if (begin < from || begin > to) return;
    paint.strokeStyle = colour("mark");
    paint.lineWidth = 1;
    paint.beginPath();
    paint.moveTo(x, panels.live.top);
    paint.lineTo(x, panels.blocks.bottom);
    paint.stroke();
    paint.fillStyle = colour("mark");
    const isLate = x > (left + right) / 2;
    paint.textAlign = isLate ? "right" : "left";
    paint.fillText("peak " + bytesText(data.state_bytes + program.peak_bytes), x + (isLate ? -5 : 5), panels.blocks.top - 9);
  }

  function drawAxis(paint, colour, y, from, to) {
    const step = niceStep(to - from, Math.max(2, Math.floor((layout.right - layout.left) / 110)));
    paint.fillStyle = colour("soft");
    paint.strokeStyle = colour("line");
    paint.textAlign = "center";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = layout.px(at);
      paint.beginPath();
      paint.moveTo(x, y);
      paint.lineTo(x, y + 4);
      paint.stroke();
      const text = view.axis === "step" ? "step " + Math.round(at).toLocaleString("en") : at === 0 ? "0 s" : nanosecondsText(at);
      const half = paint.measureText(text).width / 2;
      paint.fillText(text, Math.min(Math.max(x, layout.left + half), layout.right - half), y + 13);
    }
  }

  function drawHover(paint, colour) {
    const {hover} = view;
    if (!hover) return;
    paint.strokeStyle = colour("soft");
    paint.lineWidth = 1;
    if (hover.drag !== undefined && Math.abs(hover.drag - hover.x) > 3) {
      paint.fillStyle = colour("accent");
      paint.globalAlpha = 0.18;
      paint.fillRect(Math.min(hover.drag, hover.x), layout.panels.live.top, Math.abs(hover.drag - hover.x), layout.height);
      paint.globalAlpha = 1;
    }
    paint.beginPath();
    paint.moveTo(Math.round(hover.x) + 0.5, layout.panels.live.top);
    paint.lineTo(Math.round(hover.x) + 0.5, layout.laneTop + layout.laneHeight * data.lanes.length);
    paint.stroke();
    if (hover.box) {
      paint.strokeStyle = colour("ink");
      paint.lineWidth = 1.5;
      paint.strokeRect(...hover.box);
    }
  }

  // ---- What is under the pointer

  const inPanel = (panel, y) => y >= panel.top && y <= panel.bottom;

  function stayAt(x, y) {
    const {panels, xAt, top} = layout, panel = panels.blocks, at = xAt(x), slack = (layout.to - layout.from) / (layout.right - layout.left);
    const bytes = (panel.bottom - y) / (panel.bottom - panel.top) * top;
    let found = null;
    for (const stay of view.program.stays) {
      if (bytes < stay.offset || bytes >= stay.offset + stay.size) continue;
      if (stay.state !== undefined) return stay;
      if (at < xOf(stay.first) - slack || at > xEnd(stay.last) + slack) continue;
      // Neighbours share an edge: the later one begins there.
      if (!found || stay.first > found.first) found = stay;
    }
    return found;
  }

  function stepOfLane(x, lane) {
    const {steps} = view.program, at = layout.xAt(x), slack = (layout.to - layout.from) / (layout.right - layout.left);
    let nearest = -1, distance = 2 * slack;
    for (let s = 0; s < view.program.stepCount; ++s) {
      if (steps.lane[s] !== lane) continue;
      const away = Math.max(xOf(s) - at, at - xEnd(s), 0);
      if (away < distance) [nearest, distance] = [s, away];
      if (away === 0 && xEnd(s) > xOf(s)) return s;
    }
    return nearest;
  }

  function stepReached(x) {
    const {program} = view, at = layout.xAt(x);
    let low = 0, high = program.stepCount - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (xReached(middle) <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function decisionText(program, i) {
    const {decisions} = program, action = decisions.action[i];
    const cost = action === "swap" ? "copies " + nanosecondsText(decisions.copy_ns[i]) +
        (decisions.wait_ns[i] > 0 ? ", waited for " + nanosecondsText(decisions.wait_ns[i]) : ", hidden")
      : action === "rebuild" ? nanosecondsText(decisions.rebuild_ns[i]) + " of computation" : "nothing to pay";
    return actionWords[action] + ": " + cost;
  }

  function describeStay(stay) {
    const program = view.program, rows = [["Type", stayType(program, stay)], ["Size", bytesText(stay.size)],
      ["Kind", classWords[stay.kind]], ["Address", stay.offset.toLocaleString("en") + " to " + (stay.offset + stay.size).toLocaleString("en")]];
    if (stay.state !== undefined) {
      rows.push(["Lives", "as long as the plan (" + data.states.kind[stay.state] + ")"]);
      return [stayName(program, stay), rows];
    }
    rows.push(["From", "step " + stay.first + ", " + stepName(program, stay.first)], ["To", "step " + stay.last + ", " + stepName(program, stay.last)]);
    if (stay.inplace >= 0) rows.push(["In place of", stayName(program, program.stays[program.stateCount + stay.inplace])]);
    for (const i of new Set(program.decisionsOfBuffer.get(stay.buffer) || [])) {
      const {decisions} = program;
      const where = decisions.action[i] === "keep" ? "Action" : decisions.after[i] === stay.buffer ? "Before" : "After";
      rows.push([where, decisionText(program, i)]);
    }
    return [stayName(program, stay), rows];
  }

  function describeStep(step) {
    const program = view.program, {steps} = program, kind = data.kinds[steps.kind[step]];
    const rows = [["Step", step + (program.again[step] ? ", run again" : "")], ["Operator", stepOperator(program, step)],
      ["Takes", nanosecondsText(steps.end_ns[step] - steps.start_ns[step])], ["Begins", nanosecondsText(steps.start_ns[step])]];
    if (kind !== "run") rows.push(["Bytes", bytesText(program.buffers.size_bytes[steps.subject[step]])]);
    return [stepName(program, step), rows];
  }

  function describeLive(step) {
    const program = view.program;
    let sum = 0;
    const rows = [];
    data.classes.forEach((name, k) => {
      sum += program.live[k][step];
      if (program.live[k][step] > 0) rows.push([classWords[name], bytesText(program.live[k][step])]);
    });
    return [bytesText(sum) + " live", [["Step", step + ", " + stepName(program, step)], ...rows]];
  }

  function showTip(x, y, [title, rows]) {
    const body = make("tbody", {});
    for (const [what, value] of rows) if (value !== "") body.append(make("tr", {}, make("td", {}, what), make("td", {}, value)));
    tip.replaceChildren(make("b", {}, title), make("table", {}, body));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(0, x + 16 + box.width > layout.width ? x - box.width - 14 : x + 16) + "px";
    tip.style.top = Math.max(0, Math.min(y + 12, layout.height - box.height)) + "px";
  }

  function onMove(event) {
    const bounds = chart.getBoundingClientRect(), x = event.clientX - bounds.left, y = event.clientY - bounds.top;
    const {panels, laneTop, laneHeight, left, right, px, py} = layout;
    view.hover = {x: Math.min(Math.max(x, left), right), drag: view.hover && view.hover.drag};
    let description = null;
    if (x >= left && x <= right) {
      const lane = Math.floor((y - laneTop) / laneHeight);
      if (inPanel(panels.blocks, y)) {
        const stay = stayAt(x, y);
        if (stay) {
          description = describeStay(stay);
          const begin = stay.state !== undefined ? layout.from : Math.max(xOf(stay.first), layout.from);
          const end = stay.state !== undefined ? layout.to : Math.min(xEnd(stay.last), layout.to);
          const y0 = py(panels.blocks, stay.offset + stay.size);
          view.hover.box = [px(begin), y0, Math.max(px(end) - px(begin), 1.5), Math.max(py(panels.blocks, stay.offset) - y0, 1.5)];
          view.hover.stay = stay;
        }
      } else if (lane >= 0 && lane < data.lanes.length) {
        const step = stepOfLane(x, lane);
        if (step >= 0) description = describeStep(step);
      } else if (inPanel(panels.live, y)) {
        description = describeLive(stepReached(x));
      }
    }
    drawPointer();
    if (description) showTip(x, y, description);
    else tip.hidden = true;
  }

  // ---- Zoom

  function zoom(from, to) {
    const least = view.axis === "step" ? Math.min(1, 4 / view.program.stepCount) : 1e-5;
    const span = Math.min(1, Math.max(to - from, least));
    view.from = Math.min(Math.max(0, from), 1 - span);
    view.to = view.from + span;
    draw();
  }
  const zoomBy = (factor, centre) => zoom(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
  const middle = () => (view.from + view.to) / 2;

  function setMark(mark) {
    view.marked = view.marked === mark ? null : mark;
    draw();
    fillDecisions();
  }

  chart.addEventListener("mousemove", onMove);
  chart.addEventListener("mouseleave", () => { view.hover = null; tip.hidden = true; drawPointer(); });
  chart.addEventListener("mousedown", (event) => { if (view.hover && event.button === 0) view.hover.drag = view.hover.x; });
  chart.addEventListener("mouseup", () => {
    const {hover} = view;
    if (!hover || hover.drag === undefined) return;
    const a = layout.xAt(Math.min(hover.drag, hover.x)) / layout.all, b = layout.xAt(Math.max(hover.drag, hover.x)) / layout.all;
    const moved = Math.abs(hover.drag - hover.x) > 5;
    hover.drag = undefined;
    if (moved) zoom(a, b);
    else setMark(hover.stay ? markOf(hover.stay) : null);
  });
  chart.addEventListener("dblclick", () => zoom(0, 1));
  chart.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    zoomBy(event.deltaY > 0 ? 1.25 : 0.8, view.hover ? layout.xAt(view.hover.x) / layout.all : middle());
  }, {passive: false});
  chart.addEventListener("keydown", (event) => {
    const shift = (view.to - view.from) / 6;
    const moves = {ArrowLeft: () => zoom(view.from - shift, view.to - shift), ArrowRight: () => zoom(view.from + shift, view.to + shift),
                   "+": () => zoomBy(0.6, middle()), "-": () => zoomBy(1 / 0.6, middle()), Home: () => zoom(0, 1)};
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => button.dataset.zoom === "all" ? zoom(0, 1) : zoomBy(button.dataset.zoom === "in" ? 0.6 : 1 / 0.6, middle()));
  }
  function choices(key, apply) {
    const buttons = [...document.querySelectorAll("[data-" + key + "]")];
    const show = () => buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset[key] === view[key]));
    buttons.forEach((button) => button.addEventListener("click", () => { view[key] = button.dataset[key]; show(); apply(); }));
    show();
  }
  choices("axis", () => zoom(0, 1));
  choices("colour", () => { fillLegend(); draw(); });

  function fillLegend() {
    const items = view.colour === "kind"
      ? data.classes.filter((name) => view.program.stays.some((stay) => stay.kind === name)).map((name) => [name, classWords[name]])
      : [["keep", "Stays from first to last use"], ["swap", "Copied below and back"], ["rebuild", "Made again"]];
    const lanes = [["run", "Step"], ["rebuild", "Step that runs again"], ["swap", "Copy"]];
    const show = (what, rows) => make("div", {}, make("b", {}, what), ...rows.map(([name, text]) => make("span", {}, swatch(name), text)));
    byId("legend").replaceChildren(show("Blocks", items), show("Lanes", lanes));
  }

  // ---- Head

  function fillHead() {
    byId("model").textContent = data.model;
    document.title = data.model + " \u2013 Delta plan";
    const eager = data.eager_peak_bytes;
    const main = open(data.programs[0]);
    const device = data.device ? " on " + data.device : "";
    const batch = data.batch > 0 ? " of " + countText(data.batch, "sample", "samples") : "";
    const peak = bytesText(data.peak_bytes);
    const done = [];
    if (main.swapped_tensors > 0) done.push(countText(main.swapped_tensors, "tensor is", "tensors are") + " copied below the arena and back");
    if (main.recomputed_nodes > 0) done.push(countText(main.recomputed_nodes, "step runs", "steps run") + " again");
    byId("summary").textContent = "One step" + batch + device + " takes " + peak + " at its fullest" +
      (eager > 0 ? ", " + percentText(data.peak_bytes / eager) + " of the " + bytesText(eager) + " that an eager framework holds" : "") + ". " +
      (done.length ? done.join(" and ") + "." : "Nothing is copied below the arena or made again.");
    const slow = data.unlimited_step_seconds > 0 ? data.step_seconds / data.unlimited_step_seconds - 1 : null;
    const tiles = [["Budget", data.budget_bytes === null ? "unlimited" : bytesText(data.budget_bytes)], ["Peak", peak],
      ["Predicted step", secondsText(data.step_seconds)]];
    if (slow !== null) tiles.push(["Slowdown", percentText(Math.max(slow, 0))]);
    tiles.push(["Swapped per step", bytesText(main.swapped_bytes)], ["Rebuilt per step", secondsText(main.recompute_seconds)]);
    byId("tiles").replaceChildren(...tiles.map(([what, value]) => make("div", {}, make("span", {}, what), make("b", {}, value))));
    const choice = byId("program");
    data.programs.forEach((program, i) => choice.append(make("option", {value: i},
      program.program + (program.batch > 0 ? ", batch " + program.batch : ""))));
    choice.addEventListener("change", () => showProgram(Number(choice.value)));
    byId("program-choice").hidden = data.programs.length < 2;
  }

  function fillFacts() {
    const {program} = view, known = (value, text) => value > 0 ? text(value) : "";
    const facts = [["Model", data.model], ["Device", data.device || ""], ["Policy", data.policy || ""], ["Batch", known(data.batch, String)],
      ["Numerics", data.numerics_id || ""], ["Budget", data.budget_bytes === null ? "unlimited" : bytesText(data.budget_bytes)],
      ["Arena", bytesText(data.arena_bytes)], ["Largest sum of live bytes", bytesText(data.peak_bytes)],
      ["States in the arena", known(data.state_bytes, bytesText)], ["Without a budget", known(data.unlimited_peak_bytes, bytesText)],
      ["An eager framework", known(data.eager_peak_bytes, bytesText)], ["Least budget of the policy", known(data.minimum_budget_bytes, bytesText)],
      ["Step", secondsText(data.step_seconds)], ["Step without a budget", known(data.unlimited_step_seconds, secondsText)],
      ["No plan is faster than", known(data.lower_bound_seconds, secondsText)], ["Planned in", known(data.planning_seconds, secondsText)],
      ["Program", program.program], ["Its step", secondsText(program.step_seconds)], ["Its peak", bytesText(data.state_bytes + program.peak_bytes)],
      ["Below the arena", bytesText(program.host_bytes)], ["Copied below", bytesText(program.swapped_bytes)],
      ["Steps that run again", String(program.recomputed_nodes)], ["Time of these", secondsText(program.recompute_seconds)],
      ["Compute stands still", secondsText(program.stall_seconds)], ["Steps", program.stepCount.toLocaleString("en")],
      ["Buffers", program.buffers.tensor.length.toLocaleString("en")]];
    byId("facts").replaceChildren(...facts.filter(([, value]) => value !== "")
      .map(([what, value]) => make("div", {}, make("dt", {}, what), make("dd", {}, value))));
  }

  // ---- Peak

  function fillPeak() {
    const {program} = view, step = program.peak_step;
    byId("peak-where").textContent = "Step " + step + ", " + stepName(program, step) + ": " +
      bytesText(data.state_bytes + program.peak_bytes) + (data.state_bytes > 0 ? ", of which states take " + bytesText(data.state_bytes) : "") + ".";
    const total = data.state_bytes + program.peak_bytes || 1;
    const sums = data.classes.map((name, k) => [name, program.live[k][step] || 0]).filter(([, bytes]) => bytes > 0);
    byId("peak-bar").replaceChildren(...sums.map(([name, bytes]) => {
      const part = make("span", {title: classWords[name] + " " + bytesText(bytes)});
      part.style.background = "var(--" + name + ")";
      part.style.width = bytes / total * 100 + "%";
      return part;
    }));
    const live = program.stays.filter((stay) => stay.first <= step && stay.last >= step && !(stay.inplace >= 0 && stay.first === step));
    live.sort((a, b) => b.size - a.size);
    byId("peak-table").tBodies[0].replaceChildren(...live.slice(0, 10).map((stay) => make("tr", {},
      make("td", {class: "name"}, stayName(program, stay)), make("td", {class: "type"}, stayType(program, stay)),
      make("td", {class: "action"}, swatch(stay.kind), classWords[stay.kind]), make("td", {class: "number"}, bytesText(stay.size)))));
  }

  // ---- Budget against slowdown

  function fillSweep() {
    const base = data.unlimited_step_seconds, width = 600, height = 400, left = 52, right = 566, top = 66, bottom = 352;
    const points = data.points.filter((point) => point.fits).map((point) => [point.budget_bytes, point.step_seconds / base - 1]);
    const rules = [[data.minimum_budget_bytes, "least budget"], [data.unlimited_peak_bytes, "without a budget"], [data.eager_peak_bytes, "eager"]]
      .filter(([bytes]) => bytes > 0);
    if (!(base > 0) || rules.length === 0) {
      byId("sweep").replaceChildren();
      byId("sweep-note").textContent = "Not known for this plan: no step without a budget to compare with.";
      return;
    }
    const own = [data.budget_bytes === null ? data.peak_bytes : Math.min(data.budget_bytes, Math.max(...rules.map(([bytes]) => bytes))), data.step_seconds / base - 1];
    const most = Math.max(...rules.map(([bytes]) => bytes), ...points.map(([bytes]) => bytes), own[0]) * 1.04;
    const slowest = Math.max(0.01, own[1], ...points.map(([, slow]) => slow)) * 1.08;
    const x = (bytes) => left + bytes / most * (right - left), y = (slow) => bottom - Math.max(slow, 0) / slowest * (bottom - top);
    const svg = makeSvg("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "Slowdown by budget"});
    const line = (x0, y0, x1, y1, name) => svg.append(makeSvg("line", {x1: x0, y1: y0, x2: x1, y2: y1, class: name}));
    const text = (x0, y0, anchor, words, name) => svg.append(makeSvg("text", {x: x0, y: y0, "text-anchor": anchor, class: name || ""}, words));
    const step = niceStep(slowest * 100, 5) / 100;
    for (let slow = 0; slow <= slowest; slow += step) {
      line(left, y(slow), right, y(slow), "grid");
      text(left - 8, y(slow) + 4, "end", signed((slow * 100).toFixed(step < 0.01 ? 1 : 0)) + "\u00a0%");
    }
    for (const bytes of byteTicks(most, 8)) text(x(bytes), bottom + 18, "middle", bytesText(bytes));
    text((left + right) / 2, height - 6, "middle", "budget");
    rules.forEach(([bytes, words], i) => {
      line(x(bytes), 14 + 13 * i + 4, x(bytes), bottom, "rule");
      text(x(bytes) + (x(bytes) > width * 0.6 ? -5 : 5), 14 + 13 * i + 6, x(bytes) > width * 0.6 ? "end" : "start", words + " " + bytesText(bytes));
    });
    for (const point of data.points) {
      if (point.fits) continue;
      const cx = x(point.budget_bytes), cy = bottom - 6;
      line(cx - 4, cy - 4, cx + 4, cy + 4, "missing");
      line(cx - 4, cy + 4, cx + 4, cy - 4, "missing");
    }
    const curve = [...points, own].sort((a, b) => a[0] - b[0]);
    if (points.length > 0) svg.append(makeSvg("polyline", {class: "curve", points: curve.map(([b, s]) => x(b) + "," + y(s)).join(" ")}));
    for (const [bytes, slow] of points) {
      const dot = makeSvg("circle", {cx: x(bytes), cy: y(slow), r: 3.5, class: "dot"});
      dot.append(makeSvg("title", {}, bytesText(bytes) + ": " + percentText(slow)));
      svg.append(dot);
    }
    svg.append(makeSvg("circle", {cx: x(own[0]), cy: y(own[1]), r: 6.5, class: "plan"}));
    const isRight = x(own[0]) > width * 0.7;
    text(x(own[0]) + (isRight ? -11 : 11), y(own[1]) - 9, isRight ? "end" : "start", "this plan, " + percentText(Math.max(own[1], 0)), "strong");
    byId("sweep").replaceChildren(svg);
    byId("sweep-note").textContent = data.points.length > 0
      ? "How much longer the predicted step takes than without a budget. Each dot is a plan of policy " + data.policy + " for that budget, made in a small part of the time that this plan took; with the whole time it may be faster." +
        (data.points.some((point) => !point.fits) ? " A cross: no plan was found." : "")
      : "Other budgets are tried when a model is planned with --report; here the plan was made before.";
  }

  // ---- Decisions

  const decisionColumns = [
    {key: "tensor", title: "Tensor", cell: (p, i) => p.tensors.name[p.decisions.tensor[i]], class: "name", order: (p, i) => p.tensors.name[p.decisions.tensor[i]]},
    {key: "type", title: "Type", cell: (p, i) => typeOf(p, p.decisions.tensor[i]), class: "type", order: (p, i) => typeOf(p, p.decisions.tensor[i])},
    {key: "action", title: "Action", cell: (p, i) => actionWords[p.decisions.action[i]], class: "action", order: (p, i) => p.decisions.action[i], swatch: (p, i) => p.decisions.action[i]},
    {key: "size", title: "Size", cell: (p, i) => bytesText(sizeOf(p, i)), class: "number", order: sizeOf},
    {key: "saved", title: "Saved", cell: (p, i) => savedOf(p, i) > 0 ? bytesText(savedOf(p, i)) : "", class: "number", order: savedOf},
    {key: "from", title: "Gone after", cell: (p, i) => gapEnd(p, i, true), class: "name", order: (p, i) => gapSteps(p, i)[0]},
    {key: "to", title: "Back for", cell: (p, i) => gapEnd(p, i, false), class: "name", order: (p, i) => gapSteps(p, i)[1]},
    {key: "copies", title: "Copies", cell: (p, i) => costText(p.decisions.copy_ns[i]), class: "number", order: (p, i) => p.decisions.copy_ns[i]},
    {key: "paid", title: "Paid", cell: (p, i) => costText(paidOf(p, i)), class: "number", order: paidOf},
  ];
  const costText = (ns) => ns > 0 ? nanosecondsText(ns) : "";
  const someBuffer = (p, i) => p.decisions.after[i] >= 0 ? p.decisions.after[i] : p.decisions.before[i];
  function sizeOf(p, i) { return p.buffers.size_bytes[someBuffer(p, i)]; }
  function savedOf(p, i) { return p.decisions.action[i] === "keep" ? 0 : sizeOf(p, i); }
  function paidOf(p, i) { return p.decisions.rebuild_ns[i] + p.decisions.wait_ns[i]; }
  function gapSteps(p, i) {
    const {before, after} = p.decisions;
    if (p.decisions.action[i] === "keep") return [p.buffers.first_step[before[i]], p.buffers.last_step[before[i]]];
    return [before[i] < 0 ? -1 : p.buffers.last_step[before[i]], after[i] < 0 ? p.stepCount : p.buffers.first_step[after[i]]];
  }
  function gapEnd(p, i, isBegin) {
    if (p.decisions.action[i] === "keep") return "";
    const reader = p.decisions.reader[i], step = isBegin ? gapSteps(p, i)[0] : reader >= 0 ? reader : gapSteps(p, i)[1];
    return stepName(p, step) + (step >= 0 && step < p.stepCount ? " (" + step + ")" : "");
  }

  function listDecisions() {
    const {program} = view, column = decisionColumns.find(({key}) => key === view.sort), text = view.text.toLowerCase();
    const rows = [];
    for (let i = 0; i < program.decisions.tensor.length; ++i) {
      if (!view.actions.has(program.decisions.action[i])) continue;
      if (text && ![0, 1, 5, 6].some((k) => decisionColumns[k].cell(program, i).toLowerCase().includes(text))) continue;
      rows.push(i);
    }
    const sign = view.descending ? -1 : 1;
    rows.sort((a, b) => {
      const x = column.order(program, a), y = column.order(program, b);
      const order = typeof x === "string" ? x.localeCompare(y, "en", {numeric: true}) : x - y;
      return sign * order || savedOf(program, b) - savedOf(program, a) || sizeOf(program, b) - sizeOf(program, a) || a - b;
    });
    return rows;
  }

  function fillDecisions() {
    const {program} = view, rows = listDecisions(), shown = rows.slice(0, view.rows);
    const sum = (name, value) => program.decisions.action.reduce((total, action, i) => total + (action === name ? value(i) : 0), 0);
    const count = (name) => sum(name, () => 1);
    const parts = [];
    if (count("swap") > 0) parts.push(countText(count("swap"), "gap", "gaps") + " swapped (copies " + nanosecondsText(sum("swap", (i) => program.decisions.copy_ns[i])) +
      ", of which compute waited " + nanosecondsText(sum("swap", (i) => program.decisions.wait_ns[i])) + ")");
    if (count("rebuild") > 0) parts.push(countText(count("rebuild"), "gap", "gaps") + " rebuilt (" + nanosecondsText(sum("rebuild", (i) => program.decisions.rebuild_ns[i])) + ")");
    parts.push(countText(count("keep"), "tensor", "tensors") + " kept");
    byId("decision-count").textContent = parts.join(", ") + ".";
    byId("decision-table").tHead.rows[0].replaceChildren(...decisionColumns.map(({key, title, class: name}) => {
      const button = make("button", {type: "button"}, title), head = make("th", {class: name === "number" ? name : ""}, button);
      if (key === view.sort) head.setAttribute("aria-sort", view.descending ? "descending" : "ascending");
      button.addEventListener("click", () => {
        view.descending = key === view.sort ? !view.descending : !["tensor", "type", "action", "from", "to"].includes(key);
        view.sort = key;
        fillDecisions();
      });
      return head;
    }));
    byId("decision-table").tBodies[0].replaceChildren(...shown.map((i) => {
      const mark = "t" + program.decisions.tensor[i];
      const row = make("tr", {class: view.marked === mark ? "marked" : ""}, ...decisionColumns.map((column) =>
        make("td", {class: column.class || ""}, ...(column.swatch ? [swatch(column.swatch(program, i))] : []), column.cell(program, i))));
      row.addEventListener("click", () => setMark(mark));
      return row;
    }));
    const left = rows.length - shown.length;
    byId("more").hidden = left === 0;
    byId("rest").textContent = left > 0 ? "and " + left.toLocaleString("en") + " more" : "";
    byId("more").textContent = "Show " + Math.min(left, 500).toLocaleString("en") + " more of " + left.toLocaleString("en");
  }
  byId("more").addEventListener("click", () => { view.rows += 500; fillDecisions(); });
  byId("filter").addEventListener("input", (event) => { view.text = event.target.value; view.rows = 100; fillDecisions(); });
  for (const button of document.querySelectorAll("[data-action]")) {
    const name = button.dataset.action;
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (!view.actions.delete(name)) view.actions.add(name);
      button.setAttribute("aria-pressed", view.actions.has(name));
      fillDecisions();
    });
  }

  // ---- All together

  function showProgram(index) {
    Object.assign(view, {program: open(data.programs[index]), from: 0, to: 1, marked: null, hover: null, rows: 100});
    fillLegend();
    fillPeak();
    fillDecisions();
    fillFacts();
    draw();
  }

  // On paper: light, sharp, as wide as the sheet, and no long tail of the table.
  let rowsOnScreen = 0;
  window.addEventListener("beforeprint", () => {
    document.documentElement.setAttribute("data-print", "");
    rowsOnScreen = view.rows;
    Object.assign(view, {hover: null, rows: 50});
    tip.hidden = true;
    fillDecisions();
    draw();
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.removeAttribute("data-print");
    view.rows = rowsOnScreen;
    fillDecisions();
    draw();
  });
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  fillHead();
  fillSweep();
  showProgram(0);
  // Where all bytes are of one kind, as in a problem file, actions tell more.
  if (new Set(view.program.stays.map((stay) => stay.kind).filter((kind) => kind !== "workspace")).size < 2) document.querySelector("[data-colour=action]").click();
})();
