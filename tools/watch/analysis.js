// What a whole section shows: the cost of each line, the state of each warp at each step, work in flight, and findings.

const STATE = { idle: 0, globalRead: 1, globalWrite: 2, shared: 3, copy: 4, product: 5, other: 6, wait: 7 };
const STATES = Object.keys(STATE).length;

// What a warp does in an event, or 0 if the event takes none of the warp's time.
function stateOf(recording, event) {
  const { kind, flags } = recording.columns;
  switch (kind[event]) {
    case KIND.access: {
      const array = arrayOf(recording, event);
      if (flags[event] === ACCESS.async) return STATE.copy;
      if (!array || !isGlobal(array)) return STATE.shared;
      return flags[event] === ACCESS.read ? STATE.globalRead : STATE.globalWrite;
    }
    case KIND.op: return flags[event] === OP_MMA ? STATE.product : STATE.other;
    case KIND.copyBegins: return STATE.copy;
    case KIND.productBegins: return STATE.product;
    case KIND.wait: return STATE.wait;
    case KIND.arrive: case KIND.commit: return STATE.other;
    default: return STATE.idle;
  }
}

const lineKey = (file, line) => file * 1048576 + line;
const emptyLine = () => ({
  runs: 0, bytes: 0, sectors: 0, idealSectors: 0, wavefronts: 0, idealWavefronts: 0, waited: 0,
  worstShared: -1, sharedExcess: 0, worstGlobal: -1, globalExcess: 0, first: -1,
});

function analyse(recording, section) {
  const { columns, header } = recording;
  const { kind, flags, warp, site, array, pattern, link, time, offset, lanes } = columns;
  const { steps, warps } = section;
  const states = Array.from({ length: warps }, () => new Uint8Array(steps));
  const excess = Array.from({ length: warps }, () => new Uint8Array(steps));  // 8 * log2(taken / ideal)
  const lines = new Map();
  const waits = [];
  const spans = [];
  const total = {
    events: section.end - section.begin, wavefronts: 0, idealWavefronts: 0, sectors: 0, idealSectors: 0, bytes: 0,
    sharedAccesses: 0, globalAccesses: 0, products: 0, copies: 0, waited: 0,
  };
  const openWait = Array.from({ length: warps }, () => []);
  const lastWait = new Array(warps).fill(null);
  const busy = new Uint32Array(warps);  // instructions of the warp so far that are not copies
  const products = new Uint32Array(warps);
  let blockWork = 0;  // products, accesses, shuffles and votes of all warps so far
  const commits = new Map();
  const begun = new Map();
  const sinceCommit = new Array(warps).fill(-1);
  const lastAt = new Map();  // barrier -> [event, time] of the latest arrival
  const waitArrives = new Set(["block", "warp", "named", "cluster"]);  // barriers where to wait is to arrive
  const landedAt = new Map();  // mbarrier -> boxes that have landed and that nobody has waited for
  const asyncRead = new Set();
  const frames = (event) => header.sites[site[event]] ?? [];
  const eachLine = (event, change) => {
    let before = -1;
    frames(event).forEach(([file, line], depth) => {
      const key = lineKey(file, line);
      if (key === before) return;
      before = key;
      let entry = lines.get(key);
      if (!entry) lines.set(key, entry = emptyLine());
      change(entry);
      if (depth === 0) change(entry.own ??= emptyLine());
    });
  };

  for (const event of section.order) {
    if (kind[event] === KIND.access && flags[event] === ACCESS.async && link[event] !== NONE) asyncRead.add(link[event]);
  }
  for (const event of section.order) {
    const of = warp[event], now = time[event];
    let state = stateOf(recording, event);
    if (asyncRead.has(event)) state = STATE.copy;
    if (state !== STATE.idle) {
      // A lane that does something else does not wait any more, even if the recording does not say when it went on.
      for (const wait of openWait[of].filter((one) => one.lanes & lanes[event])) {
        openWait[of].splice(openWait[of].indexOf(wait), 1);
        wait.end = now;
        finishWait(wait);
      }
      if (states[of][now] === STATE.idle || states[of][now] === STATE.wait || state === STATE.product) states[of][now] = state;
      if (!(kind[event] === KIND.access && flags[event] === ACCESS.async)) {
        eachLine(event, (entry) => {
          ++entry.runs;
          if (entry.first < 0) entry.first = event;
        });
      }
      if (state !== STATE.copy && state !== STATE.wait && kind[event] !== KIND.commit) ++busy[of];
      if (state === STATE.product || state === STATE.shared || state === STATE.globalRead ||
        state === STATE.globalWrite || (kind[event] === KIND.op && flags[event] < OP_MMA)) ++blockWork;
      if (state === STATE.product) {
        ++products[of];
        ++total.products;
      }
    }
    switch (kind[event]) {
      case KIND.access: {
        const to = header.arrays[array[event]], shape = header.patterns[pattern[event]];
        if (!to || !shape) break;
        const cost = costOf(to, shape);
        const more = cost.ideal > 0 ? cost.taken / cost.ideal : 1;
        if (more > 1) excess[of][now] = Math.max(excess[of][now], Math.min(255, Math.round(8 * Math.log2(more))));
        const shared = !isGlobal(to);
        if (shared) {
          ++total.sharedAccesses;
          total.wavefronts += cost.taken;
          total.idealWavefronts += cost.ideal;
        } else {
          ++total.globalAccesses;
          total.sectors += cost.taken;
          total.idealSectors += cost.ideal;
          total.bytes += shape.bytes ?? 0;
        }
        eachLine(event, (entry) => {
          if (shared) {
            entry.wavefronts += cost.taken;
            entry.idealWavefronts += cost.ideal;
          } else {
            entry.sectors += cost.taken;
            entry.idealSectors += cost.ideal;
            entry.bytes += shape.bytes ?? 0;
          }
          const more = cost.taken - cost.ideal;
          if (shared && more > entry.sharedExcess) [entry.sharedExcess, entry.worstShared] = [more, event];
          if (!shared && more > entry.globalExcess) [entry.globalExcess, entry.worstGlobal] = [more, event];
        });
        if (state === STATE.copy && sinceCommit[of] < 0) sinceCommit[of] = now;
        break;
      }
      case KIND.wait:
        openWait[of].push({ warp: of, begin: now, end: now, event, barrier: array[event], phase: offset[event], busy: busy[of], lanes: lanes[event] });
        if (waitArrives.has(header.barriers[array[event]]?.kind)) lastAt.set(array[event], event);
        break;
      case KIND.arrive:
        lastAt.set(array[event], event);
        break;
      case KIND.goOn: {
        const index = openWait[of].findIndex((one) => one.barrier === array[event] && one.phase === offset[event]);
        if (index < 0) break;
        const [wait] = openWait[of].splice(index, 1);
        lastWait[of] = wait;
        wait.end = now;
        wait.goOn = event;
        wait.lastArrival = lastAt.get(wait.barrier) ?? -1;
        for (const span of landedAt.get(wait.barrier) ?? []) finishSpan(span, wait.begin, now, span.warp, null);
        landedAt.delete(wait.barrier);
        finishWait(wait);
        break;
      }
      case KIND.commit: {
        const copies = header.barriers[array[event]]?.kind !== "products";
        if (copies) {
          const empty = sinceCommit[of] < 0;
          commits.set(event, {
            kind: "copies", warp: of, begin: empty ? now : sinceCommit[of], end: steps, event, empty, busy: busy[of],
            products: products[of], finished: false,
          });
          sinceCommit[of] = -1;
          if (!empty) ++total.copies;
        }
        break;
      }
      case KIND.landed: {
        const span = commits.get(link[event]);
        if (!span) break;
        commits.delete(link[event]);
        const wait = openWait[of][0] ?? (lastWait[of]?.end === now ? lastWait[of] : null);
        finishSpan(span, wait?.begin ?? now, now, of, wait);
        break;
      }
      case KIND.copyBegins:
        begun.set(event, {
          kind: "box", warp: of, begin: now, end: steps, event, busy: blockWork, products: total.products,
          finished: false, empty: false,
        });
        ++total.copies;
        break;
      case KIND.productBegins:
        begun.set(event, {
          kind: "product", warp: of, begin: now, end: steps, event, busy: busy[of], products: products[of],
          finished: false, empty: false,
        });
        break;
      case KIND.copyLands: case KIND.productEnds: {
        const span = begun.get(link[event]);
        if (!span) break;
        begun.delete(link[event]);
        if (kind[event] === KIND.copyLands) {
          const copy = header.copies[array[event]];
          span.landed = now;
          span.loads = (copy?.kind ?? "load") === "load";
          const barrier = copy?.barrier ?? NONE;
          if (span.loads && header.barriers[barrier]) {
            // The recording's copies take no time. A copy counts as in flight until the first warp goes on after it.
            lastAt.set(barrier, event);
            if (!landedAt.has(barrier)) landedAt.set(barrier, []);
            landedAt.get(barrier).push(span);
            break;
          }
        }
        finishSpan(span, now, now, span.warp, null);
        break;
      }
      default:
    }
  }
  for (const span of [...commits.values(), ...begun.values(), ...[...landedAt.values()].flat()]) spans.push(span);
  for (const wait of openWait.flat()) {
    wait.end = steps;
    wait.unfinished = true;
    finishWait(wait);
  }

  function finishWait(wait) {
    wait.length = wait.end - wait.begin;
    waits.push(wait);
    // Other lanes of the warp may have gone on meanwhile.
    const own = states[wait.warp];
    for (let step = wait.begin; step < wait.end; ++step) if (own[step] === STATE.idle) own[step] = STATE.wait;
    eachLine(wait.event, (entry) => { entry.waited += wait.length; });
  }
  // work: instructions between the issue and the wait that have nothing to do with the copy.
  function finishSpan(span, waitBegin, end, of, wait) {
    span.finished = true;
    span.end = Math.max(end, span.begin + 1);
    span.waitBegin = waitBegin;
    if (span.kind === "box") {
      span.work = span.productsDuring = total.products - span.products;
      span.idle = blockWork === span.busy;
    } else {
      span.work = (wait ? wait.busy : busy[of]) - span.busy;
      span.productsDuring = products[of] - span.products;
    }
    spans.push(span);
  }

  for (const own of states) for (const state of own) if (state === STATE.wait) ++total.waited;
  spans.sort((one, other) => one.begin - other.begin || one.event - other.event);
  for (const span of spans) {
    span.exposed = span.finished && !span.empty &&
      (span.kind === "copies" ? span.work <= 1 : span.kind === "box" && span.loads && span.idle);
  }
  const defects = header.defects
    .map((defect, number) => ({ ...defect, number }))
    .filter((defect) => {
      const at = defect.event ?? NONE;
      if (defect.section !== undefined) return defect.section === section.number;
      if (at !== NONE && at !== null) return at >= section.begin && at < section.end;
      return section.number === 0 || recording.sections.length === 1;
    })
    .sort((one, other) => (other.kind === "race") - (one.kind === "race"));
  const groups = groupDefects(recording, section, defects);
  const roles = rolesOf(recording, section);
  const waitOf = new Map(waits.flatMap((wait) => [[wait.event, wait], [wait.goOn, wait]]));
  const spanOf = new Map(spans.map((span) => [span.event, span]));
  return { states, excess, lines, waits, waitOf, spans, spanOf, defects, groups, total, roles, folded: foldedRows(section, states), byWarp: spansByWarp(spans, warps) };
}

// What a warp is for, if the warps of a block differ: "copies", "products" or "".
function rolesOf(recording, section) {
  const { kind, flags } = recording.columns;
  const counts = section.ofWarp.map((events) => {
    let copies = 0, products = 0;
    for (const event of events) {
      if (kind[event] === KIND.productBegins || (kind[event] === KIND.op && flags[event] === OP_MMA)) ++products;
      else if (kind[event] === KIND.copyBegins || (kind[event] === KIND.access && flags[event] === ACCESS.async)) ++copies;
    }
    return { copies, products };
  });
  const divided = counts.some(({ products }) => products > 0) && counts.some(({ copies, products }) => copies > 0 && products === 0);
  return counts.map(({ copies, products }) => !divided ? "" : products ? "products" : copies ? "copies" : "");
}

// Rows of the timeline: neighbours of a warpgroup that do the same nearly always can share a row.
function foldedRows(section, states) {
  const alike = (one, other) => {
    let same = 0;
    for (let step = 0; step < section.steps; ++step) if (states[one][step] === states[other][step]) ++same;
    return same >= 0.85 * section.steps;
  };
  const rows = [];
  for (let warp = 0; warp < section.warps; ++warp) {
    const row = rows[rows.length - 1];
    if (warp % 4 && alike(row[0], warp)) row.push(warp);
    else rows.push([warp]);
  }
  return rows;
}

// The spans of each warp with a track for each, so that those in flight together do not cover each other. Products have the
// lowest track, where those in flight together are one bar.
function spansByWarp(spans, warps) {
  const found = Array.from({ length: warps }, () => ({ spans: [], tracks: 0 }));
  const free = Array.from({ length: warps }, () => []);
  const products = new Array(warps).fill(null);
  for (const span of spans) {
    if (span.empty) continue;
    const of = found[span.warp];
    if (span.kind === "product") {
      const last = products[span.warp];
      if (last && span.begin <= last.end) last.end = Math.max(last.end, span.end);
      else of.spans.push(products[span.warp] = { ...span, track: -1 });
      continue;
    }
    const ends = free[span.warp];
    span.track = ends.findIndex((end) => end <= span.begin);
    if (span.track < 0) span.track = ends.length < 6 ? ends.push(0) - 1 : ends.indexOf(Math.min(...ends));
    ends[span.track] = span.end;
    of.spans.push(span);
  }
  found.forEach((of, warp) => {
    of.tracks = free[warp].length + (products[warp] ? 1 : 0);
    for (const span of of.spans) if (span.kind === "product") span.track = of.tracks - 1;
  });
  return found;
}

// What stands out, worst first: {kind, good, title, text, link: {time, warp, event, view}}.
function findingsOf(recording, section, analysis) {
  const { columns } = recording;
  const found = [];
  const at = (event, view) => ({ t: columns.time[event], w: columns.warp[event], e: event, v: view });
  const { total, lines } = analysis;
  const lineName = (key) => {
    const file = recording.files[Math.floor(key / 1048576)];
    return `${(file?.name ?? "?").split("/").pop()}:${key % 1048576}`;
  };
  const innermost = new Set();
  for (const frames of recording.header.sites) {
    if (frames.length) innermost.add(lineKey(...frames[0]));
  }
  const worst = (cost) => {
    let best = null;
    for (const [key, line] of lines) {
      if (!innermost.has(key)) continue;
      const value = cost(line);
      if (value > 0 && (!best || value > best.value)) best = { key, line, value };
    }
    return best;
  };

  for (const { defects, head, ...group } of analysis.groups.slice(0, 3)) {
    const event = [group.second, head.at].find((one) => knownEvent(one) && one >= section.begin && one < section.end);
    found.push({
      kind: "defect", good: false, title: `${defectTitle(head)}${defects.length > 1 ? `, at ${defects.length} places` : ""}`,
      text: defectText(recording, { head, ...group }),
      link: event !== undefined ? { ...at(event, "defects"), d: head.number } : { v: "defects", d: head.number },
    });
  }
  if (analysis.groups.length > 3) {
    found.push({
      kind: "defect", good: false, title: `${counted(analysis.groups.slice(3).reduce((sum, { defects }) => sum + defects.length, 0), "more defect")}`,
      text: "All of them are listed below.", link: { v: "defects" },
    });
  }

  if (total.sharedAccesses > 0) {
    const extra = total.wavefronts - total.idealWavefronts;
    const line = worst((entry) => (entry.wavefronts - entry.idealWavefronts));
    if (extra > 0 && line) {
      const pattern = patternOf(recording, line.line.worstShared);
      found.push({
        kind: "banks", good: extra < 0.05 * total.idealWavefronts, plain: extra < 0.05 * total.idealWavefronts,
        weight: extra / total.wavefronts,
        title: `Bank conflicts: ${percent(extra, total.wavefronts)} of shared memory's passes are extra`,
        text: `${counted(total.wavefronts, "wavefront")} where ${number(total.idealWavefronts)} would do. Worst line: ` +
          `${lineName(line.key)}, ${number(pattern.wavefronts)} instead of ${number(pattern.ideal)} for one instruction.`,
        link: at(line.line.worstShared, "shared"),
      });
    } else {
      found.push({
        kind: "banks", good: true, title: "No bank conflicts",
        text: `All ${counted(total.wavefronts, "wavefront")} of shared memory were needed.`,
      });
    }
  }
  if (total.globalAccesses > 0) {
    const fetched = total.sectors * SECTOR;
    const share = fetched > 0 ? total.bytes / fetched : 1;
    const line = worst((entry) => entry.sectors - entry.idealSectors);
    if (share < 0.9 && line) {
      const pattern = patternOf(recording, line.line.worstGlobal);
      found.push({
        kind: "sectors", good: share > 0.75, plain: share > 0.75, weight: 1 - share,
        title: `Wasted sectors: ${percent(fetched - total.bytes, fetched)} of the fetched bytes are not used`,
        text: `Worst line: ${lineName(line.key)}, ${counted(pattern.sectors, "sector")} (${bytesText(pattern.sectors * SECTOR)}) ` +
          `for ${bytesText(pattern.bytes)} in one instruction.`,
        link: at(line.line.worstGlobal, "instruction"),
      });
    } else {
      found.push({
        kind: "sectors", good: true, title: `Instructions use ${percent(total.bytes, fetched)} of their sectors`,
        text: "Neighbouring lanes read neighbouring addresses.",
      });
    }
  }
  const groups = analysis.spans.filter((span) => span.kind === "copies" && span.finished && !span.empty && span.busy > 0);
  if (groups.length > 0) {
    const exposed = groups.filter((span) => span.exposed);
    const work = groups.map((span) => span.work).sort((one, other) => one - other)[groups.length >> 1];
    const example = exposed[exposed.length >> 1];
    if (exposed.length > 0.5 * groups.length && exposed.length >= 2) {
      found.push({
        kind: "overlap", good: false, weight: exposed.length / groups.length,
        title: `No overlap: ${percent(exposed.length, groups.length)} of the copies are waited for immediately`,
        text: "A warp starts a copy, then waits for it: no other instruction lies between. Nothing in the warp hides the copy. Steps do not count the time of a copy: on a GPU the warp would stand still here, once for each copy.",
        link: at(example.event, "timeline"),
      });
    } else {
      const later = groups.slice(2).filter((span) => span.work >= work);
      const typical = later.length ? later.reduce((one, other) => other.warp < one.warp ? other : one) : groups[0];
      found.push({
        kind: "overlap", good: true, title: `Copies overlap with work: ${number(work)} instructions`,
        text: "The median between the start of a copy and the wait for it, in the same warp.",
        link: at(typical.event, "timeline"),
      });
    }
  }
  const boxes = analysis.spans.filter((span) => span.kind === "box" && span.finished && span.loads && span.products > 0);  // not those before the first product
  if (boxes.length > 0 && total.products > 0) {
    const during = boxes.map((span) => span.work).sort((one, other) => one - other)[boxes.length >> 1];
    const typical = boxes.find((span) => span.work >= during && span.work > 0) ?? boxes[boxes.length >> 1];
    found.push({
      kind: "overlap", good: true, plain: during === 0,
      title: during > 0 ? `Copies overlap with ${counted(during, "product")}` : "No product begins while most copies are in flight",
      text: during > 0 ? "The median of the products that the block begins between the start of a copy and the first wait for it."
        : "Most copies are waited for before the block begins another product.",
      link: at(typical.event, "timeline"),
    });
  }
  if (analysis.waits.length > 0) {
    const alive = section.steps * section.warps;
    const longest = analysis.waits.reduce((one, other) => other.length > one.length ? other : one);
    const barrier = barrierName(recording, longest.barrier);
    found.push({
      kind: "waits", good: true, plain: true,
      title: `Warps wait during ${percent(total.waited, alive)} of their steps`,
      text: `Logical steps, not time. Longest: warp ${longest.warp} waits ${counted(longest.length, "step")} for ${barrier}` +
        `${longest.lastArrival >= 0 && columns.warp[longest.lastArrival] !== longest.warp
          ? `, last reached by warp ${columns.warp[longest.lastArrival]}` : ""}.`,
      link: { ...at(longest.event, "timeline"), t: Math.max(longest.begin, longest.end - 1) },
    });
  }
  if (analysis.defects.length === 0) {
    found.push({ kind: "defect", good: true, title: "No defects", text: "No race and no uninitialised read was reported." });
  }
  const rank = ({ good, kind, weight }) => good ? kind === "defect" ? 3 : 2 : kind === "defect" ? 0 : 1 - (weight ?? 0) / 2;
  return found.sort((one, other) => rank(one) - rank(other));
}
