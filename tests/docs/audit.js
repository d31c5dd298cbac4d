// Checks how readable a page is: headings, pictures, contrast, width. Returns a list of complaints.
(async () => {
  const found = [];
  const visible = (element) => element.checkVisibility() && element.getClientRects().length > 0;
  const start = (element) => element.textContent.trim().replace(/\s+/g, " ").slice(0, 40);

  // Headings: exactly one <h1>, and no level skipped.
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(visible);
  let level = 0;
  for (const heading of headings) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) found.push(`heading of level ${own} after ${level}: ${start(heading)}`);
    level = own;
  }
  const tops = headings.filter((heading) => heading.tagName === "H1").length;
  if (tops !== 1) found.push(`${tops} headings of level 1`);

  // Pictures.
  for (const image of document.images) {
    if (!image.hasAttribute("alt")) found.push(`no alternative text: ${image.src}`);
    await image.decode().catch(() => found.push(`picture is not shown: ${image.src}`));
  }
  for (const svg of document.querySelectorAll("svg[role=img]")) {
    if (svg.closest(".MathJax_SVG")) continue;  // a formula, which also has MathML
    if (!svg.getAttribute("aria-label")) found.push("a drawing without aria-label");
  }
  if (!document.documentElement.lang) found.push("no language");
  for (const wrong of document.querySelectorAll(".merror, [data-mml-node=merror], .MathJax_Error")) {
    found.push(`formula: ${start(wrong)}`);
  }

  // Width: nothing overflows except what scrolls on its own.
  const root = document.scrollingElement;
  for (const box of [root, document.querySelector("#doc-content")].filter(Boolean)) {
    if (box.scrollWidth <= box.clientWidth + 1) continue;
    const limit = box === root ? innerWidth : box.getBoundingClientRect().right;
    const scrolls = (element) => {
      for (let at = element.parentElement; at && at !== box; at = at.parentElement) {
        if (getComputedStyle(at).overflowX !== "visible") return true;
      }
      return false;
    };
    const wide = [...box.querySelectorAll("*")].filter(
      (element) => visible(element) && element.getBoundingClientRect().right > limit + 1 && !scrolls(element),
    );
    const names = wide.slice(-3).map((e) => `${e.tagName.toLowerCase()}.${e.className} "${start(e)}"`);
    found.push(`wider than the window by ${box.scrollWidth - box.clientWidth}: ${names.join("; ")}`);
  }

  // Next to the menu, only the contents scroll.
  if (document.querySelector("#doc-content") && innerWidth >= 768 && root.scrollHeight > innerHeight + 1) {
    found.push(`taller than the window by ${root.scrollHeight - innerHeight}`);
  }

  // Contrast, WCAG 2.1: 4.5, or 3 for large text.
  const parse = (colour) => {
    const numbers = (colour.match(/[\d.]+/g) || []).map(Number);
    if (colour.startsWith("color(")) return [...numbers.slice(0, 3).map((v) => v * 255), numbers[3] ?? 1];
    return [numbers[0], numbers[1], numbers[2], numbers[3] ?? 1];
  };
  const over = (top, below) => below.map((v, i) => (i < 3 ? top[i] * top[3] + v * (1 - top[3]) : 1));
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => {
      const v = value / 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const canvas = dark && getComputedStyle(document.documentElement).colorScheme.includes("dark")
    ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const rects = new Map();  // of each drawing, in order, with what is asked of the browser once
  const rectsOf = (svg) => {
    if (!rects.has(svg)) {
      rects.set(svg, [...svg.querySelectorAll("rect")].map((rect) => {
        const style = getComputedStyle(rect);
        const [r, g, b, a] = parse(style.fill === "none" ? "rgba(0, 0, 0, 0)" : style.fill);
        return { rect, box: rect.getBBox(), colour: [r, g, b, a * Number(style.fillOpacity) * Number(style.opacity)] };
      }));
    }
    return rects.get(svg);
  };
  // Whatever a drawing draws before a text, and at its position, lies under it.
  const drawnUnder = (text) => {
    const layers = [];
    const svg = text.closest("svg");
    if (!svg || text.tagName !== "text") return layers;
    const { x, y, width, height } = text.getBBox();
    const [mx, my] = [x + width / 2, y + height / 2];
    for (const { rect, box, colour } of rectsOf(svg)) {
      if (mx < box.x || mx > box.x + box.width || my < box.y || my > box.y + box.height) continue;
      if (rect.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING) layers.unshift(colour);
    }
    return layers;
  };
  const background = (element) => {
    const layers = drawnUnder(element);
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reduceRight((below, top) => over(top, below), canvas);
  };
  const opacity = (element) => {
    let all = 1;
    for (let at = element; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
    return all;
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const element = text.parentElement;
    if (!text.data.trim() || element.closest("script, style, noscript, .MathJax_SVG, .MJX_Assistive_MathML")) continue;
    if (!visible(element)) continue;
    const style = getComputedStyle(element);
    const ink = parse(element.closest("svg") ? style.fill : style.color);
    const below = background(element);
    const key = [ink, below, style.fontSize, style.fontWeight].join();
    if (seen.has(key)) continue;
    seen.add(key);
    const shown = over([ink[0], ink[1], ink[2], ink[3] * opacity(element)], below);
    const [light, deep] = [luminance(shown), luminance(below)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (deep + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      const where = `${element.tagName.toLowerCase()}.${element.className.baseVal ?? element.className}`;
      found.push(`contrast ${ratio.toFixed(2)}, ${dark ? "dark" : "light"}: ${where} "${text.data.trim().slice(0, 40)}"`);
    }
  }
  return found;
})()
