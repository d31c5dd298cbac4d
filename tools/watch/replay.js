// What memory holds at the cursor, by replaying the events up to it. Checkpoints make every jump short.

const REPLAY_EVENTS = 4096;  // the most events that are replayed after a jump
const HALF = 2;  // shared memory is tracked in units of two bytes: the smallest element of these kernels
const MOST_CELLS = 1 << 16;  // of all tensors of a section together

class Replay {
  constructor(recording, section) {
    this.recording = recording;
    this.section = section;
    this.layOut();
    this.position = 0;
    this.checkpoints = [this.copyState()];
    while (this.position < section.order.length) {
      this.advance(Math.min(section.order.length, this.position + REPLAY_EVENTS));
      this.checkpoints.push(this.copyState());
    }
  }

  // Finds what the section touches: the size of shared memory, and the part of each tensor.
  layOut() {
    const { header, columns } = this.recording;
    const { kind, array, offset } = columns;
    let sharedBytes = 0;
    header.arrays.forEach((entry) => {
      if (isShared(entry) && (entry.section ?? this.section.number) === this.section.number) {
        sharedBytes = Math.max(sharedBytes, (entry.begin ?? 0) + (entry.bytes ?? 0));
      }
    });
    const low = new Map(), high = new Map();
    const touch = (tensor, from, to) => {
      low.set(tensor, Math.min(low.get(tensor) ?? Infinity, from));
      high.set(tensor, Math.max(high.get(tensor) ?? 0, to));
    };
    const reach = header.patterns.map((pattern) => {
      const offsets = pattern.offsets ?? [0];
      return [Math.min(0, ...offsets), Math.max(0, ...offsets) + (pattern.size ?? 4)];
    });
    for (const event of this.section.order) {
      if (kind[event] === KIND.access && isAccess(this.recording, event)) {
        const entry = header.arrays[array[event]], [least, most] = reach[columns.pattern[event]];
        if (isShared(entry)) sharedBytes = Math.max(sharedBytes, (entry.begin ?? 0) + offset[event] + most);
        else touch(array[event], Math.max(0, offset[event] + least), offset[event] + most);
      } else if (kind[event] === KIND.copyBegins) {
        const copy = header.copies[array[event]];
        if (!copy) continue;
        eachRunOfBox(this.recording, copy, (global, shared, bytes) => {
          if (global !== null) touch(copy.tensor, global, global + bytes);
          sharedBytes = Math.max(sharedBytes, (header.arrays[copy.shared]?.begin ?? 0) + shared + bytes);
        });
      }
    }
    sharedBytes = Math.min(sharedBytes, 1 << 18);
    this.writer = new Int32Array(Math.ceil(sharedBytes / HALF)).fill(-1);
    this.sharedBytes = sharedBytes;
    const whole = [...low.keys()].reduce((all, tensor) => all + high.get(tensor) - low.get(tensor), 0);
    this.tensors = new Map();
    let cells = 0;
    for (const tensor of [...low.keys()].sort((one, other) => one - other)) {
      let unit = elementBytes(header.arrays[tensor]);
      while (whole / unit > MOST_CELLS && unit < 1024) unit *= 2;
      const first = Math.floor(low.get(tensor) / unit);
      const count = Math.ceil(high.get(tensor) / unit) - first;
      this.tensors.set(tensor, { unit, first, count, base: cells });
      cells += count;
    }
    this.reads = new Uint16Array(cells);
    this.writes = new Uint16Array(cells);
    this.lastWarp = new Uint8Array(cells).fill(255);
  }

  copyState() {
    return {
      writer: this.writer.slice(), reads: this.reads.slice(), writes: this.writes.slice(),
      lastWarp: this.lastWarp.slice(),
    };
  }

  // The state after all events up to and including this step.
  go(time) {
    const to = this.section.endOfStep[Math.min(this.section.steps, time + 1)];
    const near = Math.floor(to / REPLAY_EVENTS);
    if (to < this.position || near * REPLAY_EVENTS > this.position) {
      const kept = this.checkpoints[near];
      for (const name of ["writer", "reads", "writes", "lastWarp"]) this[name].set(kept[name]);
      this.position = near * REPLAY_EVENTS;
    }
    this.advance(to);
  }

  advance(to) {
    const { header, columns } = this.recording;
    const { kind, flags, array, pattern, lanes, offset, warp } = columns;
    const { order } = this.section;
    for (; this.position < to; ++this.position) {
      const event = order[this.position];
      if (kind[event] === KIND.access) {
        const entry = header.arrays[array[event]], shape = header.patterns[pattern[event]];
        if (!entry || !shape) continue;
        const writes = flags[event] === ACCESS.write || flags[event] === ACCESS.async || flags[event] === ACCESS.atomic;
        if (isShared(entry)) {
          if (!writes || (entry.section ?? this.section.number) !== this.section.number) continue;
          const begin = (entry.begin ?? 0) + offset[event];
          for (let lane = 0; lane < 32; ++lane) {
            if (!(lanes[event] >>> lane & 1)) continue;
            const from = begin + shape.offsets[lane];
            for (let at = from >> 1; at < from + shape.size >> 1 || at === from >> 1; ++at) this.writer[at] = event;
          }
        } else {
          const counts = writes ? this.writes : this.reads;
          const { unit, first, base } = this.tensors.get(array[event]);
          for (let lane = 0; lane < 32; ++lane) {
            if (!(lanes[event] >>> lane & 1)) continue;
            const from = offset[event] + shape.offsets[lane];
            const last = Math.floor((from + shape.size - 1) / unit);
            for (let cell = Math.floor(from / unit); cell <= last; ++cell) {
              const place = base + cell - first;
              if (counts[place] < 65535) ++counts[place];
              this.lastWarp[place] = warp[event];
            }
          }
        }
      } else if (kind[event] === KIND.copyBegins || kind[event] === KIND.copyLands) {
        this.copyBox(event);
      }
    }
  }

  // A box reads its tensor when the copy begins, and is in shared memory when it has landed; a store is the reverse.
  copyBox(event) {
    const { header, columns } = this.recording;
    const copy = header.copies[columns.array[event]];
    if (!copy) return;
    const begins = columns.kind[event] === KIND.copyBegins;
    const loads = (copy.kind ?? "load") === "load";
    const counts = loads ? this.reads : this.writes;
    const begin = header.arrays[copy.shared]?.begin ?? 0;
    const tensor = this.tensors.get(copy.tensor);
    eachRunOfBox(this.recording, copy, (global, shared, bytes) => {
      if (begins && tensor && global !== null) {
        const last = Math.floor((global + bytes - 1) / tensor.unit);
        for (let cell = Math.floor(global / tensor.unit); cell <= last; ++cell) {
          const place = tensor.base + cell - tensor.first;
          if (counts[place] < 65535) ++counts[place];
          this.lastWarp[place] = columns.warp[event];
        }
      } else if (!begins && loads) {
        this.writer.fill(event, begin + shared >> 1, begin + shared + bytes >> 1);
      }
    });
  }

  // What two bytes of shared memory hold: {event: who wrote it, tensor, offset: where it comes from, if that is known}.
  holds(address) {
    const event = this.writer[address >> 1] ?? -1;
    return event < 0 ? null : this.origin(event, address, 0);
  }

  origin(event, address, depth) {
    const { recording } = this;
    const { header, columns } = recording;
    if (columns.kind[event] === KIND.copyLands) {
      const copy = header.copies[columns.array[event]];
      const begin = header.arrays[copy.shared]?.begin ?? 0;
      let from = null;
      eachRunOfBox(recording, copy, (global, shared, bytes) => {
        const inside = address - begin - shared;
        if (inside >= 0 && inside < bytes && global !== null) from = global + inside;
      });
      return from === null ? { event, zero: true } : { event, tensor: copy.tensor, offset: from };
    }
    const link = columns.link[event];
    if (link === NONE || !isAccess(recording, link) || depth > 4) return { event };
    const begin = arrayOf(recording, event).begin ?? 0;
    const { size } = patternOf(recording, event);
    const lane = laneOffsets(recording, event).findIndex(
      (offset) => offset !== null && address >= begin + offset && address < begin + offset + size);
    const from = lane < 0 ? null : laneOffsets(recording, link)[lane];
    if (from === null) return { event, zero: columns.flags[event] === ACCESS.async };
    const inside = address - begin - laneOffsets(recording, event)[lane] + columns.part[event];
    return { event, tensor: columns.array[link], offset: from + inside };
  }
}
