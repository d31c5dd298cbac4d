// The kernel's source: how often each line ran and what it cost, and the line that each warp is at.

const METRICS = [
  { id: "runs", name: "executions", value: (line) => line.runs },
  { id: "extra", name: "extra wavefronts", term: "bank conflict", value: (line) => line.wavefronts - line.idealWavefronts, bad: true },
  { id: "wasted", name: "extra sectors", term: "sector", value: (line) => line.sectors - line.idealSectors, bad: true },
  { id: "waited", name: "steps waited", value: (line) => line.waited, bad: true },
  { id: "bytes", name: "bytes, global memory", value: (line) => line.bytes },
  { id: "sectors", name: "sectors", term: "sector", value: (line) => line.sectors },
  { id: "wavefronts", name: "wavefronts", term: "wavefront", value: (line) => line.wavefronts },
];
const CODE = /(\/\/.*$)|("(?:[^"\\]|\\.)*")|\b(__\w+__|alignas|auto|bool|break|case|char|class|const|constexpr|continue|do|double|else|enum|extern|false|float|for|if|inline|int|long|namespace|nullptr|return|short|size_t|sizeof|static|struct|switch|template|this|true|typename|unsigned|using|void|while)\b|^(\s*#\s*\w+)/g;

// A line of C++ with its comments, strings and keywords marked.
function coloured(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(CODE)) {
    parts.push(text.slice(at, match.index));
    const kind = match[1] ? "comment" : match[2] ? "string" : "keyword";
    parts.push(element("span", { class: kind }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

function sourceView(recording, cursor, analyses) {
  const holder = byId("source-holder"), chooser = byId("metric"), path = byId("call-path");
  const { columns } = recording;
  const rows = new Map();
  let metric = METRICS[0], marked = [];

  METRICS.forEach(({ id, name }) => chooser.append(element("option", { value: id }, name)));

  // Files with the kernel itself first: those that call the others.
  function filesInOrder() {
    const outer = new Map();
    for (const frames of recording.header.sites) {
      frames.forEach(([file], index) => {
        outer.set(file, (outer.get(file) ?? 0) + (index === frames.length - 1 ? 1000 : 1));
      });
    }
    return [...outer.keys()].sort((one, other) => outer.get(other) - outer.get(one));
  }

  function build() {
    const { lines } = analyses(cursor.section);
    rows.clear();
    const used = new Set([...lines.keys()].map((key) => Math.floor(key / 1048576)));
    const files = filesInOrder().filter((file) => used.has(file));
    holder.replaceChildren(...files.map((file, index) => {
      const { name, ranges, missing } = recording.files[file];
      const table = element("table", { class: "code" },
        element("colgroup", {}, element("col"), element("col"), element("col"), element("col")));
      const shown = missing || !ranges.length
        ? [...lines.keys()].filter((key) => Math.floor(key / 1048576) === file).map((key) => key % 1048576)
          .sort((one, other) => one - other).map((line) => [{ first: line, lines: [""] }]).flat()
        : ranges;
      let next = 1;
      for (const range of shown) {
        if (range.first > next && !missing) table.append(gap(range.first - next));
        range.lines.forEach((text, at) => table.append(row(file, range.first + at, text, lines)));
        next = range.first + range.lines.length;
      }
      const head = element("summary", {}, name, missing ? element("em", {}, " (file not found: line numbers only)") : null);
      return element("details", { open: index < 3 || files.length < 5, class: "file" }, head, table);
    }));
    markMissingBarriers();
    paint();
  }

  // A row after the first access of each race: which barrier is missing before the second one.
  function markMissingBarriers() {
    for (const group of analyses(cursor.section).groups) {
      const [from, to] = group.between;
      const entry = from && rows.get(lineKey(...from));
      const words = group.race && raceText(recording, group);
      if (!entry || !words || lineKey(...from) === lineKey(...to)) continue;
      entry.made.after(element("tr", { class: "barrier" }, element("td", { colspan: 4 }, `⚡ ${words}`)));
    }
  }

  const gap = (count) => element("tr", { class: "gap" },
    element("td", { colspan: 4 }, `${counted(count, "line")} that did not run`));

  function row(file, line, text, lines) {
    const key = lineKey(file, line);
    const heat = element("td", { class: "heat" });
    const warps = element("td", { class: "at" });
    const ran = lines.has(key);
    const numberCell = element("td", { class: "line" }, ran ? element("a", { href: "#", "data-key": key }, line) : line);
    const made = element("tr", { class: ran ? "ran" : null }, numberCell, heat, warps,
      element("td", { class: "text" }, element("code", {}, coloured(text))));
    if (ran) rows.set(key, { made, heat, warps });
    return made;
  }

  // The bars next to the lines. Each line's share is of the line with the most.
  function paint() {
    const { lines } = analyses(cursor.section);
    let most = 0;
    for (const key of rows.keys()) most = Math.max(most, metric.value(lines.get(key)));
    for (const [key, { heat }] of rows) {
      const value = metric.value(lines.get(key));
      heat.replaceChildren();
      heat.removeAttribute("title");
      if (value <= 0) continue;
      const { own } = lines.get(key);
      const called = value - (own ? metric.value(own) : 0);
      const wide = Math.max(2, 100 * value / most);
      const bar = (share, more) => element("span", { class: `bar${metric.bad ? " bad" : ""}${more}`, style: `width:${share}%` });
      heat.append(...called > 0 ? [bar(wide, " called")] : [], ...called < value ? [bar(wide * (value - called) / value, "")] : [],
        element("span", { class: "value" }, compact(value)));
      heat.title = `${number(value)} ${metric.name}${called > 0 ? `; in calls: ${number(called)}` : ""}`;
    }
    byId("metric-none").hidden = most > 0;
    byId("metric-none").textContent = `No line has ${metric.name}.`;
  }

  const compact = (value) => value < 10000 ? String(value) : value < 1e6 ? `${Math.round(value / 1e3)}k` : `${(value / 1e6).toFixed(1)}M`;

  // The line of the kernel itself that a warp is at, and all lines on the way to the selected warp's instruction.
  function mark(scroll) {
    for (const [made, name] of marked) made.classList.remove(name);
    for (const { warps } of markedCells) warps.replaceChildren();
    for (const { made } of rows.values()) made.classList.remove("shown");
    marked = [];
    markedCells = [];
    const { section } = cursor;
    const { time, warp, event } = cursor.at;
    const atLine = new Map();
    for (let other = 0; other < section.warps; ++other) {
      const events = section.ofWarp[other];
      let after = afterTime(events, columns.time, time);
      while (after > 0 && !(recording.header.sites[columns.site[events[after - 1]]]?.length)) --after;
      const current = other === warp && event >= 0 && recording.header.sites[columns.site[event]]?.length ? event : events[after - 1];
      if (current === undefined) continue;
      const frames = recording.header.sites[columns.site[current]] ?? [];
      if (!frames.length) continue;
      const acting = frames.find(([file]) => file === frames[frames.length - 1][0]);
      const key = lineKey(...acting);
      if (!atLine.has(key)) atLine.set(key, []);
      atLine.get(key).push(other);
    }
    for (const [key, warps] of atLine) {
      const entry = rows.get(key);
      if (!entry) continue;
      entry.warps.replaceChildren(element("span", { class: warps.includes(warp) ? "warps own" : "warps" }, warpsText(warps)));
      markedCells.push(entry);
    }
    const frames = event >= 0 ? framesOf(recording, columns.site[event]) : [];
    const acting = frames.length ? actingFrame(frames) : null;
    frames.forEach((frame, depth) => {
      const entry = rows.get(lineKey(frame.file, frame.line));
      if (!entry) return;
      const name = depth === 0 || frame === acting ? "current" : "calling";
      entry.made.classList.add(name);
      marked.push([entry.made, name]);
    });
    path.replaceChildren(...[...frames].reverse().map((frame, depth) => element("li", { style: `--depth:${depth}` },
      element("a", { href: "#", "data-line": lineKey(frame.file, frame.line), title: "show this line", class: frame === acting ? "acting" : null },
        element("b", {}, `${frame.name}:${frame.line}`), " ", element("code", {}, coloured(frame.text.trim()))))));
    if (!frames.length) path.append(element("li", {}, "The instruction has no line in the sources."));
    if (scroll) {
      cancelAnimationFrame(scrolling);
      scrolling = requestAnimationFrame(() => acting && scrollTo(rows.get(lineKey(acting.file, acting.line)) ?? rows.get(lineKey(frames[0].file, frames[0].line))));
    }
  }

  function scrollTo(entry) {
    if (!entry?.made.offsetParent) return;
    const [box, own] = [holder.getBoundingClientRect(), entry.made.getBoundingClientRect()];
    if (own.top < box.top + 40 || own.bottom > box.bottom - 40) holder.scrollTop += own.top - box.top - box.height / 3;
  }
  let markedCells = [], scrolling = 0;

  function warpsText(warps) {
    const runs = [];
    for (const warp of warps) {
      const last = runs[runs.length - 1];
      if (last && last[1] === warp - 1) last[1] = warp; else runs.push([warp, warp]);
    }
    return runs.map(([first, last]) => first === last ? `w${first}` : `w${first}–${last}`).join(" ");
  }

  // Clicking a line goes to its next execution by the selected warp, or by any.
  function goToLine(key) {
    const { section } = cursor;
    const { time, warp, event } = cursor.at;
    const runsHere = (at) => (recording.header.sites[columns.site[at]] ?? []).some(([file, line]) => lineKey(file, line) === key);
    const counts = (at) => runsHere(at) && stateOf(recording, at) !== STATE.idle;
    const search = (events) => {
      const from = afterTime(events, columns.time, time);
      for (let index = from; index < events.length; ++index) if (counts(events[index])) return events[index];
      for (let index = 0; index < from; ++index) if (counts(events[index])) return events[index];
      return -1;
    };
    let found = search(section.ofWarp[warp]);
    if (found < 0) found = search(section.order);
    if (found >= 0 && found !== event) cursor.go({ event: found });
  }

  chooser.addEventListener("change", () => {
    metric = METRICS.find(({ id }) => id === chooser.value);
    paint();
  });
  holder.addEventListener("click", (event) => {
    const key = event.target.closest("tr")?.querySelector("a[data-key]")?.dataset.key;
    if (key === undefined) return;
    event.preventDefault();
    goToLine(Number(key));
  });
  path.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-line]");
    if (!link) return;
    event.preventDefault();
    const entry = rows.get(Number(link.dataset.line));
    entry?.made.closest("details").setAttribute("open", "");
    scrollTo(entry);
    for (const { made } of rows.values()) made.classList.toggle("shown", made === entry?.made);
  });
  build();
  cursor.listen((at, before) => {
    if (at.section !== before.section) build();
    mark(true);
  });
  return {
    choose: (id) => {
      chooser.value = id;
      chooser.dispatchEvent(new Event("change"));
    },
  };
}
