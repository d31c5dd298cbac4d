// Shared memory: the banks of the access at the cursor, and what every location holds.

function sharedView(recording, cursor, replayOf) {
  const detail = byId("banks"), map = byId("shared-map"), text = byId("shared-text"), place = byId("shared-place");
  const holder = byId("banks-holder"), legend = byId("shared-legend");
  const { columns, header } = recording;
  const LEFT = 76, ROW = 15, LOAD = 64;
  const state = { rows: [], cell: 12, address: -1 };

  const arraysHere = () => header.arrays.filter((entry) =>
    isShared(entry) && (entry.section ?? cursor.section.number) === cursor.section.number);
  const arrayAt = (address) => arraysHere().find((entry) =>
    address >= (entry.begin ?? 0) && address < (entry.begin ?? 0) + entry.bytes);

  // The colour of a location. All that an event wrote has the same one, so `known` remembers those of a drawing.
  function colourAt(replay, word, known) {
    const event = replay.writer[word * 2] ?? -1;
    if (event < 0) return palette.idle;
    if (!known.has(event)) known.set(event, colourOf(replay.holds(word * WORD)));
    return known.get(event);
  }

  function colourOf(held) {
    if (held.tensor !== undefined) return tensorColour(recording, held.tensor);
    return held.zero ? palette.grid : palette.other;
  }

  // The access that is shown: that of the event, or the last one of the warp.
  function accessAt() {
    const { event, warp, time } = cursor.at;
    if (event >= 0 && isAccess(recording, event) && isShared(arrayOf(recording, event))) return event;
    if (event >= 0) {
      const other = eventsAt(recording, cursor.section, warp, time).find((one) =>
        isAccess(recording, one) && isShared(arrayOf(recording, one)));
      if (other !== undefined) return other;
    }
    return -1;
  }

  // The rows of 128 bytes to draw: those of the access and their neighbours, at least eight.
  function rowsOf(words, total) {
    const touched = new Set(words.map(({ word }) => Math.floor(word / BANKS)));
    if (touched.size === 0) return [];
    const rows = new Set(touched);
    const sorted = [...touched].sort((one, other) => one - other);
    for (let distance = 1; rows.size < 8 && distance < 9; ++distance) {
      for (const row of [sorted[0] - distance, sorted[sorted.length - 1] + distance]) {
        if (row >= 0 && row < total && rows.size < 8) rows.add(row);
      }
    }
    return [...rows].sort((one, other) => one - other).slice(0, 64);
  }

  function show() {
    const replay = replayOf(cursor.section);
    byId("shared").classList.toggle("empty", replay.sharedBytes === 0);
    byId("shared-none").hidden = replay.sharedBytes > 0;
    if (replay.sharedBytes === 0) {
      text.textContent = "This kernel does not use shared memory.";
      return;
    }
    replay.go(cursor.at.time);
    const event = accessAt();
    const found = event >= 0 ? wavefrontsOf(recording, event) : { words: [], passes: 0, ideal: 0 };
    const total = Math.ceil(replay.sharedBytes / 128);
    const rows = event >= 0 ? rowsOf(found.words, total) : rowsWithoutAccess(total);
    drawBanks(replay, event, found, rows);
    drawMap(replay, found, rows);
    describe(event, found);
    showPlace(replay);
  }

  // What the copy engine moves, or the operands of a product: {name, begin, end} in bytes of shared memory.
  function regionsAt(event) {
    if (event < 0) return [];
    const kind = columns.kind[event];
    const at = (name, array, offset, bytes) => {
      const begin = (header.arrays[array]?.begin ?? 0) + (offset ?? 0);
      return { name, begin, end: begin + bytes };
    };
    if (kind === KIND.copyBegins || kind === KIND.copyLands) {
      const copy = header.copies[columns.array[event]];
      return copy ? [at("box", copy.shared, copy.shared_offset, copy.bytes ?? 0)] : [];
    }
    if (kind !== KIND.productBegins) return [];
    const product = header.products[columns.array[event]] ?? {};
    // Rows of 128 bytes: as many as the operand has rows, or k if its columns are contiguous.
    return [["A", product.a, product.m], ["B", product.b, product.n]]
      .filter(([, operand]) => operand && operand !== "registers" && product.m && product.n)
      .map(([name, operand, rows]) => at(name, operand.array, operand.offset, 128 * (operand.major === "mn" ? product.k : rows)));
  }

  function rowsWithoutAccess(total) {
    let first = 0;
    const [region] = regionsAt(cursor.at.event).slice(-1);
    if (region) {
      first = Math.floor(region.begin / 128);
    } else if (state.rows.length && state.rows[state.rows.length - 1] < total) {
      return state.rows;
    }
    return Array.from({ length: Math.min(12, total - first) }, (_, index) => first + index);
  }

  function drawBanks(replay, event, found, rows) {
    if (!state.width) state.width = Math.max(270, holder.clientWidth);
    const { width } = state;
    const cell = (width - LEFT - 4) / BANKS;
    Object.assign(state, { rows, cell });
    const showLoad = found.words.length > 0 || state.showLoad;  // keeps its space
    state.showLoad = showLoad;
    const top = 16;
    const height = top + rows.length * ROW + 6 + (showLoad ? LOAD + 18 : 0);
    const context = prepare(detail, width, height);
    state.top = top;
    context.fillStyle = palette.muted;
    context.fillText("bank", 4, 8);
    context.textAlign = "center";
    for (let bank = 0; bank < BANKS; bank += cell < 15 ? 4 : 1) context.fillText(String(bank), LEFT + (bank + 0.5) * cell, 8);
    const wanted = new Map(), known = new Map();
    for (const word of found.words) {
      if (!wanted.has(word.word)) wanted.set(word.word, { lanes: [], wavefront: word.wavefront });
      wanted.get(word.word).lanes.push(word.lane);
    }
    const writes = event >= 0 && isWrite(columns.flags[event]);
    context.textAlign = "left";
    rows.forEach((row, index) => {
      const y = top + index * ROW;
      context.fillStyle = palette.muted;
      const array = arrayAt(row * 128) ?? arrayAt(row * 128 + 124);
      const label = array ? `${array.name} +${row * 128 - (array.begin ?? 0)}` : `byte ${row * 128}`;
      context.fillText(label.length > 12 ? `+${row * 128 - (array?.begin ?? 0)}` : label, 4, y + ROW / 2);
      if (index && row !== rows[index - 1] + 1) {
        context.fillStyle = palette.ink;
        context.fillRect(0, y - 1, LEFT, 1);
      }
    });
    // What the other locations hold, paler than the access.
    const pale = (colour) => mix(palette.card, colour, found.words.length ? 0.3 : 0.8);
    const pales = new Map();
    rows.forEach((row, index) => {
      for (let bank = 0; bank < BANKS; ++bank) {
        const word = row * BANKS + bank;
        if (word * WORD >= replay.sharedBytes || wanted.has(word)) continue;
        const colour = colourAt(replay, word, known);
        if (!pales.has(colour)) pales.set(colour, pale(colour));
        context.fillStyle = pales.get(colour);
        context.fillRect(LEFT + bank * cell, top + index * ROW, cell - 1, ROW - 1);
      }
    });
    context.textAlign = "center";
    context.font = `${cell < 13 ? 8 : 10}px system-ui, sans-serif`;
    for (const [word, access] of wanted) {
      const index = rows.indexOf(Math.floor(word / BANKS));
      if (index < 0) continue;
      const x = LEFT + word % BANKS * cell, y = top + index * ROW;
      const colour = seriesColour(access.wavefront);
      context.fillStyle = colour;
      context.fillRect(x, y, cell - 1, ROW - 1);
      if (cell >= 9) {
        context.fillStyle = inkOn(colour);
        const shown = access.lanes.length > 3 ? `${access.lanes.length}x` : String(access.lanes[0]);
        context.fillText(shown, x + (cell - 1) / 2, y + ROW / 2);
      }
      if (access.lanes.includes(cursor.at.lane)) {
        context.strokeStyle = palette.cursor;
        context.lineWidth = 2.5;
        context.strokeRect(x + 0.5, y + 0.5, cell - 2, ROW - 2);
        context.lineWidth = 1;
      } else if (writes) {
        context.strokeStyle = palette.ink;
        context.strokeRect(x + 0.5, y + 0.5, cell - 2, ROW - 2);
      }
    }
    context.font = "11px system-ui, sans-serif";
    if (!found.words.length) return;
    // How many different words each bank has to deliver: the highest bar is the number of passes.
    const load = new Array(BANKS).fill(0);
    for (const word of wanted.keys()) ++load[word % BANKS];
    const most = Math.max(...load), base = top + rows.length * ROW + 14 + LOAD;
    context.textAlign = "left";
    context.fillStyle = palette.muted;
    context.fillText("words in", 4, base - LOAD / 2 - 6);
    context.fillText("each bank", 4, base - LOAD / 2 + 7);
    context.fillStyle = palette.grid;
    context.fillRect(LEFT, base, BANKS * cell, 1);
    const even = found.ideal, scale = LOAD / Math.max(most, 4);
    load.forEach((count, bank) => {
      if (!count) return;
      const x = LEFT + bank * cell;
      const tall = count * scale;
      context.fillStyle = palette.good;
      context.fillRect(x, base - Math.min(count, even) * scale, cell - 1, Math.min(count, even) * scale);
      if (count > even) {
        context.fillStyle = palette.bad;
        context.fillRect(x, base - tall, cell - 1, tall - even * scale);
      }
    });
    const highest = load.indexOf(most);
    if (most > even) {
      context.fillStyle = palette.ink;
      context.textAlign = highest < 16 ? "left" : "right";
      context.font = "bold 12px system-ui, sans-serif";
      context.fillText(`${most} words in bank ${highest}: ${found.passes} passes`,
        LEFT + (highest < 16 ? highest + 1.5 : highest - 0.5) * cell, base - most * scale + 9);
      context.font = "11px system-ui, sans-serif";
    }
  }

  // All of shared memory, one line of pixels or more for 128 bytes, coloured by what it holds.
  function drawMap(replay, found, rows) {
    const total = Math.ceil(replay.sharedBytes / 128);
    const tall = clamp(Math.floor(300 / total), 1, 8);
    const step = Math.max(1, Math.ceil(total / 460));  // rows in a line of pixels
    const lines = Math.ceil(total / step);
    const width = 132, column = 2;
    const context = prepare(map, width, lines * tall + 2);
    state.map = { tall, step };
    const touched = new Set(found.words.map(({ word }) => word));
    const known = new Map();
    for (let line = 0; line < lines; ++line) {
      for (let bank = 0; bank < BANKS; ++bank) {
        const word = line * step * BANKS + bank;
        context.fillStyle = touched.has(word) ? palette.cursor : colourAt(replay, word, known);
        context.fillRect(bank * column, line * tall, column, tall);
      }
    }
    context.fillStyle = palette.ink;
    context.strokeStyle = palette.ink;
    let free = 0;
    for (const array of arraysHere()) {
      const y = (array.begin ?? 0) / 128 / step * tall;
      context.fillRect(0, y, 66, 1);
      if (y + 6 < free || y > lines * tall - 10) continue;
      free = y + 17;
      context.fillText(array.name.length > 10 ? `${array.name.slice(0, 9)}…` : array.name, 70, y + 7);
    }
    const regions = regionsAt(cursor.at.event);
    for (const region of regions) {
      context.strokeStyle = context.fillStyle = palette.cursor;
      context.lineWidth = 2;
      const y = region.begin / 128 / step * tall;
      context.strokeRect(1, y + 1, BANKS * column + 2, Math.max(3, (region.end - region.begin) / 128 / step * tall - 2));
      context.font = "bold 11px system-ui, sans-serif";
      context.fillText(region.name, BANKS * column + 44, y + 8);
      context.font = "11px system-ui, sans-serif";
    }
    if (rows.length && !regions.length) {
      context.strokeStyle = palette.cursor;
      context.lineWidth = 1.5;
      const first = rows[0] / step * tall, last = (rows[rows.length - 1] + 1) / step * tall;
      context.strokeRect(1, Math.max(1, first - 1), BANKS * column + 2, Math.max(3, last - first + 1));
    }
  }

  function describe(event, found) {
    if (event < 0) {
      const regions = regionsAt(cursor.at.event);
      text.textContent = regions.length
        ? `The map on the right outlines ${regions.map((region) => region.name === "box" ? "the box that is copied" : `operand ${region.name}`).join(" and ")}.`
        : "The instruction at the cursor does not use shared memory. The colours show what each location holds.";
    } else {
      const pattern = patternOf(recording, event), array = arrayOf(recording, event);
      const taken = pattern.wavefronts ?? found.passes, ideal = pattern.ideal ?? found.ideal;
      const banks = new Set(found.words.map(({ bank }) => bank)).size;
      const lanes = new Set(found.words.map(({ lane }) => lane)).size;
      text.replaceChildren(element("b", {}, `${counted(lanes, "lane")}, ${counted(banks, "bank")}: ${counted(taken, "wavefront")}`),
        taken > ideal
          ? ` where ${number(ideal)} would do. Several lanes want different words of the same bank; a bank delivers one word per pass.`
          : `, the fewest possible for ${bytesText(pattern.bytes || pattern.size * lanes)}. No bank conflict.`,
        ` ${columns.flags[event] === ACCESS.write ? "Written" : columns.flags[event] === ACCESS.async ? "Copied" : "Read"}: ${array.name}.`);
    }
    detail.setAttribute("aria-label", `Banks of shared memory. ${text.textContent}`);
    map.setAttribute("aria-label", `Map of ${bytesText(replayOf(cursor.section).sharedBytes)} of shared memory: ` +
      arraysHere().map((array) => `${array.name} from byte ${array.begin ?? 0}, ${bytesText(array.bytes)}`).join("; "));
    const tensors = [...replayOf(cursor.section).tensors.keys()];
    const legendOfLanes = event < 0 ? ["A location holds: "] : ["Numbers: lanes of this access (4x: that many); lanes of one colour are served in one pass. Pale: what a location holds: "];
    legend.replaceChildren(...legendOfLanes, ...tensors.map((tensor) => swatch(tensorColour(recording, tensor), header.arrays[tensor].name)),
      swatch(palette.other, "computed"), swatch(palette.idle, "nothing yet"));
  }

  const swatch = (colour, name) => element("span", { class: "swatch" },
    element("i", { style: `background:${colour}`, "aria-hidden": "true" }), name);

  // What the location holds that was pointed at, or that of the chosen lane.
  function showPlace(replay) {
    let { address } = state;
    const event = accessAt();
    if (address < 0 && event >= 0) {
      const offsets = laneOffsets(recording, event);
      const lane = cursor.at.lane >= 0 && offsets[cursor.at.lane] !== null ? cursor.at.lane : offsets.findIndex((one) => one !== null);
      address = (arrayOf(recording, event).begin ?? 0) + offsets[lane];
    }
    place.textContent = address < 0 ? "" : placeText(replay, address);
  }

  function placeText(replay, address) {
    const array = arrayAt(address);
    const where = array ? `${array.name} + ${address - (array.begin ?? 0)} bytes` : `byte ${address}`;
    const held = replay.holds(address);
    const bank = Math.floor(address / WORD) % BANKS;
    if (!held) return `${where} (bank ${bank}) holds nothing yet: no recorded event has written it.`;
    const frames = framesOf(recording, columns.site[held.event]);
    const line = frames.length ? ` (${frames[frames.length - 1].name}:${frames[frames.length - 1].line})` : "";
    const source = held.tensor !== undefined ? elementName(header.arrays[held.tensor], held.offset)
      : held.zero ? "zero: outside the tensor" : "a computed value";
    return `${where} (bank ${bank}) holds ${source}, written by warp ${columns.warp[held.event]} at step ` +
      `${columns.time[held.event]}${line}.`;
  }

  function addressUnder(pointer) {
    const box = detail.getBoundingClientRect();
    const bank = Math.floor((pointer.clientX - box.left - LEFT) / state.cell);
    const row = state.rows[Math.floor((pointer.clientY - box.top - state.top) / ROW)];
    return bank < 0 || bank >= BANKS || row === undefined ? -1 : row * 128 + bank * WORD;
  }
  detail.addEventListener("pointermove", (pointer) => {
    const address = addressUnder(pointer);
    if (address === state.address) return;
    state.address = address;
    showPlace(replayOf(cursor.section));
  });
  detail.addEventListener("pointerleave", () => {
    state.address = -1;
    showPlace(replayOf(cursor.section));
  });
  // Clicking a lane's word chooses the lane; clicking another location goes to the event that wrote it.
  detail.addEventListener("click", (pointer) => {
    const address = addressUnder(pointer);
    if (address < 0) return;
    const event = accessAt();
    const word = event < 0 ? undefined : wavefrontsOf(recording, event).words.find((one) => one.word === address / WORD);
    if (word) {
      cursor.go({ lane: word.lane, event: cursor.at.event });
      return;
    }
    const held = replayOf(cursor.section).holds(address);
    if (held) cursor.go({ event: held.event });
  });
  // The holder gets its width after the first drawing, and another one whenever its neighbours change.
  new ResizeObserver(() => {
    if (Math.max(270, holder.clientWidth) === state.width) return;
    state.width = 0;
    show();
  }).observe(holder);
  cursor.listen(show);
  return {
    draw: () => {
      state.width = 0;
      show();
    },
  };
}
