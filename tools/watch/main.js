// Reads the recording, sets up the views, and shows what the address or the builder says.

const once = (make) => {
  const made = new Map();
  return (section) => {
    if (!made.has(section)) made.set(section, make(section));
    return made.get(section);
  };
};

// Where a page opens that has nothing to complain about: in the middle of the busiest warp, at what shows most.
function quietStart(recording, section) {
  const { time, kind, flags } = recording.columns;
  const busiest = section.ofWarp.reduce((one, other) => other.length > one.length ? other : one);
  const from = Math.floor(busiest.length * 0.4);
  const inShared = (event) => isAccess(recording, event) && isShared(arrayOf(recording, event));
  const wanted = [(event) => inShared(event) && isLdmatrix(flags[event]), (event) => kind[event] === KIND.productBegins, inShared, (event) => kind[event] === KIND.access];
  for (const accept of wanted) {
    const event = busiest.subarray(from).find(accept) ?? busiest.find(accept);
    if (event !== undefined) return { event, time: time[event] };
  }
  return { time: 0 };
}

async function main() {
  const data = JSON.parse(byId("data").textContent);
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old: the page needs DecompressionStream (Chrome 80, Firefox 113, Safari 16.4)");
  }
  const bytes = await inflate(byId("events").textContent.trim());
  const recording = readRecording(data, bytes);
  const analyses = once((section) => analyse(recording, section));
  const replayOf = once((section) => new Replay(recording, section));
  const cursor = new Cursor(recording);
  const given = { ...readAddress(addressOf(data.start)), ...readAddress(location.hash) };
  cursor.at.section = clamp(given.section ?? 0, 0, recording.sections.length - 1);
  palette.refresh();

  byId("loading").hidden = true;
  byId("views").hidden = false;
  summaryView(recording, cursor, analyses);
  const timeline = timelineView(recording, cursor, analyses);
  const source = sourceView(recording, cursor, analyses);
  instructionView(recording, cursor, analyses);
  const shared = sharedView(recording, cursor, replayOf);
  const tensors = tensorsView(recording, cursor, replayOf);
  defectsView(recording, cursor, analyses);
  controls(recording, cursor, analyses, timeline);
  showExplanations();

  const first = findingsOf(recording, cursor.section, analyses(cursor.section)).find(({ good }) => !good);
  const start = Object.keys(given).length ? given : first?.link ? { ...readAddress(addressOf(first.link)), view: "" } : quietStart(recording, cursor.section);
  const metric = { banks: "extra", sectors: "wasted", waits: "waited" }[first?.kind];
  if (metric) source.choose(metric);
  cursor.go({ event: undefined, ...start }, true);
  timeline.draw();
  addEventListener("hashchange", () => {
    const to = readAddress(location.hash);
    if (Object.keys(to).length) cursor.go(to, true);
  });
  // A link to where the page is already is followed again.
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#t='], a[href^='#v='], a[href^='#s=']");
    if (!link) return;
    event.preventDefault();
    cursor.go({ event: undefined, ...readAddress(link.getAttribute("href")) });
    const { view } = cursor.at;
    const kind = link.closest("[data-kind]")?.dataset.kind;
    const chosen = { banks: "extra", sectors: "wasted", waits: "waited" }[kind];
    if (chosen) source.choose(chosen);
    if (VIEW_IDS.includes(view)) byId(view).querySelector("h2").focus({ preventScroll: true });
  });
  let resized = 0;
  const redraw = () => {
    palette.refresh();
    timeline.draw();
    shared.draw();
    tensors.draw();
    cursor.go({ event: cursor.at.event }, true);
  };
  addEventListener("resize", () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(redraw);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.documentElement.dataset.ready = "true";
}

main().catch((error) => {
  byId("loading").hidden = false;
  byId("loading").textContent = `The recording cannot be shown: ${error.message}`;
});
