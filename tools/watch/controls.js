// The slider, the buttons and the keys that move the cursor.

const KEYS = [
  ["← →", "one step back, one step on"], ["Shift + ← →", "ten steps"], ["↑ ↓", "the warp above, the warp below"],
  ["Space", "play and pause"], ["Home, End", "the first step, the last step"],
  ["n, p", "the next, the previous event of the warp"], ["c", "the next costly access: bank conflict or wasted sectors"],
  ["d", "the next defect"], ["w", "the next wait of the warp"], ["+ − 0", "zoom the timeline in, out, to the whole"],
  ["1 to 6", "go to a view: 1 timeline, 2 source, 3 instruction, 4 shared memory, 5 tensors, 6 defects"], ["?", "show or hide these keys"],
];
const VIEW_IDS = ["timeline", "source", "instruction", "shared", "tensors", "defects"];

function controls(recording, cursor, analyses, timeline) {
  const slider = byId("slider"), stepText = byId("step-text"), playButton = byId("play"), speed = byId("speed");
  const live = byId("live"), keys = byId("keys"), sections = byId("section");
  const { columns } = recording;
  let playing = 0, pending = 0, spoken = 0;

  const step = (by) => cursor.go({ time: cursor.at.time + by });
  function play(on = !playing) {
    clearInterval(playing);
    playing = 0;
    if (on) {
      if (cursor.at.time >= cursor.section.steps - 1) cursor.go({ time: 0 });
      const perSecond = Number(speed.value);
      playing = setInterval(() => {
        if (cursor.at.time >= cursor.section.steps - 1) play(false);
        else step(Math.max(1, Math.round(perSecond / 20)));
      }, Math.max(50, 1000 / perSecond));
    }
    playButton.textContent = on ? "Pause" : "Play";
    playButton.setAttribute("aria-pressed", String(Boolean(on)));
  }

  // The next or the previous event of the selected warp that `wanted` accepts.
  function seek(by, wanted = (event) => stateOf(recording, event) !== STATE.idle) {
    const events = cursor.section.ofWarp[cursor.at.warp];
    let index = by > 0 ? afterTime(events, columns.time, cursor.at.time) : afterTime(events, columns.time, cursor.at.time - 1) - 1;
    for (; index >= 0 && index < events.length; index += by) {
      if (wanted(events[index])) {
        cursor.go({ time: columns.time[events[index]] });
        return true;
      }
    }
    return false;
  }
  function costly() {
    const wanted = (event) => {
      if (!isAccess(recording, event)) return false;
      const { taken, ideal } = costOf(arrayOf(recording, event), patternOf(recording, event));
      return taken > ideal;
    };
    if (!seek(1, wanted)) {
      const first = cursor.section.ofWarp[cursor.at.warp].find(wanted);
      if (first !== undefined) cursor.go({ event: first });
    }
  }
  // The next one after the cursor's step. Those of one step follow each other; after the last one comes the first.
  function nextDefect() {
    const { time, defect: current } = cursor.at;
    const timeOf = ({ at }) => at === null ? -1 : columns.time[at];
    const defects = [...analyses(cursor.section).defects].sort((one, other) => timeOf(one) - timeOf(other));
    if (!defects.length) return;
    const own = defects.findIndex((one) => one.number === current);
    const next = (own >= 0 && timeOf(defects[own]) === time ? defects[own + 1] : defects.find((one) => timeOf(one) >= time)) ?? defects[0];
    cursor.go({ defect: next.number, view: "", ...(next.at === null ? {} : { event: next.at }) });
  }
  const goToView = (view) => cursor.go({ view, event: cursor.at.event });

  byId("first").addEventListener("click", () => cursor.go({ time: 0 }));
  byId("back").addEventListener("click", () => step(-1));
  byId("on").addEventListener("click", () => step(1));
  byId("last").addEventListener("click", () => cursor.go({ time: cursor.section.steps - 1 }));
  byId("zoom-in").addEventListener("click", () => timeline.zoom(0.5));
  byId("zoom-out").addEventListener("click", () => timeline.zoom(2));
  byId("zoom-all").addEventListener("click", timeline.whole);
  byId("show-keys").addEventListener("click", () => toggleKeys());
  playButton.addEventListener("click", () => play());
  speed.addEventListener("change", () => { if (playing) play(true); });
  slider.addEventListener("input", () => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => cursor.go({ time: Number(slider.value) }));
  });

  function toggleKeys(on = keys.hidden) {
    keys.hidden = !on;
    byId("show-keys").setAttribute("aria-expanded", String(on));
  }
  byId("key-list").replaceChildren(...KEYS.flatMap(([key, words]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, words)]));

  const actions = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => cursor.go({ time: 0 }),
    End: () => cursor.go({ time: cursor.section.steps - 1 }),
    ArrowUp: () => cursor.go({ warp: cursor.at.warp - 1 }), ArrowDown: () => cursor.go({ warp: cursor.at.warp + 1 }),
    " ": () => play(), n: () => seek(1), p: () => seek(-1), c: costly, d: nextDefect,
    w: () => seek(1, (event) => columns.kind[event] === KIND.wait),
    "+": () => timeline.zoom(0.5), "=": () => timeline.zoom(0.5), "-": () => timeline.zoom(2), 0: timeline.whole,
    "?": () => toggleKeys(), Escape: () => toggleKeys(false),
  };
  VIEW_IDS.forEach((view, index) => { actions[index + 1] = () => goToView(view); });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const { target } = event;
    if (/^(SELECT|TEXTAREA)$/.test(target.tagName) || (target.tagName === "INPUT" && target.type !== "range")) return;
    if (event.key === " " && /^(BUTTON|A|SUMMARY)$/.test(target.tagName)) return;
    if (target.closest?.(".scroll, .own-scroll") === target && /^(Arrow|Home|End)/.test(event.key)) return;
    const ten = event.shiftKey && { ArrowRight: 10, ArrowLeft: -10 }[event.key];
    const action = ten ? () => step(ten) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  sections.parentElement.hidden = recording.sections.length < 2;
  recording.sections.forEach(({ info, number: index }) => sections.append(element("option", { value: index },
    `launch ${info.launch ?? 0}: ${shortKernel(info.kernel)}, block ${(info.block ?? []).join(", ")}`)));
  sections.addEventListener("change", () => {
    play(false);
    const section = Number(sections.value);
    cursor.go({ section, time: 0, defect: -1 });
  });

  function show(at, before) {
    const { steps } = cursor.section;
    slider.max = steps - 1;
    slider.value = at.time;
    byId("now").style.left = `${100 * (at.time + 0.5) / steps}%`;
    slider.setAttribute("aria-valuetext", `step ${at.time} of ${steps - 1}`);
    stepText.textContent = `${number(at.time)} of ${number(steps - 1)}`;
    sections.value = at.section;
    for (const [id, off] of [["first", at.time === 0], ["back", at.time === 0], ["on", at.time >= steps - 1], ["last", at.time >= steps - 1]]) {
      byId(id).setAttribute("aria-disabled", String(off));
    }
    for (const view of VIEW_IDS) byId(view).classList.toggle("focused", at.view === view);
    if (at.view && (at.view !== before.view || at.defect !== before.defect) && VIEW_IDS.includes(at.view)) scrollTo(at.view, at.defect);
    clearTimeout(spoken);
    spoken = setTimeout(() => {
      live.textContent = `Step ${at.time}. Warp ${at.warp} ${at.event >= 0 ? doing(recording, at.event) : "has not begun"}. ` +
        `${at.event >= 0 ? costText(recording, at.event) : ""}`;
    }, playing ? 1000 : 150);
  }
  function scrollTo(view, defect) {
    const to = view === "defects" && byId(`defect-${defect}`) || byId(view);
    if (!to.offsetParent) return;
    const bar = byId("transport").getBoundingClientRect().height + 8;
    const { top, height } = to.getBoundingClientRect();
    if (top < bar || top + Math.min(height, innerHeight - bar) > innerHeight) scrollBy({ top: top - bar });
  }
  cursor.listen(show);
  return { stop: () => play(false) };
}
