// Warps over time: what each one does at each step, what is in flight, and what an instruction costs beyond its minimum.

const MARGIN = 96;  // for the names of warps
const FOLD_FROM = 8;  // warps
const STATE_HEIGHT = [0, 0.8, 0.8, 0.62, 0.45, 1, 0.3, 1];  // of the row, so that states differ in more than colour

function timelineView(recording, cursor, analyses) {
  const canvas = byId("timeline-canvas"), overlay = byId("timeline-overlay"), holder = byId("timeline-holder");
  const overview = byId("overview"), text = byId("timeline-text");
  const { columns } = recording;
  const view = { from: 0, to: 1, width: 0, rows: [], shown: [], folded: true };
  const whole = document.createElement("canvas");
  let drawnOverview = "";

  const timeToX = (time) => MARGIN + (time - view.from) / (view.to - view.from) * (view.width - MARGIN);
  const xToTime = (x) => view.from + (x - MARGIN) / (view.width - MARGIN) * (view.to - view.from);

  function showWhole() {
    const { steps } = cursor.section;
    view.from = 0;
    view.to = Math.max(1, steps);
  }

  // Shows `length` steps around the cursor.
  function zoomTo(length, around = cursor.at.time) {
    const { steps } = cursor.section;
    const share = clamp((around - view.from) / (view.to - view.from), 0, 1);
    const shown = clamp(Math.round(length), Math.min(20, steps), steps);
    view.from = clamp(Math.round(around - share * shown), 0, steps - shown);
    view.to = view.from + shown;
    draw();
  }

  function layOut() {
    const { section } = cursor;
    const analysis = analyses(section);
    if (!view.width) view.width = Math.max(280, holder.clientWidth);
    const { warps } = section;
    const rows = view.folded && warps >= FOLD_FROM ? analysis.folded : Array.from({ length: warps }, (_, warp) => [warp]);
    const { band, cost, space, trackHeight } = rows.length < 3 ? { band: 40, cost: 24, space: 8, trackHeight: 8 }
      : rows.length > 10 ? { band: 10, cost: 4, space: 3, trackHeight: 4 }
        : rows.length > 5 ? { band: 15, cost: 6, space: 4, trackHeight: 5 } : { band: 22, cost: 10, space: 7, trackHeight: 7 };
    let top = 16;
    view.rows = new Array(warps);  // of each warp; those of a folded row are the same object
    view.shown = rows.map((members) => {
      const tracks = Math.max(...members.map((warp) => analysis.byWarp[warp].tracks));
      const flight = tracks * trackHeight + (tracks ? 2 : 0);
      const row = { members, top, flight, band, cost, trackHeight };
      top += flight + band + cost + space;
      row.height = top - row.top;
      for (const warp of members) view.rows[warp] = row;
      return row;
    });
    byId("fold").hidden = warps < FOLD_FROM || analysis.folded.length === warps;
    byId("fold").textContent = view.folded ? "all warps" : "fold alike warps";
    byId("fold").setAttribute("aria-pressed", String(!view.folded));
    view.height = top + 4;
  }

  function draw() {
    const { section } = cursor;
    const analysis = analyses(section);
    layOut();
    const context = prepare(canvas, view.width, view.height);
    const colours = stateColours();
    const waiting = hatch(context, palette.wait);
    const exposedFill = hatch(context, palette.exposed, 4);
    const perStep = (view.width - MARGIN) / (view.to - view.from);
    drawAxis(context);
    for (const row of view.shown) {
      const { members } = row;
      const chosen = members.includes(cursor.at.warp);
      const warp = chosen ? cursor.at.warp : members[0];
      const bandTop = row.top + row.flight;
      drawName(context, row, members, chosen, analysis.roles[warp]);
      context.fillStyle = palette.idle;
      context.fillRect(MARGIN, bandTop, view.width - MARGIN, row.band);
      drawStates(context, analysis, warp, row, bandTop, perStep, colours, waiting);
      for (const span of analysis.byWarp[warp].spans) {
        if (span.end < view.from || span.begin > view.to) continue;
        const left = Math.max(MARGIN, timeToX(span.begin)), right = Math.min(view.width, timeToX(span.end));
        const top = row.top + span.track * row.trackHeight;
        const width = Math.max(1.5, right - left - (perStep > 1 ? 1 : 0));
        context.fillStyle = span.kind === "product" ? palette.product : span.exposed ? exposedFill : palette.copy;
        context.fillRect(left, top, width, row.trackHeight - 1);
        if (span.exposed && perStep > 0.3) {
          context.strokeStyle = palette.exposed;
          context.strokeRect(left + 0.5, top + 0.5, Math.max(1, width - 1), row.trackHeight - 2);
        }
      }
    }
    drawDefects(context, analysis);
    drawOverview();
    drawCursor();
  }

  // "warp 0", "warps 4–7", and what they are for.
  function drawName(context, row, members, chosen, role) {
    const middle = row.top + row.flight + row.band / 2;
    const twoLines = role && row.band > 20;
    context.fillStyle = palette.ink;
    context.font = `${chosen ? "bold " : ""}11px system-ui, sans-serif`;
    context.fillText(members.length > 1 ? `warps ${members[0]}–${members[members.length - 1]}` : `warp ${members[0]}`,
      4, middle - (twoLines ? 6 : 0));
    if (!role) return;
    context.fillStyle = palette.muted;
    context.font = "10px system-ui, sans-serif";
    if (twoLines) context.fillText(role, 4, middle + 7);
    else context.fillText(role, MARGIN - 5 - context.measureText(role).width, middle);
  }

  function drawStates(context, analysis, warp, row, top, perStep, colours, waiting) {
    const states = analysis.states[warp], excess = analysis.excess[warp];
    const costTop = top + row.band + 1;
    if (perStep >= 1) {
      for (let step = Math.floor(view.from); step < view.to;) {
        const state = states[step];
        let end = step + 1;
        if (state === STATE.wait || state === STATE.idle) while (end < view.to && states[end] === state) ++end;
        // Whole pixels: parts of one would show as a pattern.
        const left = Math.round(timeToX(step)), width = Math.max(1, Math.round(timeToX(end)) - left - (perStep > 3 ? 1 : 0));
        if (state !== STATE.idle) {
          const height = row.band * STATE_HEIGHT[state];
          context.fillStyle = state === STATE.wait ? waiting : colours[state];
          context.fillRect(left, top + row.band - height, width, height);
        }
        if (excess[step]) drawCost(context, left, costTop, width, row.cost, excess[step]);
        step = end;
      }
      return;
    }
    const counts = new Uint32Array(STATES);
    for (let x = MARGIN; x < view.width; ++x) {
      const first = Math.floor(xToTime(x)), last = Math.min(states.length, Math.max(first + 1, Math.floor(xToTime(x + 1))));
      counts.fill(0);
      let most = 0;
      for (let step = first; step < last; ++step) {
        ++counts[states[step]];
        if (excess[step] > most) most = excess[step];
      }
      let bottom = top + row.band;
      for (const state of [STATE.product, STATE.shared, STATE.globalRead, STATE.globalWrite, STATE.copy,
        STATE.other, STATE.wait]) {
        if (!counts[state]) continue;
        const height = row.band * counts[state] / (last - first);
        context.fillStyle = state === STATE.wait ? waiting : colours[state];
        context.fillRect(x, bottom - height, 1, height);
        bottom -= height;
      }
      if (most) drawCost(context, x, costTop, 1, row.cost, most);
    }
  }

  // 8 * log2(ratio): a ratio of 2 is a fifth of the height, 32 all of it.
  function drawCost(context, left, top, width, height, excess) {
    context.fillStyle = palette.bad;
    context.fillRect(left, top, Math.max(1, width), Math.max(1.5, height * Math.min(1, excess / 40)));
  }

  function drawAxis(context) {
    const length = view.to - view.from;
    let tick = 10 ** Math.floor(Math.log10(Math.max(1, length / 4)));
    while (length / tick > 8) tick *= length / tick > 20 ? 5 : 2;
    context.fillStyle = palette.muted;
    context.strokeStyle = palette.grid;
    context.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(view.from / tick) * tick; time < view.to; time += tick) {
      const x = timeToX(time);
      context.beginPath();
      context.moveTo(x + 0.5, 14);
      context.lineTo(x + 0.5, view.height);
      context.stroke();
      if (x < view.width - 40) context.fillText(number(time), x + 2, 7);
    }
    context.fillText("step", 4, 7);
  }

  function drawDefects(context, analysis) {
    for (const group of analysis.groups) {
      const marks = [];
      for (const event of [group.first, group.second]) {
        if (!(event !== null && event >= cursor.section.begin && event < cursor.section.end)) continue;
        const time = columns.time[event], row = view.rows[columns.warp[event]];
        if (!row || time < view.from || time > view.to) continue;
        marks.push([timeToX(time + 0.5), row.top + row.flight + row.band / 2]);
      }
      context.strokeStyle = palette.bad;
      context.lineWidth = 2;
      if (marks.length === 2) {
        context.setLineDash([4, 3]);
        context.beginPath();
        context.moveTo(...marks[0]);
        context.lineTo(...marks[1]);
        context.stroke();
        context.setLineDash([]);
      }
      for (const [x, y] of marks) {
        context.fillStyle = palette.card;
        context.beginPath();
        context.moveTo(x, y - 9);
        context.lineTo(x + 9, y + 6);
        context.lineTo(x - 9, y + 6);
        context.closePath();
        context.fill();
        context.stroke();
        context.fillStyle = palette.bad;
        context.font = "bold 11px system-ui, sans-serif";
        context.textAlign = "center";
        context.fillText("!", x, y + 1);
        context.textAlign = "left";
      }
      context.lineWidth = 1;
    }
  }

  // The whole section above the slider: shares of what all warps do, copies in flight, defects, and the part shown below.
  function drawOverview() {
    const { section } = cursor;
    if (!view.whole) view.whole = Math.max(200, overview.parentElement.clientWidth);
    const width = view.whole, height = 44;
    const key = [section.number, width, palette.page].join();
    if (key !== drawnOverview) drawWhole(prepare(whole, width, height), width, height);
    drawnOverview = key;
    const context = prepare(overview, width, height);
    context.drawImage(whole, 0, 0, width, height);
    if (view.to - view.from < section.steps) {
      context.strokeStyle = palette.ink;
      context.lineWidth = 1.5;
      const left = view.from / section.steps * width;
      context.strokeRect(left + 1, 1, Math.max(4, (view.to - view.from) / section.steps * width - 2), height - 2);
    }
  }

  function drawWhole(context, width, height) {
    const { section } = cursor;
    const analysis = analyses(section);
    const colours = stateColours();
    const counts = new Uint32Array(STATES);
    const bandTop = 8, band = height - 12;
    for (let x = 0; x < width; ++x) {
      const first = Math.floor(x / width * section.steps);
      const last = Math.max(first + 1, Math.floor((x + 1) / width * section.steps));
      const stride = Math.max(1, Math.floor((last - first) / 64));
      counts.fill(0);
      let all = 0;
      for (const states of analysis.states) {
        for (let step = first; step < last && step < section.steps; step += stride) {
          ++counts[states[step]];
          ++all;
        }
      }
      let bottom = bandTop + band;
      for (const state of [5, 3, 1, 2, 4, 6, 7]) {
        if (!counts[state]) continue;
        const tall = band * counts[state] / all;
        context.globalAlpha = state === STATE.wait ? 0.45 : 1;
        context.fillStyle = colours[state];
        context.fillRect(x, bottom - tall, 1, tall);
        bottom -= tall;
      }
    }
    context.globalAlpha = 1;
    for (const { spans } of analysis.byWarp) {
      for (const span of spans) {
        if (span.kind === "product") continue;
        const left = span.begin / section.steps * width;
        context.fillStyle = span.exposed ? palette.exposed : palette.copy;
        context.fillRect(left, span.exposed ? 4 : 1, Math.max(1, (span.end - span.begin) / section.steps * width), 3);
      }
    }
    context.fillStyle = palette.bad;
    for (const { at } of analysis.defects) {
      if (at === null) continue;
      context.fillRect((columns.time[at] + 0.5) / section.steps * width - 1, 0, 3, height);
    }
  }

  function drawCursor() {
    const context = prepare(overlay, view.width, view.height);
    const { time, warp } = cursor.at;
    const left = timeToX(time), right = timeToX(time + 1);
    if (time >= view.from && time < view.to) {
      context.fillStyle = palette.cursor;
      context.globalAlpha = 0.18;
      context.fillRect(left, 0, Math.max(3, right - left), view.height);
      context.globalAlpha = 1;
      context.fillRect(left, 0, 1.5, view.height);
    }
    const row = view.rows[warp];
    if (!row) return;
    context.strokeStyle = palette.cursor;
    context.lineWidth = 1.5;
    context.strokeRect(1, row.top - 1.5, view.width - 2, row.height);
    const wait = analyses(cursor.section).waitOf.get(cursor.at.event);
    if (wait) drawReason(context, wait);
  }

  // An arrow from the arrival that ends a wait to its end.
  function drawReason(context, wait) {
    const from = wait.lastArrival;
    if (!(from >= 0) || columns.warp[from] === wait.warp) return;
    const middle = (row) => row.top + row.flight + row.band / 2;
    const [x, y] = [timeToX(columns.time[from] + 0.5), middle(view.rows[columns.warp[from]])];
    const [toX, toY] = [timeToX(wait.end), middle(view.rows[wait.warp])];
    if (toX < MARGIN || x > view.width) return;
    context.strokeStyle = context.fillStyle = palette.ink;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, 4, 0, 7);
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
    const angle = Math.atan2(toY - y, toX - x);
    context.beginPath();
    context.moveTo(toX, toY);
    for (const turn of [2.7, -2.7]) context.lineTo(toX + 9 * Math.cos(angle + turn), toY + 9 * Math.sin(angle + turn));
    context.fill();
  }

  function showRow(warp) {
    const row = view.rows[warp];
    if (!row) return;
    if (row.top < holder.scrollTop) holder.scrollTop = row.top - 16;
    const below = row.top + row.height - holder.clientHeight;
    if (below > holder.scrollTop) holder.scrollTop = below;
  }

  function describe() {
    const { section } = cursor;
    const { time, warp } = cursor.at;
    const analysis = analyses(section);
    const states = ["idle", "reading global memory", "writing global memory", "using shared memory", "copying",
      "multiplying", "doing other work", "waiting"];
    const doingNow = new Array(STATES).fill(0);
    for (const of of analysis.states) ++doingNow[of[time]];
    const now = doingNow.map((count, state) => count ? `${count} ${states[state]}` : "").filter(Boolean).join(", ");
    const flying = analysis.spans.filter((span) => !span.empty && span.begin <= time && span.end > time);
    const copies = flying.filter((span) => span.kind !== "product").length;
    const words = `Step ${number(time)} of ${number(section.steps - 1)}. Warps: ${now}. In flight: ${number(copies)} ${copies === 1 ? "copy" : "copies"}` +
      `, ${counted(flying.length - copies, "asynchronous product")}.`;
    canvas.setAttribute("aria-label", `Timeline of ${section.warps} warps. ${words} Warp ${warp} is selected.`);
    const mine = flying.filter((span) => span.warp === warp && span.kind === "copies" && span.finished);
    const groupName = ({ event }) => columns.offset[event] === NONE ? "the group" : `group ${number(columns.offset[event])}`;
    text.textContent = words + (mine.length ? ` Copies of warp ${warp} in flight here, with the instructions between the commit and the wait for it: ` +
      `${mine.map((span) => `${groupName(span)}: ${number(span.work)}`).join(", ")}.` : "");
  }

  function follow() {
    const { time } = cursor.at;
    const length = view.to - view.from;
    if (time >= view.from && time < view.to) return false;
    view.from = clamp(Math.round(time - length / 3), 0, Math.max(0, cursor.section.steps - length));
    view.to = view.from + length;
    return true;
  }

  function start() {
    const { steps } = cursor.section;
    showWhole();
    if (steps > 1600) {
      // One pixel or two for each step: a part of one would show as a pattern.
      const pixels = Math.max(280, holder.clientWidth) - MARGIN;
      view.to = pixels < 800 ? pixels : Math.ceil(pixels / 2);
      follow();
    }
  }

  function place(event) {
    const box = overlay.getBoundingClientRect();
    const time = Math.floor(xToTime(clamp(event.clientX - box.left, MARGIN, view.width - 1)));
    const y = event.clientY - box.top;
    const row = view.shown.find((one) => y < one.top + one.height) ?? view.shown[view.shown.length - 1];
    return { time, warp: row.members.includes(cursor.at.warp) ? cursor.at.warp : row.members[0] };
  }
  let dragging = false, pending = 0;
  overlay.addEventListener("pointerdown", (event) => {
    const to = place(event);
    const { section } = cursor;
    for (const { head, first, second } of analyses(section).groups) {
      for (const at of [second, first]) {
        if (!(at !== null && at >= section.begin && at < section.end) || view.rows[columns.warp[at]] !== view.rows[to.warp]) continue;
        const box = overlay.getBoundingClientRect();
        if (Math.abs(timeToX(columns.time[at] + 0.5) - (event.clientX - box.left)) < 10) {
          cursor.go({ event: at, defect: head.number, view: "defects" });
          return;
        }
      }
    }
    dragging = true;
    overlay.setPointerCapture(event.pointerId);
    cursor.go({ ...to, event: undefined });
  });
  overlay.addEventListener("pointermove", (event) => {
    if (!dragging) return;
    cancelAnimationFrame(pending);
    const { time } = place(event);
    pending = requestAnimationFrame(() => cursor.go({ time }));
  });
  for (const name of ["pointerup", "pointercancel"]) overlay.addEventListener(name, () => { dragging = false; });
  overlay.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomTo((view.to - view.from) * (event.deltaY > 0 ? 1.3 : 1 / 1.3), place(event).time);
  }, { passive: false });

  byId("fold").addEventListener("click", () => {
    view.folded = !view.folded;
    draw();
  });
  start();
  cursor.listen((at, before) => {
    if (at.section !== before.section) start();
    if (at.warp !== before.warp) showRow(at.warp);
    if (follow() || at.section !== before.section || at.warp !== before.warp) draw(); else drawCursor();
    describe();
  });
  return {
    draw: () => {
      drawnOverview = "";
      view.width = view.whole = 0;
      draw();
      describe();
    },
    zoom: (factor) => zoomTo((view.to - view.from) * factor),
    whole: () => { showWhole(); draw(); },
  };
}
