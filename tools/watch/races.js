// Reports of defects that are about the same pair of lines, and for a race the two accesses that show it best.

const knownEvent = (event) => event !== undefined && event !== null && event !== NONE;

// Of the frames of an instruction the one that acts: the innermost one in the file of the kernel itself.
const actingFrame = (frames) => frames.find(({ file }) => file === frames[frames.length - 1].file) ?? null;

// One group for each pair of lines: {defects, race, head, first, second, firstSite, secondSite, between, missing, warps, touched}.
// first and second are events in the order of their steps, or null.
function groupDefects(recording, section, defects) {
  const { columns, header } = recording;
  const inSection = (event) => knownEvent(event) && event >= section.begin && event < section.end;
  const groups = new Map();
  for (const defect of defects) {
    let first = knownEvent(defect.rival_event) ? defect.rival_event : null, second = knownEvent(defect.event) ? defect.event : null;
    let firstSite = first !== null ? columns.site[first] : defect.rival_site ?? NONE;
    let secondSite = second !== null ? columns.site[second] : defect.site ?? NONE;
    let threads = [defect.rival_thread, defect.thread];
    const race = defect.kind === "race" && (first !== null || header.sites[firstSite] !== undefined);
    if (race && inSection(first) && inSection(second) && columns.time[second] < columns.time[first]) {
      [first, second, firstSite, secondSite] = [second, first, secondSite, firstSite];
      threads = threads.reverse();
    }
    // The step where the defect is complete.
    defect.at = inSection(second) ? second : inSection(defect.event) ? defect.event : null;
    defect.shown = { first, second, firstSite, secondSite, threads };
    const between = race ? whereTheyPart(header.sites[firstSite] ?? [], header.sites[secondSite] ?? []) : [];
    const place = race ? between : header.sites[secondSite]?.[0] ?? defect.message;
    const key = JSON.stringify([defect.kind, missingBarrier(defect), place]);
    if (!groups.has(key)) groups.set(key, { defects: [], race, head: defect, between });
    groups.get(key).defects.push(defect);
  }
  return [...groups.values()].map((group) => {
    const found = { ...group, ...group.head.shown, missing: missingBarrier(group.head), warps: [] };
    if (!group.race) return found;
    const epochs = epochsOf(recording, section);
    const sameWarp = found.missing.startsWith("__syncwarp()") && inSection(found.first) && inSection(found.second) && columns.warp[found.first] === columns.warp[found.second];
    const pair = sameWarp ? pairOfWarps(recording, section, group, epochs) : null;
    if (pair) {
      Object.assign(found, { first: pair[0], second: pair[1], threads: [], firstSite: columns.site[pair[0]], secondSite: columns.site[pair[1]], missing: "__syncthreads()" });
    }
    if (inSection(found.first) && inSection(found.second)) {
      found.warps = [...new Set([columns.warp[found.first], columns.warp[found.second]])].sort((one, other) => one - other);
      found.ordered = /^__sync/.test(found.missing) && inProgramOrder(recording, section, found, epochs);
    }
    if (inSection(found.first) && inSection(found.second)) found.touched = touchedByBoth(recording, found.first, found.second, found.threads);
    const common = commonFrames(group.defects.map(({ shown }) => header.sites[shown.secondSite] ?? []));
    // Of one report, the line where the call stacks part: its callees may have nothing to do with the race.
    found.before = group.defects.length > 1 ? common.find(([file]) => file === common[common.length - 1][0]) ?? null : group.between[1] ?? null;
    return found;
  });
}

// The lines where two call stacks, innermost first, part: [[file, line], [file, line]], or the innermost lines if they do not.
function whereTheyPart(one, other) {
  let depth = 1;
  while (depth < Math.min(one.length, other.length) && String(one.at(-depth)) === String(other.at(-depth))) ++depth;
  return one.length && other.length ? [one.at(-depth), other.at(-depth)] : [];
}

// The outer frames that all call stacks share, innermost first.
function commonFrames(stacks) {
  let depth = 0;
  while (stacks.every((frames) => depth < frames.length && String(frames.at(-depth - 1)) === String(stacks[0].at(-depth - 1)))) ++depth;
  return depth ? stacks[0].slice(-depth) : [];
}

// Of each event how many __syncthreads() its warp has passed, and of each of these intervals of a warp whether the warps can
// be ordered in it by anything else: {of: event -> interval, unclear: Set of intervals}.
function epochsOf(recording, section) {
  if (section.epochs) return section.epochs;
  const { kind, warp, array, offset, flags } = recording.columns;
  const of = new Int32Array(section.end - section.begin);
  const passed = new Array(section.warps).fill(0);
  const phases = new Array(section.warps).fill(null);
  const unclear = new Set();
  for (const event of section.order) {
    const by = warp[event];
    const barrier = recording.header.barriers[array[event]]?.kind;
    if (kind[event] === KIND.goOn && barrier === "block" && (offset[event] === NONE || phases[by] !== offset[event])) {
      phases[by] = offset[event];
      ++passed[by];
    }
    const orders = kind[event] === KIND.goOn && !["block", "warp", "copies", "products"].includes(barrier);
    if (orders || (kind[event] === KIND.access && flags[event] === ACCESS.atomic)) unclear.add(passed[by]);
    of[event - section.begin] = passed[by];
  }
  return section.epochs = { of, unclear };
}

const PAIR_SEARCH = 5000;  // events, and comparisons of two

// Two accesses by different warps from the lines of a group whose accesses are by one warp, with no barrier between them.
// Null if there are none, or if something else may order them.
function pairOfWarps(recording, section, group, { of, unclear }) {
  const { columns } = recording;
  const { shown } = group.head;
  const epoch = of[shown.second - section.begin];
  if (of[shown.first - section.begin] !== epoch || unclear.has(epoch)) return null;
  const firstSites = new Set(group.defects.map((defect) => defect.shown.firstSite));
  const secondSites = new Set(group.defects.map((defect) => defect.shown.secondSite));
  const array = columns.array[shown.second];
  const candidates = [];
  for (const event of section.order) {
    if (of[event - section.begin] !== epoch || columns.array[event] !== array || !isAccess(recording, event)) continue;
    if (!firstSites.has(columns.site[event]) && !secondSites.has(columns.site[event])) continue;
    if (candidates.push(event) >= PAIR_SEARCH) break;
  }
  const readers = candidates.filter((event) => firstSites.has(columns.site[event])).reverse();  // the last one first
  const writers = candidates.filter((event) => secondSites.has(columns.site[event]));
  const changes = (event) => isWrite(columns.flags[event]);
  // The access that the simulator names, and the nearest one of another warp before it.
  let compared = 0;
  for (const second of [shown.second, ...writers]) {
    for (const first of readers) {
      if (columns.warp[first] === columns.warp[second] || columns.time[first] > columns.time[second]) continue;
      if (!changes(first) && !changes(second)) continue;
      if (touchedByBoth(recording, first, second)) return [first, second];
      if (++compared > PAIR_SEARCH) return null;
    }
  }
  return null;
}

// Whether each warp runs the first line before the second one, so that a barrier before the second one separates them.
function inProgramOrder(recording, section, { first, second, firstSite, secondSite }, { of, unclear }) {
  const { warp, site } = recording.columns;
  const epoch = of[second - section.begin];
  if (of[first - section.begin] !== epoch || unclear.has(epoch) || firstSite === secondSite) return false;
  return [warp[first], warp[second]].every((by) => {
    let lastFirst = -1, firstSecond = Infinity;
    section.ofWarp[by].forEach((event, index) => {
      if (of[event - section.begin] !== epoch) return;
      if (site[event] === firstSite) lastFirst = index;
      if (site[event] === secondSite) firstSecond = Math.min(firstSecond, index);
    });
    return lastFirst < firstSecond;
  });
}

// The first bytes that both accesses touch: {begin, end, lanes: [of the first, of the second]}; null if there are none.
// @param threads  of the first and of the second access, where the simulator names them
function touchedByBoth(recording, first, second, threads = []) {
  const { array } = recording.columns;
  if (!isAccess(recording, first) || !isAccess(recording, second) || array[first] !== array[second]) return null;
  const [here, there] = [first, second].map((event) => {
    const offsets = laneOffsets(recording, event);
    return { offsets, size: patternOf(recording, event).size };
  });
  const same = recording.columns.warp[first] === recording.columns.warp[second];
  const lanesOf = ({ offsets }, thread) => {
    const all = offsets.flatMap((offset, lane) => offset === null ? [] : [lane]);
    return Number.isInteger(thread) && offsets[thread % 32] !== null ? [thread % 32, ...all] : all;
  };
  for (const one of lanesOf(here, threads[0])) {
    for (const other of lanesOf(there, threads[1])) {
      if (same && one === other) continue;
      const begin = Math.max(here.offsets[one], there.offsets[other]);
      const end = Math.min(here.offsets[one] + here.size, there.offsets[other] + there.size);
      if (begin < end) return { begin, end, lanes: [one, other] };
    }
  }
  return null;
}

// What is missing between the accesses of a race, in words; "" if that is not known.
function raceText(recording, group) {
  const { between, missing } = group;
  if (between.length < 2 || !missing) return "";
  const [from, to] = between.map(([file, line]) => ({ name: recording.files[file].name.split("/").pop(), line }));
  const places = from.name === to.name ? `line ${from.line} and line ${to.line}` : `${from.name}:${from.line} and ${to.name}:${to.line}`;
  return `no ${missing} between ${places}`;
}

// ", in replace_slice()": the function that holds the line, if both the source and the line that calls it say so.
function functionOf(recording, frames, frame) {
  const depth = frames.findIndex(([file, line]) => file === frame[0] && line === frame[1]);
  const caller = depth < 0 ? null : frames[depth + 1];
  const textOf = ([file, line]) => {
    const range = recording.files[file].ranges.find((one) => line >= one.first && line < one.first + one.lines.length);
    return range?.lines[line - range.first] ?? "";
  };
  if (!caller) return "";
  const called = new Set([...textOf(caller).matchAll(/(\w+)\s*[<(]/g)].map((match) => match[1]));
  for (let line = frame[1]; line > frame[1] - 60 && line > 0; --line) {
    const name = /^[A-Za-z_][^;=]*?\b(\w+)\(/.exec(textOf([frame[0], line]))?.[1];
    if (name) return called.has(name) ? `${name}()` : "";
  }
  return "";
}
