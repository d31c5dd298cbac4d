// Elements, canvases and colours, shared by the views.

const byId = (id) => document.getElementById(id);

// element("p", {class: "x"}, "text", child): attributes whose value is null or false are left out.
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const term = (name, text = name) => element("dfn", { "data-term": name, tabindex: 0 }, text);

// A text whose terms are explained.
function withTerms(text) {
  return text.split(/\b(bank conflict|wavefront|sector|bank)(?=s?\b)/).map((part, index) => index % 2 ? term(part) : part);
}

// Colours of the style sheet, read once for each colour scheme.
const palette = {
  refresh() {
    const style = getComputedStyle(document.documentElement);
    const names = [
      "page", "card", "ink", "muted", "grid", "read", "write", "shared", "copy", "product", "other", "wait", "idle",
      "bad", "good", "cursor", "exposed",
    ];
    for (const name of names) this[name] = style.getPropertyValue(`--${name}`).trim();
    this.series = Array.from({ length: 8 }, (_, index) => style.getPropertyValue(`--series-${index}`).trim());
  },
};
const stateColours = () => [
  palette.idle, palette.read, palette.write, palette.shared, palette.copy, palette.product, palette.other, palette.wait,
];
const seriesColour = (index) => palette.series[index % palette.series.length];

// Prepares a canvas for drawing in CSS pixels and returns its context.
function prepare(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  return context;
}

// Diagonal lines, so that a state is not told by its colour alone.
function hatch(context, colour, gap = 5) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = gap;
  const ink = tile.getContext("2d");
  ink.strokeStyle = colour;
  ink.lineWidth = 1.2;
  ink.beginPath();
  for (const shift of [-gap, 0, gap]) {
    ink.moveTo(shift, gap);
    ink.lineTo(shift + gap, 0);
  }
  ink.stroke();
  return context.createPattern(tile, "repeat");
}

// The ink, dark or light, that can be read on a colour of the form #rrggbb.
function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

// A colour between two of the form #rrggbb.
function mix(from, to, share) {
  const part = (at) => Math.round(
    parseInt(from.slice(at, at + 2), 16) * (1 - share) + parseInt(to.slice(at, at + 2), 16) * share);
  return `#${[1, 3, 5].map((at) => part(at).toString(16).padStart(2, "0")).join("")}`;
}

// Explanations of terms: shown on hover and on focus.
function showExplanations() {
  const box = element("div", { id: "explanation", role: "tooltip", hidden: true });
  document.body.append(box);
  let shownFor = null;
  const show = (target) => {
    const word = target.closest?.("[data-term]");
    if (word === shownFor) return;
    shownFor?.removeAttribute("aria-describedby");
    shownFor = word;
    box.hidden = !word;
    if (!word) return;
    box.replaceChildren(element("b", {}, word.dataset.term), ` ${TERMS[word.dataset.term] ?? ""}`);
    word.setAttribute("aria-describedby", "explanation");
    const place = word.getBoundingClientRect();
    const width = Math.min(320, innerWidth - 16);
    box.style.width = `${width}px`;
    box.style.left = `${clamp(place.left, 8, innerWidth - width - 8)}px`;
    const below = place.bottom + box.offsetHeight + 12 < innerHeight;
    box.style.top = `${below ? place.bottom + 6 : Math.max(4, place.top - box.offsetHeight - 6)}px`;
  };
  const hide = () => show(document.body);
  addEventListener("mouseover", (event) => show(event.target));
  addEventListener("focusin", (event) => show(event.target));
  addEventListener("focusout", hide);
  addEventListener("scroll", hide, true);
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
}
