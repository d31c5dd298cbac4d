// The events of a recording as typed arrays, and the sections (blocks) that they belong to.

const NONE = 0xffffffff;
const KIND = {
  access: 1, op: 2, wait: 3, goOn: 4, arrive: 5, commit: 6, copyBegins: 7, copyLands: 8,
  productBegins: 9, productEnds: 10, landed: 11, defect: 12, end: 13,
};
const ACCESS = { read: 0, write: 1, atomic: 2, async: 3, ldmatrix: 4, ldmatrixTransposed: 5 };
const OP_MMA = 3, OP_LOCAL = 9;
const BYTE_COLUMNS = ["kind", "flags", "warp", "part"];
const WORD_COLUMNS = ["site", "lanes", "array", "pattern", "offset", "link", "time"];

async function inflate(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let at = 0; at < text.length; ++at) packed[at] = text.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// packing.py describes the layout: byte columns, then the four planes of each column of words.
function unpackColumns(bytes, count) {
  const columns = {};
  let at = 0;
  for (const name of BYTE_COLUMNS) {
    columns[name] = bytes.subarray(at, at + count);
    at += count;
  }
  for (const name of WORD_COLUMNS) {
    const words = new Uint32Array(count);
    for (let index = 0; index < count; ++index) {
      words[index] = bytes[at + index] | bytes[at + count + index] << 8 |
        bytes[at + 2 * count + index] << 16 | bytes[at + 3 * count + index] << 24;
    }
    columns[name] = words;
    at += 4 * count;
  }
  const lastTime = new Uint32Array(256);
  const lastOffset = new Map();
  for (let index = 0; index < count; ++index) {
    const warp = columns.warp[index];
    columns.time[index] = lastTime[warp] = lastTime[warp] + columns.time[index];
    const key = columns.site[index] * 256 + warp;
    const offset = (lastOffset.get(key) ?? 0) + columns.offset[index] >>> 0;
    columns.offset[index] = offset;
    lastOffset.set(key, offset);
    columns.link[index] = columns.link[index] === 0 ? NONE : index - columns.link[index];
  }
  return columns;
}

function readRecording(data, bytes) {
  const { header } = data;
  header.arrays = header.arrays.map((array, index) =>
    ({ ...array, space: array.space ?? "global", name: array.name || `array ${index}`, bytes: array.bytes ?? 0 }));
  const columns = unpackColumns(bytes, data.count);
  return {
    header, columns, files: data.files, count: data.count,
    sections: header.sections.map((info, number) => makeSection(info, number, columns, data.count)),
  };
}

// The events of a block, sorted by time, and those of each of its warps.
function makeSection(info, number, columns, count) {
  const begin = info.begin ?? 0, end = info.end ?? count;
  const { time, warp } = columns;
  let steps = 0, warps = info.warps ?? 0;
  for (let event = begin; event < end; ++event) {
    if (time[event] >= steps) steps = time[event] + 1;
    if (warp[event] >= warps) warps = warp[event] + 1;
  }
  warps = Math.max(warps, 1);
  steps = Math.max(steps, 1);
  const endOfStep = new Uint32Array(steps + 1);  // endOfStep[t]: how many events come before step t
  for (let event = begin; event < end; ++event) ++endOfStep[time[event] + 1];
  for (let step = 0; step < steps; ++step) endOfStep[step + 1] += endOfStep[step];
  const next = endOfStep.slice();
  const order = new Uint32Array(end - begin);
  for (let event = begin; event < end; ++event) order[next[time[event]]++] = event;
  const sizes = new Uint32Array(warps);
  for (let event = begin; event < end; ++event) ++sizes[warp[event]];
  const ofWarp = Array.from(sizes, (size) => new Uint32Array(size));
  sizes.fill(0);
  for (const event of order) ofWarp[warp[event]][sizes[warp[event]]++] = event;
  return { info, number, begin, end, steps, warps, order, endOfStep, ofWarp };
}

// The place in a warp's events after the last one whose time is at most `limit`.
function afterTime(events, time, limit) {
  let low = 0, high = events.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (time[events[middle]] <= limit) low = middle + 1; else high = middle;
  }
  return low;
}

// The events of a warp's last step at or before a time: one instruction can leave several events.
function eventsAt(recording, section, warp, limit) {
  const events = section.ofWarp[warp] ?? new Uint32Array();
  const { time } = recording.columns;
  const after = afterTime(events, time, limit);
  if (after === 0) return [];
  const step = time[events[after - 1]];
  let first = after - 1;
  while (first > 0 && time[events[first - 1]] === step) --first;
  return [...events.subarray(first, after)];
}
