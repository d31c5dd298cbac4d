// The strip of figures, and what stands out in the section.

function summaryView(recording, cursor, analyses) {
  const strip = byId("summary"), findings = byId("findings");
  const figure = (name, value, more = {}) =>
    element("div", { class: more.bad ? "bad" : null }, element("dt", {}, name), element("dd", {}, value));

  function show() {
    const { section } = cursor;
    const { info } = section;
    const { total, defects } = analyses(section);
    const extra = total.wavefronts - total.idealWavefronts;
    const parts = [
      figure("Kernel", shortKernel(info.kernel)),
      figure(term("block"), `${(info.block ?? []).join(", ")} of ${(info.grid ?? []).join(" x ")}`),
      figure(term("warp", "warps"), number(section.warps)),
      figure(term("event", "events"), number(total.events)),
      figure(term("step", "steps"), `0 to ${number(section.steps - 1)} (logical, not time)`),
    ];
    if (total.sharedAccesses) {
      parts.push(figure([term("wavefront", "wavefronts")][0],
        `${number(total.wavefronts)} / ideal ${number(total.idealWavefronts)}`, { bad: extra > 0 }));
    }
    if (total.sectors) {
      parts.push(figure(term("sector", "sectors"), `${number(total.sectors)} / ideal ${number(total.idealSectors)}`,
        { bad: total.sectors > 1.3 * total.idealSectors }));
    }
    if (total.products) parts.push(figure(term("product", "products"), number(total.products)));
    parts.push(figure("Defects", number(defects.length), { bad: defects.length > 0 }));
    strip.replaceChildren(...parts);
    const left = info.left_out ?? 0;
    byId("left-out").hidden = left === 0 && !info.abandoned;
    byId("left-out").textContent = info.abandoned ? "The simulator gave this block up: the recording ends where it could not go on. The defects say why."
      : `The recording stops early: ${counted(left, "event")} after its end ${left === 1 ? "was" : "were"} left out. Everything before is complete.`;
    const found = findingsOf(recording, section, analyses(section));
    findings.replaceChildren(...found.map((finding) => {
      const mark = element("span", { class: "mark", "aria-hidden": "true" }, finding.plain ? "·" : finding.good ? "✓" : "!");
      const title = element("b", {}, finding.title);
      const text = element("span", { class: "text" }, finding.text);
      const link = finding.link && recording.sections.length > 1 ? { s: section.number, ...finding.link } : finding.link;
      const body = [mark, element("span", {}, title, " ", text)];
      return element("li", { class: finding.plain ? "plain" : finding.good ? "good" : "bad", "data-kind": finding.kind },
        link ? element("a", { href: addressOf(link) }, ...body) : element("div", {}, ...body));
    }));
  }
  show();
  cursor.listen((at, before) => { if (at.section !== before.section) show(); });
}

// A kernel's name without its arguments and namespaces.
function shortKernel(name) {
  const plain = (name ?? "kernel").replace(/\((?!anonymous).*$/, "").replace(/^void /, "");
  return plain.replace(/(\w+|\(anonymous namespace\))::/g, "");
}
