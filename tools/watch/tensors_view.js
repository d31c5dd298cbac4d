// Tensors as matrices: how often, and by which warp, each element has been read or written so far.

const tensorsOf = (recording) => recording.header.arrays.map((array, index) => isShared(array) ? -1 : index).filter((index) => index >= 0);
const tensorColour = (recording, tensor) => seriesColour(Math.max(0, tensorsOf(recording).indexOf(tensor)));

// A colour of the form #rrggbb as ImageData stores it on a little-endian machine.
const pixel = (colour) => (0xff000000 | parseInt(colour.slice(5, 7) + colour.slice(3, 5) + colour.slice(1, 3), 16)) >>> 0;

function tensorsView(recording, cursor, replayOf) {
  const holder = byId("tensors-holder"), chooser = byId("tensor-colours"), text = byId("tensors-text");
  const { columns, header } = recording;
  const shown = new Map();
  const small = document.createElement("canvas");
  let mode = "count";

  function build() {
    const replay = replayOf(cursor.section);
    shown.clear();
    holder.replaceChildren(...[...replay.tensors.keys()].map((tensor) => {
      const array = header.arrays[tensor];
      const canvas = element("canvas", { role: "img", "aria-label": array.name });
      const caption = element("figcaption");
      const figure = element("figure", {}, caption, element("div", { class: "scroll" }, canvas));
      const entry = { array, canvas, caption, ...layoutOf(array, replay.tensors.get(tensor)) };
      shown.set(tensor, entry);
      canvas.addEventListener("click", (pointer) => clicked(tensor, entry, pointer));
      return figure;
    }));
    byId("tensors").hidden = replay.tensors.size === 0;
  }

  // Rows as the last dimension says; without a shape, 32 elements each. Only the rows that the block touches.
  function layoutOf(array, { unit, first, count }) {
    const bytes = elementBytes(array);
    const columnsOf = array.shape?.length > 1 || array.shape?.[0] <= 128 ? array.shape[array.shape.length - 1] : 64;
    const rowBytes = columnsOf * bytes;
    const perRow = Math.max(1, Math.floor(rowBytes / unit));
    const firstRow = Math.floor(first * unit / rowBytes);
    const rows = Math.ceil((first + count) * unit / rowBytes) - firstRow;
    return { rowBytes, perRow, firstRow, rows, columns: columnsOf, unit, exact: rowBytes % unit === 0 };
  }

  function show() {
    const replay = replayOf(cursor.section);
    replay.go(cursor.at.time);
    const now = currentRanges(replay);
    for (const [tensor, entry] of shown) draw(replay, tensor, entry, now.get(tensor) ?? []);
    const parts = [...shown].map(([tensor, entry]) => {
      const { base, count } = replay.tensors.get(tensor);
      let read = 0, written = 0;
      for (let cell = base; cell < base + count; ++cell) {
        if (replay.reads[cell]) ++read;
        if (replay.writes[cell]) ++written;
      }
      const done = [read ? `${percent(read, count)} read` : "", written ? `${percent(written, count)} written` : ""];
      return `${entry.array.name}: ${done.filter(Boolean).join(", ") || "not touched yet"}`;
    });
    text.textContent = `So far, of what this block touches: ${parts.join("; ")}. Outlined: what the instruction at the cursor uses.`;
  }

  // The bytes of each tensor that the instruction at the cursor uses, in global memory or by their copy in shared memory:
  // [begin, end) pairs.
  function currentRanges(replay) {
    const found = new Map();
    const add = (tensor, begin, end) => {
      if (!found.has(tensor)) found.set(tensor, []);
      found.get(tensor).push([begin, end]);
    };
    for (const event of eventsAt(recording, cursor.section, cursor.at.warp, cursor.at.time)) {
      if (isAccess(recording, event) && !isShared(arrayOf(recording, event))) {
        const { size } = patternOf(recording, event);
        for (const offset of laneOffsets(recording, event)) {
          if (offset !== null) add(columns.array[event], offset, offset + size);
        }
      } else if (isAccess(recording, event) && isShared(arrayOf(recording, event))) {
        const { size } = patternOf(recording, event), begin = arrayOf(recording, event).begin ?? 0;
        for (const offset of laneOffsets(recording, event)) {
          if (offset === null) continue;
          for (let byte = 0; byte < size; byte += WORD) {
            const held = replay.holds(begin + offset + byte);
            if (held?.tensor !== undefined) add(held.tensor, held.offset, held.offset + Math.min(WORD, size));
          }
        }
      } else if (columns.kind[event] === KIND.copyBegins || columns.kind[event] === KIND.copyLands) {
        const copy = header.copies[columns.array[event]];
        if (!copy) continue;
        eachRunOfBox(recording, copy, (global, _, bytes) => {
          if (global !== null) add(copy.tensor, global, global + bytes);
        });
      }
    }
    return found;
  }

  function draw(replay, tensor, entry, ranges) {
    const { base, first, count, unit } = replay.tensors.get(tensor);
    const { perRow, firstRow, rows, rowBytes } = entry;
    const wide = clamp(Math.floor(224 / perRow), 1, 10);
    const step = Math.max(1, Math.ceil(rows / 256));  // rows in a line of pixels
    const tall = clamp(Math.floor(192 / rows), 1, Math.max(wide, rows < 4 ? 14 : 1));
    const width = Math.max(perRow * wide, 24), height = Math.max(Math.ceil(rows / step) * tall, 8);
    const context = prepare(entry.canvas, width, height);
    Object.assign(entry, { wide, tall, step });
    context.fillStyle = palette.idle;
    context.fillRect(0, 0, perRow * wide, height);
    let most = 1;
    for (let cell = base; cell < base + count; ++cell) most = Math.max(most, replay.reads[cell], replay.writes[cell]);
    const shades = new Uint32Array(256);
    for (let level = 0; level < 16; ++level) {
      const share = 0.35 + 0.65 * level / 15;
      shades[2 * level] = pixel(mix(palette.card, palette.read, share));
      shades[2 * level + 1] = pixel(mix(palette.card, palette.write, share));
    }
    for (let index = 0; index < 8; ++index) shades[32 + index] = pixel(seriesColour(index));
    // One pixel for each cell, then enlarged.
    const lines = Math.ceil(rows / step);
    small.width = perRow;
    small.height = lines;
    const image = new ImageData(perRow, lines), pixels = new Uint32Array(image.data.buffer);
    for (let cell = 0; cell < count; ++cell) {
      const touches = replay.reads[base + cell] + replay.writes[base + cell];
      if (touches === 0) continue;
      const byte = (first + cell) * unit;
      const row = Math.floor(byte / rowBytes) - firstRow, column = Math.floor(byte % rowBytes / unit);
      const level = Math.round(15 * Math.min(1, touches / most));
      pixels[Math.floor(row / step) * perRow + column] = mode === "warp" ? shades[32 + replay.lastWarp[base + cell] % 8]
        : shades[2 * level + (replay.writes[base + cell] ? 1 : 0)];
    }
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, perRow * wide, lines * tall);
    context.strokeStyle = palette.cursor;
    context.fillStyle = palette.cursor;
    let top = Infinity, bottom = -1, left = Infinity, right = -1;
    const cells = new Set();
    for (const [begin, end] of ranges) {
      for (let byte = begin; byte < end; byte += unit) {
        const row = Math.floor((Math.floor(byte / rowBytes) - firstRow) / step), column = Math.floor(byte % rowBytes / unit);
        cells.add(row * 65536 + column);
        [top, bottom] = [Math.min(top, row), Math.max(bottom, row)];
        [left, right] = [Math.min(left, column), Math.max(right, column)];
      }
    }
    for (const cell of cells) context.fillRect(cell % 65536 * wide, Math.floor(cell / 65536) * tall, Math.max(wide, 2), Math.max(tall, 2));
    if (bottom >= 0) {
      context.lineWidth = 1.5;
      context.strokeRect(left * wide - 1, top * tall - 1, (right - left + 1) * wide + 2, (bottom - top + 1) * tall + 2);
    }
    const shape = entry.array.shape?.length ? entry.array.shape.join(" x ") : bytesText(entry.array.bytes ?? 0);
    const all = Math.ceil((entry.array.bytes ?? 0) / rowBytes);
    const part = rows < all ? `, rows ${firstRow} to ${firstRow + rows - 1} of ${all}` : "";
    entry.caption.replaceChildren(element("i", { style: `background:${tensorColour(recording, tensor)}`, "aria-hidden": "true" }),
      element("b", {}, entry.array.name), ` ${shape}${part}`);
    entry.canvas.setAttribute("aria-label", `${entry.array.name}, ${shape}${part}: ${cells.size
      ? `${counted(cells.size, "element")} in use, rows ${firstRow + top * step} to ${firstRow + bottom * step}` : "not in use by the instruction at the cursor"}`);
  }

  // Goes to the last event, at or before the cursor, that touched an element; else to the first one after it.
  function clicked(tensor, entry, pointer) {
    const box = entry.canvas.getBoundingClientRect();
    const column = Math.floor((pointer.clientX - box.left) / entry.wide);
    const row = Math.floor((pointer.clientY - box.top) / entry.tall) * entry.step + entry.firstRow;
    const byte = row * entry.rowBytes + column * entry.unit;
    const { section } = cursor;
    const touches = (event) => touchesByte(tensor, event, byte, entry.unit);
    const position = section.endOfStep[cursor.at.time + 1];
    for (let index = position - 1; index >= 0; --index) {
      if (touches(section.order[index]) && section.order[index] !== cursor.at.event) return cursor.go({ event: section.order[index] });
    }
    for (let index = position; index < section.order.length; ++index) {
      if (touches(section.order[index])) return cursor.go({ event: section.order[index] });
    }
    return undefined;
  }

  function touchesByte(tensor, event, byte, unit) {
    const { kind, array } = columns;
    if (kind[event] === KIND.access) {
      if (array[event] !== tensor) return false;
      const { size } = patternOf(recording, event);
      return laneOffsets(recording, event).some((offset) => offset !== null && offset < byte + unit && offset + size > byte);
    }
    if (kind[event] !== KIND.copyBegins || header.copies[array[event]]?.tensor !== tensor) return false;
    let found = false;
    eachRunOfBox(recording, header.copies[array[event]], (global, _, bytes) => {
      if (global !== null && global < byte + unit && global + bytes > byte) found = true;
    });
    return found;
  }

  chooser.addEventListener("change", () => {
    mode = chooser.value;
    show();
  });
  build();
  cursor.listen((at, before) => {
    if (at.section !== before.section) build();
    show();
  });
  return { draw: show };
}
