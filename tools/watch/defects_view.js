// Defects: both accesses, side by side, and what is missing between them. Reports about the same lines share a card.

function defectsView(recording, cursor, analyses) {
  const holder = byId("defects-holder"), section = byId("defects");
  const { columns } = recording;

  const sectionOf = (event) => Math.max(0, recording.sections.findIndex(({ begin, end }) => event >= begin && event < end));
  const linkTo = (event, text) => element("a", {
    href: addressOf({ s: sectionOf(event), t: columns.time[event], w: columns.warp[event], e: event, v: "instruction" }),
  }, text);

  function build() {
    const { groups } = analyses(cursor.section);
    section.hidden = groups.length === 0;
    holder.replaceChildren(...groups.map(card));
  }

  function card(group) {
    const { head, defects, race } = group;
    const accesses = [];
    if (race) accesses.push(side("First", group.first, group.firstSite, group.touched, 0), missingBetween(group));
    accesses.push(side(race ? "Then" : "Here", group.second, group.secondSite, group.touched, 1));
    return element("article", { class: "defect", id: `defect-${head.number}` },
      element("h3", {}, defectTitle(head)),
      element("p", {}, defectText(recording, group)),
      element("div", { class: "accesses" }, ...accesses),
      race ? element("details", {}, element("summary", {}, "The simulator's message"), element("p", { class: "message" }, shortMessage(head.message))) : null,
      defects.length > 1 ? others(defects.slice(1)) : null);
  }

  function others(defects) {
    return element("details", { class: "others" }, element("summary", {}, `${number(defects.length)} more at other addresses`),
      element("ul", {}, ...defects.map((defect) => {
        const { at } = defect;
        const array = knownEvent(at) ? arrayOf(recording, at) : null;
        const lane = Number.isInteger(defect.thread) ? defect.thread % 32 : 0;
        const offset = array && isAccess(recording, at) ? laneOffsets(recording, at)[lane] ?? columns.offset[at] : 0;
        const frames = framesOf(recording, defect.shown.secondSite);
        const place = frames.length ? `${frames[0].name}:${frames[0].line}` : "";
        return element("li", { id: `defect-${defect.number}` }, array ? `${elementName(array, offset)}, ` : "", place,
          knownEvent(at) ? [": ", linkTo(at, `step ${number(columns.time[at])}`)] : "",
          element("details", {}, element("summary", {}, "message"), element("p", { class: "message" }, shortMessage(defect.message))));
      })));
  }

  // One of the two accesses: its line, warp, lanes and location. @param own  0 for the first, 1 for the second
  function side(name, event, site, touched, own) {
    const has = knownEvent(event);
    const frames = framesOf(recording, has ? columns.site[event] : site);
    const lines = [...frames].reverse().map((frame) => element("li", {},
      element("b", {}, `${frame.name}:${frame.line}`), " ", element("code", {}, coloured(frame.text.trim()))));
    const parts = [element("h4", {}, `${name}: `, has ? `warp ${columns.warp[event]} ${doing(recording, event)}` : "an access that was not recorded"),
      element("ol", { class: "path" }, ...lines)];
    if (has) {
      if (isAccess(recording, event)) {
        const offsets = laneOffsets(recording, event);
        const active = offsets.flatMap((offset, lane) => offset === null ? [] : [lane]);
        const array = arrayOf(recording, event);
        const places = [...new Set(active.map((lane) => elementName(array, offsets[lane])))];
        parts.push(element("p", {}, `Warp ${columns.warp[event]}, ${active.length === 1 ? `lane ${active[0]}` : `lanes ${active[0]} to ${active[active.length - 1]}`}: ` +
          `${places.length > 4 ? `${places[0]} to ${places[places.length - 1]}` : places.join(", ")}`));
        if (touched) {
          parts.push(element("p", { class: "touched" }, element("b", {}, `Lane ${touched.lanes[own]}`),
            ` touches ${elementName(array, touched.begin)}, as the other does: ` +
            `byte${touched.end - touched.begin > 1 ? `s ${touched.begin} to ${touched.end - 1}` : ` ${touched.begin}`} of ${array.name}.`));
        }
      }
      parts.push(element("p", {}, linkTo(event, `Go to step ${number(columns.time[event])}`)));
    }
    return element("div", { class: "access" }, ...parts);
  }

  // The barrier that would order the two accesses: as the simulator says, or as their places imply.
  function missingBetween(group) {
    const { missing, warps, ordered, before } = group;
    const array = knownEvent(group.second) ? arrayOf(recording, group.second) : null;
    const words = [element("b", {}, missing ? `no ${missing}` : "nothing"),
      missing ? " between the two: nothing orders them, so either may happen first on a GPU."
        : " orders the two: either may happen first on a GPU."];
    if (warps.length === 2 && array && missing === "__syncthreads()") {
      words.push(` Warps ${warps.join(" and ")} both use ${array.name}: it takes __syncthreads(); __syncwarp() orders the lanes of one warp only.`);
    }
    if (ordered && before) {
      const name = recording.files[before[0]].name.split("/").pop();
      const inside = functionOf(recording, recording.header.sites[group.secondSite], before);
      words.push(` Nothing synchronises them before ${name}:${before[1]}${inside ? `, in ${inside}` : ""}.`);
    }
    return element("div", { class: "missing" }, element("span", { "aria-hidden": "true" }, "⚡"), element("p", {}, ...words));
  }

  function show(at) {
    const own = analyses(cursor.section).groups.find(({ defects }) => defects.some((defect) => defect.number === at.defect));
    for (const made of holder.children) {
      const chosen = Boolean(own) && made.id === `defect-${own.head.number}`;
      made.classList.toggle("chosen", chosen);
      if (chosen && own.head.number !== at.defect) made.querySelector(".others").open = true;
    }
    for (const made of holder.querySelectorAll(".others li")) made.classList.toggle("chosen", made.id === `defect-${at.defect}`);
  }
  build();
  cursor.listen((at, before) => {
    if (at.section !== before.section) build();
    show(at);
  });
}
