// Defects: both accesses, side by side, and what is missing between them.

function defectsView(recording, cursor, analyses) {
  const holder = byId("defects-holder"), section = byId("defects");
  const { columns } = recording;
  const known = (event) => event !== undefined && event !== null && event !== NONE;

  const sectionOf = (event) => Math.max(0, recording.sections.findIndex(({ begin, end }) => event >= begin && event < end));

  function build() {
    const { defects } = analyses(cursor.section);
    section.hidden = defects.length === 0;
    holder.replaceChildren(...defects.map(card));
  }

  function card(defect) {
    const rival = known(defect.rival_event), own = known(defect.event);
    const accesses = [];
    if (rival || known(defect.rival_site)) accesses.push(side("First", defect.rival_event, defect.rival_site));
    if (rival || known(defect.rival_site)) accesses.push(missingBetween(defect));
    if (own || known(defect.site)) accesses.push(side(accesses.length ? "Then" : "Here", defect.event, defect.site));
    return element("article", { class: "defect", id: `defect-${defect.number}` },
      element("h3", {}, defectTitle(defect)),
      element("p", {}, shortMessage(defect.message)),
      element("div", { class: "accesses" }, ...accesses));
  }

  // One of the two accesses: its line, warp, lanes and location.
  function side(name, event, site) {
    const has = known(event);
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
      }
      parts.push(element("p", {}, element("a", { href: addressOf({ s: sectionOf(event), t: columns.time[event], w: columns.warp[event], e: event, v: "instruction" }) },
        `Go to step ${columns.time[event]}`)));
    }
    return element("div", { class: "access" }, ...parts);
  }

  // The barrier that would order the two accesses: as the simulator says, or as their places imply.
  function missingBetween(defect) {
    let missing = missingBarrier(defect);
    if (!missing && known(defect.event) && known(defect.rival_event)) {
      missing = columns.warp[defect.event] === columns.warp[defect.rival_event] ? "__syncwarp()" : "__syncthreads()";
    }
    return element("div", { class: "missing" }, element("span", { "aria-hidden": "true" }, "⚡"),
      element("p", {}, missing ? element("b", {}, `no ${missing}`) : element("b", {}, "nothing"),
        missing ? " between the two: nothing orders them, so either may happen first on a GPU."
          : " orders the two: either may happen first on a GPU."));
  }

  function show(at) {
    for (const made of holder.children) made.classList.toggle("chosen", made.id === `defect-${at.defect}`);
  }
  build();
  cursor.listen((at, before) => {
    if (at.section !== before.section) build();
    show(at);
  });
}
