// Terms and events in plain English.

const TERMS = {
  event: "What the recording has an entry for: an instruction of a warp that accesses memory, multiplies, waits or synchronises, or a copy that lands.",
  product: "An instruction of the tensor cores: mma by a warp, wgmma by four warps together.",
  step: "One step is one instruction of a warp on a logical clock. Steps show order and who waits for whom. They are not nanoseconds: a real load takes far longer than an addition, and the simulator does not predict time.",
  warp: "32 threads that execute an instruction together.",
  lane: "One of the 32 threads of a warp, numbered 0 to 31.",
  block: "Threads that share a multiprocessor, its shared memory and __syncthreads().",
  sector: "32 aligned bytes, the smallest amount that global memory delivers. If a warp uses 4 bytes of a sector, the other 28 travel for nothing.",
  wavefront: "One pass over the 32 banks of shared memory. An access takes one or more; each one beyond what its size needs costs time.",
  bank: "One of 32 columns of shared memory, 4 bytes wide. In one pass it delivers one word, to any number of lanes.",
  "bank conflict": "Two lanes want different words of the same bank in one access. The bank serves one word per pass, so the access takes another wavefront.",
  "in flight": "Started, and not yet waited for: an asynchronous copy or product works on its own while the warp goes on. A bar ends where a wait for it ends: its length is the time that a copy may take without making anybody wait.",
  overlap: "Work that a warp does while a copy is in flight. It hides the time that the copy takes.",
  barrier: "A point where warps wait until all of them, or enough arrivals, have come.",
  mbarrier: "A barrier in shared memory that counts arrivals and landed bytes, in one phase after another.",
  race: "Two threads access the same bytes, at least one of them writes, and nothing orders the accesses.",
  "cp.async": "A copy from global to shared memory that is in flight while the thread goes on. Copies are committed in groups, and waited for by group.",
  tensor: "An array in global memory with a shape, such as Q, K or V.",
  "logical time": "Steps order the instructions of each warp, and a wait ends after what it waits for. Steps are not nanoseconds.",
  section: "One recorded block of one launch of a kernel.",
  fragment: "A small matrix in the registers of a warp: each lane holds a share of its elements.",
  swizzle: "Storing the 16-byte chunks of a row in an order that depends on the row, so that a column spreads over different banks.",
};

const grouped = new Intl.NumberFormat("en-US");
const number = (value) => grouped.format(value);
const counted = (count, noun) =>
  `${number(count)} ${count === 1 ? noun : /(ch|s|sh|x)$/.test(noun) ? `${noun}es` : `${noun}s`}`;
const percent = (part, whole) => {
  const value = whole > 0 ? 100 * part / whole : 0;
  return `${value > 0 && value < 1 ? "<1" : Math.round(value)} %`;
};
const bytesText = (bytes) =>
  bytes < 1e4 ? counted(bytes, "byte") : bytes < 1e7 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
const ratioText = (taken, ideal) => (taken / ideal).toFixed(taken % ideal ? 1 : 0);

const OPS = ["__syncwarp", "shuffle", "vote", "mma", "elect", "fence", "initialises a barrier", "changes its registers", "wgmma fence",
  "uses a local variable", "fails at an instruction", "movmatrix"];
const opName = (flags) => OPS[flags] ?? "instruction";

// What a thread does where a defect is the event: "reads accumulator d[5]".
function localUse(recording, event) {
  const message = shortMessage(recording.header.defects.find((defect) => defect.event === event)?.message);
  const register = /(Accumulator|Register)( \S+\[\d+\])?( of A)? (read|written) at /.exec(message);
  if (register) {
    const [, what, name, ofA, done] = register;
    return `${done === "read" ? "reads" : "writes"} ${name ? "" : "an "}${what.toLowerCase()}${name ?? ""}${ofA ?? ""}`;
  }
  const index = /Invalid index (-?\d+) at .* in block \([^)]*\) (.+) has \d+ element/.exec(message);
  if (index) return `uses index ${index[1]} of ${index[2]}`;
  return /Uninitialized __local__ memory read/.test(message) ? "reads a local variable" : OPS[OP_LOCAL];
}

function barrierName(recording, index) {
  const barrier = recording.header.barriers[index];
  if (!barrier) return "a barrier";
  if (barrier.kind === "copies") return "its asynchronous copies";
  if (barrier.kind === "bulk") return "its bulk copies";
  if (barrier.kind === "products") return "its products";
  return barrier.name || `a barrier (${barrier.kind})`;
}

const VERBS = ["reads", "writes", "updates atomically", "copies asynchronously to", "loads fragments from", "loads transposed fragments from"];

const lanesText = (mask) => {
  let lanes = 0;
  for (let rest = mask; rest; rest &= rest - 1) ++lanes;
  return lanes === 1 ? `lane ${31 - Math.clz32(mask)}` : counted(lanes, "lane");
};

// One sentence about what an event does, without its subject.
function doing(recording, event) {
  const { kind, flags, array, lanes, offset } = recording.columns;
  const { header } = recording;
  switch (kind[event]) {
    case KIND.access: {
      const to = arrayOf(recording, event), pattern = patternOf(recording, event);
      if (!to || !pattern) return "accesses memory";
      const verb = VERBS[flags[event]] ?? "accesses";
      return `${verb} ${to.name}: ${lanesText(lanes[event])} x ${counted(pattern.size, "byte")}`;
    }
    case KIND.op: {
      const product = flags[event] === OP_MMA ? header.products[array[event]] : null;
      if (flags[event] === OP_LOCAL) return localUse(recording, event);
      return product ? `mma m${product.m}n${product.n}k${product.k}` : opName(flags[event]);
    }
    case KIND.wait: return `begins to wait for ${barrierName(recording, array[event])}${phaseText(recording, event)}`;
    case KIND.goOn: return `goes on after ${barrierName(recording, array[event])}${phaseText(recording, event)}`;
    case KIND.arrive: return `arrives at ${barrierName(recording, array[event])} and does not wait`;
    case KIND.commit:
      return `commits a group to ${barrierName(recording, array[event]).replace("its ", "")}` +
        `${offset[event] === NONE ? "" : `: group ${offset[event]}`}`;
    case KIND.copyBegins: case KIND.copyLands: {
      const copy = header.copies[array[event]] ?? {};
      const tensor = header.arrays[copy.tensor]?.name ?? "a tensor";
      const box = (copy.box ?? []).join(" x ");
      const what = `a box of ${tensor} (${box ? `${box} elements, ` : ""}${bytesText(copy.bytes ?? 0)})`;
      return kind[event] === KIND.copyBegins ? `starts the copy of ${what}` : `sees ${what} land`;
    }
    case KIND.productBegins: case KIND.productEnds: {
      const product = header.products[array[event]] ?? {};
      const name = `wgmma m${product.m}n${product.n}k${product.k}`;
      return kind[event] === KIND.productBegins ? `starts ${name}` : `has the result of ${name}`;
    }
    case KIND.landed: return "sees a group of its copies land";
    case KIND.defect: return `has a defect: ${shortMessage(header.defects[array[event]]?.message)}`;
    case KIND.end: return "ends";
    default: return "does something that this page does not know";
  }
}

function phaseText(recording, event) {
  const { array, offset } = recording.columns;
  if (offset[event] === NONE) return "";
  const kind = recording.header.barriers[array[event]]?.kind;
  return kind === "mbarrier" ? `, phase ${offset[event]}`
    : kind === "copies" || kind === "products" || kind === "bulk" ? `, group ${offset[event]}` : "";
}

// What an access costs, in words.
function costText(recording, event) {
  if (!isAccess(recording, event)) return "";
  const array = arrayOf(recording, event), pattern = patternOf(recording, event);
  const { taken, ideal, unit } = costOf(array, pattern);
  if (taken === 0) return "";
  if (isShared(array)) {
    return taken > ideal ? `${counted(taken, unit)} where ${number(ideal)} would do: bank conflicts`
      : `${counted(taken, unit)}, no bank conflict`;
  }
  const all = taken * SECTOR;
  return `${counted(taken, unit)}, ` + (taken > ideal ? `${percent(all - pattern.bytes, all)} of their ${bytesText(all)} not used`
    : `${percent(pattern.bytes, all)} of their ${bytesText(all)} used`);
}

const DEFECT_TITLES = {
  race: "Race", uninitialized_read: "Read of memory that nothing has written", out_of_bounds: "Access out of bounds",
  misaligned: "Misaligned access", barrier_divergence: "A barrier that some threads never reach",
  unsupported: "Not supported by the device", misuse: "Misuse", missing_fence: "Missing fence",
  wgmma: "Wrong use of wgmma",
};
const defectTitle = (defect) => DEFECT_TITLES[defect.kind] ?? "Defect";

// What the simulator says is missing between the two accesses of a race, such as "__syncthreads()".
const missingBarrier = (defect) => /\bno ((?:[^:.()]|\(\))+) between the two/.exec(shortMessage(defect.message))?.[1] ?? "";

// What the reports of a group are about: "Warps 0 and 1 use sSlice: no __syncthreads() between line 282 and line 284".
function defectText(recording, group) {
  const { header, columns } = recording;
  const text = group.race ? raceText(recording, group) : "";
  if (!text) return shortMessage(group.head.message);
  const name = knownEvent(group.second) ? header.arrays[columns.array[group.second]]?.name : "";
  return group.warps.length === 2 && name ? `Warps ${group.warps.join(" and ")} use ${name}: ${text}.` : `${text[0].toUpperCase()}${text.slice(1)}.`;
}
const shortMessage = (message) => (message ?? "").replace(/^=+\s*/gm, "").replace(/\s+/g, " ").trim();

// Frames of a site: {file, name, line, text}, innermost first.
function framesOf(recording, site) {
  return (recording.header.sites[site] ?? []).map(([file, line]) => {
    const { name, ranges } = recording.files[file];
    const range = ranges.find((one) => line >= one.first && line < one.first + one.lines.length);
    return { file, name: name.split("/").pop(), path: name, line, text: range?.lines[line - range.first] ?? "" };
  });
}
