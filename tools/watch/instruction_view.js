// One instruction of a warp: its lanes, their addresses, and the sectors that they use.

function instructionView(recording, cursor, analyses) {
  const title = byId("instruction-title"), picture = byId("instruction-picture"), others = byId("instruction-others");
  const lanesHolder = byId("lanes"), laneText = byId("lane-text");
  const { columns, header } = recording;
  let kept = "";

  // The table is filled when it is open.
  const table = byId("addresses");
  table.addEventListener("toggle", () => showAddresses(cursor.at.event));

  const laneButtons = Array.from({ length: 32 }, (_, lane) => {
    const made = element("button", { type: "button", "aria-pressed": "false", tabindex: lane ? -1 : 0 }, String(lane));
    made.addEventListener("click", () => cursor.go({ lane: cursor.at.lane === lane ? -1 : lane, event: cursor.at.event }));
    made.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
      if (!step) return;
      event.stopPropagation();
      event.preventDefault();
      const next = lane + step & 31;
      laneButtons[next].focus();
      cursor.go({ lane: next, event: cursor.at.event });
    });
    return made;
  });
  lanesHolder.append(...laneButtons);

  function show(at) {
    const { event, warp, time, lane } = at;
    const described = event >= 0 ? doing(recording, event) : "has not begun";
    const cost = event >= 0 ? costText(recording, event) : "";
    const began = event >= 0 ? columns.time[event] : time;
    title.replaceChildren(element("b", {}, `Warp ${warp} `), described,
      began < time ? element("span", { class: "muted" }, ` (at step ${began}; it does nothing since)`) : "",
      element("br"), cost ? element("span", { class: costly(event) ? "bad" : "good" }, withTerms(cost)) : reason(event));
    const together = event >= 0 ? eventsAt(recording, cursor.section, warp, time) : [];
    others.hidden = together.length < 2;
    if (together.length > 1) {
      others.replaceChildren("In the same step: ", ...together.map((other) => element("button", {
        type: "button", "aria-pressed": String(other === event), onclick: () => cursor.go({ event: other, time }),
      }, eventName(other))));
    }
    showLanes(event, lane);
    showAddresses(event);
    // All products of a shape have the same picture.
    const key = event >= 0 && columns.kind[event] === KIND.op ? `${columns.flags[event]} ${columns.array[event]} ${lane}`
      : `event ${event} ${lane}`;
    if (key !== kept) picture.replaceChildren(...pictureOf(event, lane));
    kept = key;
  }

  // Why a wait ends, or how long a group of copies is in flight.
  function reason(event) {
    const { waitOf, spanOf } = analyses(cursor.section);
    const wait = waitOf.get(event), span = spanOf.get(event);
    const to = (other) => element("a", { href: addressOf({ s: cursor.at.section, t: columns.time[other], w: columns.warp[other], e: other }) },
      `warp ${columns.warp[other]}, step ${columns.time[other]}`);
    const made = element("span");
    if (wait) {
      made.append(wait.unfinished ? "It never goes on." : `It goes on at step ${wait.end}, ${counted(wait.length, "step")} later`);
      const { lastArrival } = wait;
      if (!wait.unfinished && lastArrival >= 0 && columns.warp[lastArrival] !== wait.warp) {
        made.append(columns.kind[lastArrival] === KIND.copyLands ? ", when a copy has landed that was started by " : ": the last to arrive was ", to(lastArrival));
      }
      if (!wait.unfinished) made.append(".");
    } else if (span && span.kind === "copies") {
      made.append(span.empty ? "The group is empty."
        : span.finished ? `${counted(span.work, "instruction")} of the warp between this and the wait for ${columns.offset[event] === NONE ? "the group" : `group ${number(columns.offset[event])}`} (step ${number(span.waitBegin)}): ` +
          `${span.exposed ? "nothing hides the copy." : `${counted(span.productsDuring, "product")} among them.`}` : "No wait for this group was recorded.");
      if (span.exposed) made.className = "bad";
    } else if (span && span.kind === "box" && span.finished) {
      made.append(span.loads ? `The first warp that needs it goes on at step ${span.end}. ${counted(span.work, "product")} of the block begin in between.` : `It is complete at step ${span.end}.`);
    }
    return made;
  }

  const eventName = (event) => {
    const names = ["", "access", "instruction", "wait begins", "wait ends", "arrive", "commit", "copy", "copy landed", "product",
      "product done", "group landed", "defect", "end"];
    const array = isAccess(recording, event) ? arrayOf(recording, event).name : "";
    return array ? `${isWrite(columns.flags[event]) ? "write" : "read"} ${array}` : names[columns.kind[event]] ?? "event";
  };
  const costly = (event) => {
    if (!isAccess(recording, event)) return false;
    const { taken, ideal } = costOf(arrayOf(recording, event), patternOf(recording, event));
    return taken > ideal;
  };

  function showLanes(event, chosen) {
    const access = event >= 0 && isAccess(recording, event);
    const multiplies = event >= 0 && (columns.kind[event] === KIND.productBegins || columns.kind[event] === KIND.productEnds ||
      (columns.kind[event] === KIND.op && columns.flags[event] === OP_MMA));
    lanesHolder.hidden = !access && !multiplies;
    const offsets = access ? laneOffsets(recording, event) : null;
    const wavefronts = access && isShared(arrayOf(recording, event)) ? wavefrontsOf(recording, event).words : [];
    const passOf = new Map(wavefronts.map((word) => [word.lane, word.wavefront]));
    laneButtons.forEach((button, lane) => {
      const active = event >= 0 && Boolean(columns.lanes[event] >>> lane & 1);
      button.classList.toggle("off", !active);
      button.setAttribute("aria-pressed", String(lane === chosen));
      const colour = active ? passOf.has(lane) ? seriesColour(passOf.get(lane)) : access ? seriesColour(lane >> 2) : "" : "";
      button.style.background = colour;
      button.style.color = colour ? inkOn(colour) : "";
      button.title = !active ? `lane ${lane} takes no part`
        : offsets ? `lane ${lane}: ${elementName(arrayOf(recording, event), offsets[lane])}` : `lane ${lane}`;
    });
    if (!access) {
      laneText.textContent = "";
      return;
    }
    const array = arrayOf(recording, event), { size } = patternOf(recording, event);
    const name = (lane) => `lane ${lane}: ${elementName(array, offsets[lane])}, byte ${offsets[lane]} of ${array.name}`;
    const active = offsets.map((offset, lane) => offset === null ? -1 : lane).filter((lane) => lane >= 0);
    const [first, second] = active;
    const stride = active.length > 1 ? offsets[second] - offsets[first] : 0;
    const regular = active.every((lane, index) => offsets[lane] === offsets[first] + index * stride);
    const space = stride === 0 ? "all lanes share one address" : stride === size ? "neighbouring lanes, neighbouring addresses"
      : `neighbouring lanes are ${bytesText(Math.abs(stride))} apart`;
    laneText.textContent = chosen >= 0
      ? offsets[chosen] === null ? `Lane ${chosen} takes no part.` : `${name(chosen)}.`
      : `${name(first)}${active.length > 1 ? `; ${name(active[active.length - 1])}` : ""}` +
        `${active.length > 1 && regular ? `: ${space}` : ""}.`;
  }

  function showAddresses(event) {
    const access = event >= 0 && isAccess(recording, event);
    table.hidden = !access;
    if (!access || !table.open) return;
    const array = arrayOf(recording, event), shared = isShared(array);
    const words = shared ? wavefrontsOf(recording, event).words : [];
    const rows = laneOffsets(recording, event).map((offset, lane) => {
      if (offset === null) return element("tr", {}, element("td", {}, lane), element("td", { colspan: 3 }, "takes no part"));
      const own = words.filter((word) => word.lane === lane);
      const list = (values) => [...new Set(values)].join(", ");
      return element("tr", {}, element("td", {}, lane), element("td", {}, elementName(array, offset)), element("td", {}, offset),
        element("td", {}, shared ? `${list(own.map(({ bank }) => bank))} in ${list(own.map(({ wavefront }) => wavefront + 1))}` : Math.floor(offset / SECTOR)));
    });
    table.querySelector("div").replaceChildren(element("table", { class: "plain" },
      element("thead", {}, element("tr", {}, ...["lane", "element", `byte of ${array.name}`, shared ? "banks, in wavefront" : "sector"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows)));
  }

  function pictureOf(event, lane) {
    if (event < 0) return [];
    const { kind, flags, array } = columns;
    if (isAccess(recording, event)) {
      if (isLdmatrix(flags[event])) return ldmatrixPicture(recording, event, lane);
      if (!isShared(arrayOf(recording, event))) return sectorPicture(event, lane);
      return [];
    }
    if (kind[event] === KIND.op && flags[event] === OP_MMA) return mmaPicture(header.products[array[event]], lane);
    if (kind[event] === KIND.productBegins || kind[event] === KIND.productEnds) {
      return wgmmaPicture(recording, header.products[array[event]], columns.warp[event], lane);
    }
    if (kind[event] === KIND.copyBegins || kind[event] === KIND.copyLands) {
      return [element("p", { class: "muted" }, "The box is outlined in the views Shared memory and Tensors.")];
    }
    return [];
  }

  // Each sector as a bar of 32 bytes: coloured where a lane uses it, hatched where the bytes travel for nothing.
  function sectorPicture(event, chosen) {
    const sectors = sectorsOf(recording, event);
    const array = arrayOf(recording, event);
    const used = sectors.reduce((all, sector) => all + sector.owner.filter((lane) => lane >= 0).length, 0);
    const perRow = sectors.length > 16 ? 4 : sectors.length > 4 ? 2 : 1;
    const wide = 640 / perRow, bar = wide - 12, tall = 15;
    const rows = Math.ceil(sectors.length / perRow);
    const words = `${counted(sectors.length, "sector")} of ${array.name}: ${number(used)} of ` +
      `${number(sectors.length * SECTOR)} bytes used, ${number(sectors.length * SECTOR - used)} wasted.`;
    const picture = drawn("svg", { role: "img", "aria-label": words, viewBox: `0 0 640 ${rows * (tall + 5)}`, class: "sectors" },
      drawn("defs", {}, drawn("pattern", { id: "wasted", width: 5, height: 5, patternUnits: "userSpaceOnUse" },
        drawn("path", { d: "M-1 1 L1 -1 M0 5 L5 0 M4 6 L6 4", class: "wasted-line" }))));
    sectors.forEach((sector, index) => {
      const left = index % perRow * wide, top = Math.floor(index / perRow) * (tall + 5);
      picture.append(drawn("rect", { x: left, y: top, width: bar, height: tall, class: "sector", fill: "url(#wasted)" }));
      for (let byte = 0; byte < SECTOR;) {
        const lane = sector.owner[byte];
        let end = byte + 1;
        while (end < SECTOR && sector.owner[end] === lane) ++end;
        if (lane >= 0) {
          const colour = seriesColour(lane >> 2);
          const x = left + byte * bar / SECTOR, width = (end - byte) * bar / SECTOR - 0.6;
          const cell = drawn("g", {}, drawn("title", {}, `lane ${lane}: ${elementName(array, sector.number * SECTOR + byte)}`),
            drawn("rect", { x, y: top, width, height: tall, fill: colour, class: lane === chosen ? "chosen" : null }));
          if (width > 11) {
            cell.append(drawn("text", { x: x + width / 2, y: top + 11, style: `fill:${inkOn(colour)}` }, lane));
          }
          picture.append(cell);
        }
        byte = end;
      }
    });
    return [element("p", {}, element("b", {}, words.slice(0, -1)), " ",
      element("span", { class: "muted" }, "(one bar: a sector of 32 bytes; numbers: lanes; hatched: fetched, not used)")), picture];
  }

  cursor.listen(show);
}
