// The cursor that all views share: {section, time, warp, event, view, lane, defect}. Also in the address of the page.

class Cursor {
  constructor(recording) {
    this.recording = recording;
    this.listeners = [];
    this.at = { section: 0, time: 0, warp: 0, event: -1, view: "", lane: -1, defect: -1 };
    this.timer = 0;
  }

  get section() { return this.recording.sections[this.at.section]; }

  listen(listener) { this.listeners.push(listener); }

  // Moves to what `to` names and keeps the rest. An event brings its own warp and time.
  go(to, fromAddress = false) {
    const before = { ...this.at };
    const next = { ...this.at, ...to };
    next.section = clamp(next.section, 0, this.recording.sections.length - 1);
    const section = this.recording.sections[next.section];
    const { time, warp } = this.recording.columns;
    if (next.section !== before.section && to.time === undefined && to.event === undefined) next.time = 0;
    if (to.event !== undefined && to.event >= section.begin && to.event < section.end) {
      next.warp = to.warp ?? warp[to.event];
      next.time = to.time ?? time[to.event];
    } else {
      next.event = -1;
    }
    next.time = clamp(Math.round(next.time), 0, section.steps - 1);
    next.warp = clamp(next.warp, 0, section.warps - 1);
    if (next.event < 0) next.event = this.mainEvent(section, next.warp, next.time);
    this.at = next;
    for (const listener of this.listeners) listener(this.at, before);
    if (!fromAddress) this.keepInAddress();
  }

  // Of the events of a warp's step the one to show: a product or the costliest access.
  mainEvent(section, warp, limit) {
    const { recording } = this;
    let best = -1, bestRank = -1;
    for (const event of eventsAt(recording, section, warp, limit)) {
      let rank = 0;
      switch (recording.columns.kind[event]) {
        case KIND.access: {
          rank = 3;
          if (!isAccess(recording, event)) break;
          const { taken, ideal } = costOf(arrayOf(recording, event), patternOf(recording, event));
          if (taken > ideal) rank = 5 + taken / 1000;
          break;
        }
        case KIND.productBegins: case KIND.copyBegins: rank = 4; break;
        case KIND.op: rank = 2; break;
        case KIND.wait: rank = 1; break;
        case KIND.defect: rank = -0.5; break;
        default:
      }
      if (rank > bestRank) [best, bestRank] = [event, rank];
    }
    return best;
  }

  address() {
    const { section, time, warp, event, view, defect } = this.at;
    const parts = [`t=${time}`, `w=${warp}`];
    if (this.recording.sections.length > 1) parts.push(`s=${section}`);
    if (event >= 0 && event !== this.mainEvent(this.section, warp, time)) parts.push(`e=${event}`);
    if (view) parts.push(`v=${view}`);
    if (defect >= 0) parts.push(`d=${defect}`);
    return `#${parts.join("&")}`;
  }

  // Browsers limit how often an address may change.
  keepInAddress() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => history.replaceState(null, "", this.address()), 250);
  }
}

const clamp = (value, least, most) => Math.max(least, Math.min(most, value));

// What an address says, as the argument of Cursor.go().
function readAddress(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const names = { t: "time", w: "warp", s: "section", e: "event", d: "defect" };
  const to = {};
  for (const [key, name] of Object.entries(names)) {
    const text = given.get(key);
    if (text !== null && /^\d{1,9}$/.test(text)) to[name] = Number(text);
  }
  if (given.get("v")) to.view = given.get("v");
  return to;
}

const addressOf = (link) => `#${Object.entries(link).map(([key, value]) => `${key}=${value}`).join("&")}`;
