// Where the lanes of an access go: bytes, sectors, banks and wavefronts.

const BANKS = 32, WORD = 4, SECTOR = 32;
const TYPE_BYTES = {
  f64: 8, f32: 4, f16: 2, bf16: 2, f8: 1, i64: 8, u64: 8, i32: 4, u32: 4, i16: 2, u16: 2, i8: 1, u8: 1,
};

const arrayOf = (recording, event) => recording.header.arrays[recording.columns.array[event]];
const patternOf = (recording, event) => recording.header.patterns[recording.columns.pattern[event]];
const isAccess = (recording, event) =>
  recording.columns.kind[event] === KIND.access && Boolean(arrayOf(recording, event)) &&
  Boolean(patternOf(recording, event));
const isShared = (array) => array.space === "shared";
const isGlobal = (array) => array.space === "global";  // neither: shared memory of another block of the cluster
const isWrite = (flags) => flags === ACCESS.write || flags === ACCESS.async;
const elementBytes = (array) => array.element_bytes ?? TYPE_BYTES[array.type] ?? WORD;
const isLdmatrix = (flags) => flags === ACCESS.ldmatrix || flags === ACCESS.ldmatrixTransposed;

// Each lane's offset from the beginning of the array in bytes; null for lanes that take no part.
function laneOffsets(recording, event) {
  const { offsets } = patternOf(recording, event);
  const { lanes, offset } = recording.columns;
  const found = new Array(32);
  for (let lane = 0; lane < 32; ++lane) {
    found[lane] = lanes[event] >>> lane & 1 ? offset[event] + (offsets[lane] ?? 0) : null;
  }
  return found;
}

// The sectors of an access to global memory, by address, with the bytes of each that some lane asked for.
function sectorsOf(recording, event) {
  const { size } = patternOf(recording, event);
  const sectors = new Map();
  laneOffsets(recording, event).forEach((offset, lane) => {
    if (offset === null) return;
    for (let byte = offset; byte < offset + size; ++byte) {
      const number = Math.floor(byte / SECTOR);
      if (!sectors.has(number)) sectors.set(number, { number, lanes: new Set(), owner: new Array(SECTOR).fill(-1) });
      const sector = sectors.get(number);
      sector.lanes.add(lane);
      sector.owner[byte - number * SECTOR] = lane;
    }
  });
  return [...sectors.values()].sort((one, other) => one.number - other.number);
}

// Lanes that share one pass over the banks if nothing conflicts: 128 bytes. Pairs of lanes that read the same count once.
function lanesAtATime(offsets, size) {
  if (size <= WORD) return 32;
  const pairUp = (distance) => offsets.every((offset, lane) => {
    const partner = offsets[lane ^ distance];
    return offset === null || partner === null || offset === partner;
  });
  return Math.min(32, 128 / size * (pairUp(1) || pairUp(2) ? 2 : 1));
}

// The words of an access to shared memory: lane, word of shared memory, and the wavefront that serves it.
function wavefrontsOf(recording, event) {
  const { size } = patternOf(recording, event);
  const begin = arrayOf(recording, event).begin ?? 0;
  const offsets = laneOffsets(recording, event);
  const group = lanesAtATime(offsets, size);
  const words = [];
  let passes = 0, ideal = 0;
  for (let first = 0; first < 32; first += group) {
    const inBank = Array.from({ length: BANKS }, () => []);
    let most = 0;
    for (let lane = first; lane < first + group; ++lane) {
      if (offsets[lane] === null) continue;
      const address = begin + offsets[lane];
      const last = Math.floor((address + size - 1) / WORD);
      for (let word = Math.floor(address / WORD); word <= last; ++word) {
        const wanted = inBank[word % BANKS];
        let pass = wanted.indexOf(word);
        if (pass < 0) pass = wanted.push(word) - 1;
        most = Math.max(most, pass + 1);
        words.push({ lane, word, bank: word % BANKS, wavefront: passes + pass });
      }
    }
    passes += most;
    if (most > 0) ++ideal;
  }
  return { words, passes, ideal, group };
}

// What an access costs beyond what it has to: sectors or wavefronts, and the unit.
function costOf(array, pattern) {
  if (!isGlobal(array)) {
    return { taken: pattern.wavefronts ?? 0, ideal: pattern.ideal ?? 0, unit: "wavefront" };
  }
  return { taken: pattern.sectors ?? 0, ideal: Math.ceil((pattern.bytes ?? 0) / SECTOR), unit: "sector" };
}

// The row and the column of an element of a shared array whose rows permute their elements.
function placeInLayout(array, elementNumber) {
  const { period, columns, places } = array.layout;
  array.inverse ??= places.reduce((found, place, index) => {
    found[place] = index;
    return found;
  }, []);
  const size = period * columns;
  const index = array.inverse[elementNumber % size];
  return index === undefined ? null : [Math.floor(elementNumber / size) * period + Math.floor(index / columns), index % columns];
}

// "K[0, 3, 17, 5]" for a byte of an array whose shape is known, "s + 132 bytes" for others.
function elementName(array, offset) {
  const bytes = elementBytes(array);
  if (array.layout?.places && offset >= 0 && offset < array.bytes) {
    const place = placeInLayout(array, Math.floor(offset / bytes));
    if (place) return `${array.name}[${place.join(", ")}]`;
  }
  if (!array.shape?.length && array.row_bytes && offset >= 0 && offset < array.bytes) {
    return `${array.name}, row ${Math.floor(offset / array.row_bytes)}, byte ${offset % array.row_bytes}`;
  }
  if (!array.shape?.length || offset < 0 || offset >= array.bytes) return `${array.name} + ${offset} bytes`;
  const shape = array.shape;
  const columns = shape[shape.length - 1];
  const rowBytes = array.row_bytes ?? columns * bytes;
  const index = [Math.floor(offset % rowBytes / bytes)];
  let row = Math.floor(offset / rowBytes);
  for (let dimension = shape.length - 2; dimension >= 0; --dimension) {
    index.unshift(dimension === 0 ? row : row % shape[dimension]);
    row = Math.floor(row / shape[dimension]);
  }
  if (index[index.length - 1] >= columns) return `${array.name}, padding of row ${index.slice(0, -1).join(", ")}`;
  return `${array.name}[${index.join(", ")}]`;
}

// The runs of consecutive bytes that a copy engine's box moves: calls visit(global, shared, bytes). Offsets are those of
// the tensor and of the shared array; parts of the box outside the tensor are skipped.
function eachRunOfBox(recording, copy, visit) {
  const tensor = recording.header.arrays[copy.tensor];
  const size = copy.element_bytes ?? 2;
  const begin = recording.header.arrays[copy.shared]?.begin ?? 0;
  const swizzle = { 32: 0x10, 64: 0x30, 128: 0x70 }[copy.swizzle] ?? 0;
  const inShared = (plain) => (plain ^ plain >> 3 & swizzle) - begin;
  if (copy.runs) {
    // Zeros first: what lies outside the tensor.
    visit(null, copy.shared_offset ?? 0, copy.bytes ?? 0);
    for (const [global, bytes, count, stride, box, boxStride] of copy.runs) {
      for (let run = 0; run < count; ++run) {
        const from = tensor?.bytes ? global + run * stride : null;
        const plain = begin + (copy.shared_offset ?? 0) + box + run * boxStride;
        for (let byte = 0; byte < bytes; byte += 16) {
          visit(from === null ? null : from + byte, inShared(plain + byte), Math.min(16, bytes - byte));
        }
      }
    }
    return;
  }
  const coordinates = copy.coordinates ?? [], box = copy.box ?? [];
  if (!tensor || box.length === 0) {
    if (copy.bytes) visit(copy.tensor_offset ?? null, copy.shared_offset ?? 0, copy.bytes);
    return;
  }
  const shape = tensor.shape?.length ? [...tensor.shape].reverse() : [tensor.bytes / size];
  const lengths = [], strides = [];
  let stride = 1;
  for (let dimension = 0; dimension < box.length; ++dimension) {
    const last = dimension === box.length - 1;
    const length = last ? shape.slice(dimension).reduce((all, one) => all * one, 1) : shape[dimension] ?? 1;
    lengths.push(length);
    strides.push(stride);
    stride *= length;
  }
  const rows = box.slice(1).reduce((all, one) => all * one, 1);
  const rowBytes = box[0] * size;
  const index = new Array(box.length).fill(0);
  for (let row = 0; row < rows; ++row) {
    let rest = row, inside = true, global = 0;
    for (let dimension = 1; dimension < box.length; ++dimension) {
      index[dimension] = rest % box[dimension];
      rest = Math.floor(rest / box[dimension]);
      const at = (coordinates[dimension] ?? 0) + index[dimension];
      if (at < 0 || at >= lengths[dimension]) inside = false;
      global += at * strides[dimension];
    }
    for (let byte = 0; byte < rowBytes; byte += 16) {
      const column = (coordinates[0] ?? 0) + byte / size;
      const length = Math.min(16, rowBytes - byte);
      const plain = begin + (copy.shared_offset ?? 0) + row * rowBytes + byte;
      const exists = inside && column >= 0 && column < lengths[0];
      visit(exists ? (global + column) * size : null, inShared(plain), length);
    }
  }
}
