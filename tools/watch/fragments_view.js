// Matrices in the registers of a warp: which lane holds which element, and in which register.

const CELL_HEIGHT = 17;

// A matrix of cells. who(row, column) returns {lane, register}.
function fragmentMatrix(name, rows, columns, who, chosen, { from = 0, right = "", below = "", cellWidth = 30 } = {}) {
  const left = 34, top = 18;
  const label = `${name}, ${rows} x ${columns}: the lane and the register of each element` +
    `${chosen >= 0 ? `; lane ${chosen} holds ${held(rows, columns, who, chosen)}` : ""}`;
  const width = left + columns * cellWidth + 4, height = top + rows * CELL_HEIGHT + 4;
  const picture = drawn("svg", {
    role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height, class: "fragment",
  });
  for (let column = 0; column < columns; ++column) {
    if (columns <= 8 || column % 2 === 0) {
      picture.append(drawn("text", { x: left + (column + 0.5) * cellWidth, y: 12, class: "index" }, column));
    }
  }
  for (let row = 0; row < rows; ++row) {
    picture.append(drawn("text", { x: left - 5, y: top + (row + 0.5) * CELL_HEIGHT + 4, class: "index end" }, from + row));
    for (let column = 0; column < columns; ++column) {
      const { lane, register } = who(row, column);
      const colour = seriesColour(lane >> 2);
      const cell = drawn("g", { "data-lane": lane }, drawn("title", {}, `row ${from + row}, column ${column}: lane ${lane}, register ${register}`));
      cell.append(drawn("rect", {
        x: left + column * cellWidth, y: top + row * CELL_HEIGHT, width: cellWidth - 1, height: CELL_HEIGHT - 1, fill: colour,
        class: chosen < 0 || chosen === lane ? lane === chosen ? "chosen" : null : "faded",
      }));
      if (chosen < 0 || chosen === lane) {
        cell.append(drawn("text", {
          x: left + (column + 0.5) * cellWidth, y: top + (row + 0.5) * CELL_HEIGHT + 4, style: `fill:${inkOn(colour)}`,
        }, `${lane}:${register}`));
      }
      picture.append(cell);
    }
  }
  return element("figure", { style: `width:${Math.max(width, 200)}px` }, element("figcaption", {}, element("b", {}, name), right ? ` ${right}` : ""),
    element("div", { class: "scroll" }, picture), below ? element("p", { class: "muted" }, below) : null);
}

function held(rows, columns, who, lane) {
  const found = [];
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      const cell = who(row, column);
      if (cell.lane === lane) found.push(`(${row}, ${column}) in ${cell.register}`);
    }
  }
  return found.join(", ");
}

// Two neighbouring 16-bit elements share a register; two fp32 elements have registers of their own.
const FRAGMENT_A = (row, column) =>
  ({ lane: row % 8 * 4 + column % 8 / 2 | 0, register: `a${(row >> 3) + 2 * (column >> 3)}` });
const FRAGMENT_B = (row, column) => ({ lane: column * 4 + (row % 8 >> 1), register: `b${row >> 3}` });
const FRAGMENT_C = (row, column) =>
  ({ lane: row % 8 * 4 + (column % 8 >> 1), register: `c${2 * (row >> 3) + column % 2}` });

const READ_CELLS = element("p", { class: "muted" },
  "Each cell: lane : register. Choose a lane above to see only its elements.");

function mmaPicture(product, chosen) {
  if (!product) return [element("p", { class: "muted" }, "The recording does not say which product this is.")];
  const note = READ_CELLS.cloneNode(true);
  if (product.m !== 16 || product.n !== 8 || product.k !== 16) return [note];
  return [note, element("div", { class: "matrices" },
    fragmentMatrix("A", 16, 16, (row, column) => FRAGMENT_A(row, column), chosen, { right: "16 x 16, two elements in a register" }),
    fragmentMatrix("B", 16, 8, FRAGMENT_B, chosen, { right: "16 x 8, rows are k" }),
    fragmentMatrix("C and D", 16, 8, FRAGMENT_C, chosen, { right: "16 x 8, fp32" }))];
}

function wgmmaPicture(recording, product, warp, chosen) {
  if (!product?.m || !product.n || !product.k) return [element("p", { class: "muted" }, "The recording does not say which product this is.")];
  const { m, n, k } = product;
  const operand = (name, from) => {
    if (!from) return `${name}: not recorded.`;
    if (from === "registers") return `${name}: from registers, like A of mma.m16n8k16, 16 rows for each warp.`;
    const array = recording.header.arrays[from.array]?.name ?? "shared memory";
    return `${name}: ${array} from byte ${from.offset}, ${from.major ? `${from.major}-major, ` : ""}` +
      `${from.swizzle ? `${from.swizzle}-byte swizzle` : "no swizzle"}.`;
  };
  const shown = Math.min(16, n), first = warp % 4 * 16;
  const who = (row, column) => {
    const { lane } = FRAGMENT_C(row, column % 8);
    return { lane, register: `d${4 * (column >> 3) + 2 * (row >> 3) + column % 2}` };
  };
  const parts = [element("p", {}, `D (${m} x ${n}) += A (${m} x ${k}) times B (${k} x ${n}). `, operand("A", product.a), " ", operand("B", product.b)),
    READ_CELLS.cloneNode(true),
    element("div", { class: "matrices" }, fragmentMatrix(`D, rows of warp ${warp % 4} of the warpgroup`, 16, shown, who, chosen, {
      from: first, cellWidth: 33, right: `columns 0 to ${shown - 1} of ${n}`,
      below: n > shown ? `The pattern repeats every 8 columns, with the next four registers: up to d${n / 2 - 1}.` : "",
    }))];
  if (product.a === "registers") {
    parts[2].append(fragmentMatrix(`A, rows of warp ${warp % 4}`, 16, 16, FRAGMENT_A, chosen, { from: first, right: "two elements in a register" }));
  }
  return parts;
}

// ldmatrix: lanes 0 to 7 give the rows of the first 8 x 8 matrix, 8 to 15 those of the second, and so on. Then lane
// 4 * row + column / 2 holds two elements of each.
function ldmatrixPicture(recording, event, chosen) {
  const offsets = laneOffsets(recording, event);
  const array = arrayOf(recording, event);
  const matrices = Math.max(1, offsets.filter((offset) => offset !== null).length >> 3);
  const transposed = recording.columns.flags[event] === ACCESS.ldmatrixTransposed;
  const parts = [];
  for (let matrix = 0; matrix < matrices; ++matrix) {
    const who = (row, column) => {
      const [first, second] = transposed ? [column, row] : [row, column];
      return { lane: 4 * first + (second >> 1), register: `r${matrix}` };
    };
    const start = offsets[8 * matrix];
    parts.push(fragmentMatrix(`Matrix ${matrix}`, 8, 8, who, chosen, {
      right: start === null ? "" : `rows given by lanes ${8 * matrix} to ${8 * matrix + 7}, from ${elementName(array, start)}`,
    }));
  }
  return [element("p", { class: "muted" }, `ldmatrix: lanes give the addresses of rows of 16 bytes; then each lane holds two elements of each matrix, neighbours in a ${transposed ? "column" : "row"}. ` +
    "Each cell: lane : register."), element("div", { class: "matrices" }, ...parts)];
}
