"""Recordings made without the simulator: small kernels written out as the events they would leave.

    python3 -m tests.watch.synthetic FOLDER

writes all of them.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.watch.recording import NONE

ACCESS, OP, WAIT, GO_ON, ARRIVE, COMMIT, COPY, COPY_LANDS = range(1, 9)
PRODUCT, PRODUCT_ENDS, LANDED, DEFECT, END = range(9, 14)
READ, WRITE, ATOMIC, ASYNC, LDMATRIX, LDMATRIX_TRANSPOSED = range(6)
SYNCWARP, SHUFFLE, VOTE, MMA = range(4)
LOCAL_USE = 9
ALL = 0xFFFFFFFF


def shared_wavefronts(addresses: Sequence[int], size: int) -> tuple[int, int]:
    """Passes over the banks, and the fewest that this size needs: groups of lanes, as the simulator counts
    them.
    """
    at_a_time = 32 if size <= 4 else 128 // size
    passes = ideal = 0
    for first in range(0, len(addresses), at_a_time):
        words: dict[int, set[int]] = {}
        for address in addresses[first : first + at_a_time]:
            for word in range(address // 4, (address + size - 1) // 4 + 1):
                words.setdefault(word % 32, set()).add(word)
        passes += max(len(of_bank) for of_bank in words.values())
        ideal += 1
    return passes, ideal


class Synthetic:
    """Collects the events of one block and writes a recording."""

    def __init__(self, kernel: str, warps: int, source: str | None = None):
        self.header: dict = {
            "format": 1,
            "program": "synthetic",
            "device": "gpusim",
            "sections": [],
            "sites": [],
            "arrays": [],
            "patterns": [],
            "barriers": [],
            "copies": [],
            "products": [],
            "defects": [],
        }
        self.events: list[tuple] = []
        self.source = source
        self._known: dict[str, int] = {}
        self.start(kernel, warps)

    def start(self, kernel: str, warps: int, block: tuple = (0, 0, 0)) -> None:
        """Begins a section."""
        self.finish_section()
        self.warps = warps
        self.now = [0] * warps
        self.header["sections"].append(
            {
                "launch": len(self.header["sections"]),
                "kernel": kernel,
                "grid": [4, 1, 1],
                "block_dim": [32 * warps, 1, 1],
                "block": list(block),
                "cluster_rank": 0,
                "warps": warps,
                "begin": len(self.events),
                "end": len(self.events),
                "complete": True,
                "left_out": 0,
            }
        )

    def finish_section(self) -> None:
        if self.header["sections"]:
            self.header["sections"][-1]["end"] = len(self.events)

    def _number(self, table: str, entry: dict) -> int:
        key = table + json.dumps(entry)
        if key not in self._known:
            self._known[key] = len(self.header[table])
            self.header[table].append(entry)
        return self._known[key]

    def site(self, *lines: int, built_in: str = "") -> int:
        named = [f"{self.source or '/nowhere/kernel.cuh'}:{line}" for line in lines]
        return self._number("sites", {"lines": named, "built_in": built_in})

    def array(self, space: str, name: str, size: int, **more: object) -> int:
        entry = {"space": space, "name": name, "bytes": size, **more}
        if space == "shared":
            entry["section"] = len(self.header["sections"]) - 1
        return self._number("arrays", entry)

    def barrier(self, kind: str, name: str) -> int:
        return self._number("barriers", {"kind": kind, "name": name})

    def event(self, kind: int, warp: int, step: int = 1, **more: int) -> int:
        """Adds an event at the warp's time, which then moves on by `step`. Returns its index."""
        values = {
            "flags": 0,
            "site": NONE,
            "lanes": ALL,
            "array": NONE,
            "pattern": NONE,
            "offset": NONE,
            "link": NONE,
            "time": self.now[warp],
        } | more
        record = (kind, values["flags"], warp, 0)
        words = ("site", "lanes", "array", "pattern", "offset", "link", "time")
        self.events.append(record + tuple(values[w] for w in words))
        self.now[warp] += step
        return len(self.events) - 1

    def access(
        self,
        warp: int,
        array: int,
        offsets: Sequence[int],
        size: int,
        *,
        flags: int = READ,
        lanes: int = ALL,
        step: int = 1,
        **more: int,
    ) -> int:
        """@param offsets  of each active lane, in bytes from the array's beginning"""
        active = [lane for lane in range(32) if lanes >> lane & 1]
        relative = [0] * 32
        for lane, offset in zip(active, offsets, strict=True):
            relative[lane] = offset - offsets[0]
        entry = self.header["arrays"][array]
        touched = {b for o in offsets for b in range(o, o + size)}
        pattern = {"size": size, "offsets": relative, "bytes": len(touched)}
        if entry["space"] == "shared":
            begin = entry.get("begin", 0)
            taken, ideal = shared_wavefronts([begin + o for o in offsets], size)
            pattern |= {"sectors": 0, "wavefronts": taken, "ideal": ideal}
        else:
            sectors = len({b // 32 for b in touched})
            pattern |= {"sectors": sectors, "wavefronts": 0, "ideal": 0}
        return self.event(
            ACCESS,
            warp,
            step,
            flags=flags,
            lanes=lanes,
            array=array,
            pattern=self._number("patterns", pattern),
            offset=offsets[0],
            **more,
        )

    def block_barrier(self, site: int, name: str = "__syncthreads") -> None:
        """Every warp waits for the last one."""
        barrier = self.barrier("block", name)
        for warp in range(self.warps):
            self.event(WAIT, warp, array=barrier, site=site)
        after = max(self.now)
        for warp in range(self.warps):
            self.now[warp] = after
            self.event(GO_ON, warp, array=barrier, site=site)

    def end(self) -> None:
        for warp in range(self.warps):
            self.event(END, warp)

    def write(self, path: Path) -> Path:
        self.finish_section()
        self.header["event_count"] = len(self.events)
        header = json.dumps(self.header).encode()
        header += b" " * (-(len(header) + 12) % 4)
        body = b"".join(struct.pack("<4B7I", *event) for event in self.events)
        path.write_bytes(b"GPUSIMR1" + len(header).to_bytes(4, "little") + header + body)
        return path


TRANSPOSE = """// A tile of 32 x 32 floats, transposed through shared memory.
__global__ void transpose(const float* x, float* y) {
  __shared__ float sTile[32][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int row = warp; row < 32; row += 4) {
    sTile[row][lane] = x[row * 32 + lane];
  }
  __syncthreads();  // the tile is complete
  for (int row = warp; row < 32; row += 4) {
    y[row * 32 + lane] = sTile[lane][row];
  }
  for (int row = warp; row < 32; row += 4) {
    y[lane * 32 + row] += 1.0f;
  }
}
"""


def transpose(folder: Path) -> Synthetic:
    """32-way bank conflicts in line 10, and one float of each sector used in line 13."""
    source = folder / "transpose.cu"
    source.write_text(TRANSPOSE, encoding="utf-8")
    made = Synthetic("transpose(const float*, float*)", 4, str(source))
    x = made.array("global", "x", 4096, shape=[32, 32], type="f32")
    y = made.array("global", "y", 4096, shape=[32, 32], type="f32")
    tile = made.array("shared", "sTile", 4096, shape=[32, 32], type="f32", begin=0)
    lanes = range(32)
    for first in range(0, 32, 4):
        for warp in range(4):
            row = first + warp
            line = [128 * row + 4 * lane for lane in lanes]
            load = made.access(warp, x, line, 4, site=made.site(6))
            made.access(warp, tile, line, 4, flags=WRITE, site=made.site(6), link=load)
    made.block_barrier(made.site(8, built_in="__syncthreads"))
    for first in range(0, 32, 4):
        for warp in range(4):
            row = first + warp
            column = [128 * lane + 4 * row for lane in lanes]
            line = [128 * row + 4 * lane for lane in lanes]
            load = made.access(warp, tile, column, 4, site=made.site(10))
            made.access(warp, y, line, 4, flags=WRITE, site=made.site(10), link=load)
    for first in range(0, 32, 4):
        for warp in range(4):
            column = [128 * lane + 4 * (first + warp) for lane in lanes]
            made.access(warp, y, column, 4, site=made.site(13))
            made.access(warp, y, column, 4, flags=WRITE, site=made.site(13))
    made.end()
    return made


PIPELINE = """// K tiles of 32 x 64 halves: cp.async into stages, ldmatrix, mma.
template <int kStages>
__global__ void pipeline(const half* K, float* O, int tiles) {
  extern __shared__ half sK[];
  for (int tile = 0; tile < kStages - 1; ++tile) load_tile(sK, K, tile);
  for (int tile = 0; tile < tiles; ++tile) {
    if (kStages == 1) load_tile(sK, K, tile);
    cp_async_wait<kStages == 1 ? 0 : kStages - 2>();
    __syncthreads();
    if (kStages > 1) load_tile(sK, K, tile + kStages - 1);
    for (int k = 0; k < 8; ++k) {
      ldmatrix(rK, sK + k);
      mma(acc, rQ, rK);
    }
    if (kStages == 1) __syncthreads();
  }
  store(O, acc);
}

void load_tile(half* sK, const half* K, int tile) {
  for (int step = 0; step < 2; ++step) {
    cp_async_16(sK + mine, K + mine);
  }
  cp_async_commit();
}
"""


def pipeline(folder: Path, stages: int, tiles: int = 10, warps: int = 4) -> Synthetic:
    """With one stage, nothing happens between the copy of a tile and the wait for it."""
    source = folder / "pipeline.cu"
    source.write_text(PIPELINE, encoding="utf-8")
    made = Synthetic(f"pipeline<{stages}>", warps, str(source))
    tile_bytes = 32 * 128
    keys = made.array("global", "K", tiles * tile_bytes, shape=[32 * tiles, 64], type="f16")
    out = made.array("global", "O", 64 * 64 * 4, shape=[64, 64], type="f32")
    shared = made.array(
        "shared", "sK", stages * tile_bytes, shape=[32 * stages, 64], type="f16", begin=0, row_bytes=128
    )
    copies = made.barrier("copies", "cp.async")
    product = made._number("products", {"m": 16, "n": 8, "k": 16, "type": "f16"})
    groups = [[] for _ in range(warps)]
    waited = [0] * warps

    def load(warp: int, tile: int, caller: int) -> None:
        if tile < tiles:
            for step in range(2):
                first = (step * warps + warp) * 512
                offsets = [first + 16 * lane for lane in range(32)]
                site = made.site(22, caller)
                read = made.access(
                    warp, keys, [tile * tile_bytes + o for o in offsets], 16, site=site, step=0
                )
                rows = [o // 128 * 128 + ((o // 16) ^ (o // 128)) % 8 * 16 for o in offsets]
                made.access(
                    warp,
                    shared,
                    [tile % stages * tile_bytes + o for o in rows],
                    16,
                    flags=ASYNC,
                    site=site,
                    link=read,
                )
        groups[warp].append(
            made.event(COMMIT, warp, array=copies, offset=len(groups[warp]), site=made.site(24, caller))
        )

    def wait(warp: int, tile: int) -> None:
        site = made.site(8)
        made.event(WAIT, warp, array=copies, offset=tile, site=site)
        for group in range(waited[warp], tile + 1):
            made.event(LANDED, warp, 0, array=copies, offset=group, link=groups[warp][group], site=site)
        waited[warp] = tile + 1
        made.event(GO_ON, warp, array=copies, offset=tile, site=site)

    for tile in range(stages - 1):
        for warp in range(warps):
            load(warp, tile, 5)
    for tile in range(tiles):
        for warp in range(warps):
            if stages == 1:
                load(warp, tile, 7)
            wait(warp, tile)
        made.block_barrier(made.site(9, built_in="__syncthreads"))
        for warp in range(warps):
            if stages > 1:
                load(warp, tile + stages - 1, 10)
            for k in range(8):
                row = [
                    tile % stages * tile_bytes
                    + (lane % 8 + k // 2 * 8) * 128
                    + ((lane // 8 + k % 2 * 4) ^ (lane % 8)) * 16
                    for lane in range(32)
                ]
                made.access(warp, shared, row, 16, flags=LDMATRIX, site=made.site(12))
                made.event(OP, warp, flags=MMA, array=product, site=made.site(13))
            made.now[warp] += 2 * warp  # warps drift apart
        if stages == 1:
            made.block_barrier(made.site(15, built_in="__syncthreads"))
    for warp in range(warps):
        offsets = [warp * 4096 + 8 * lane for lane in range(32)]
        made.access(warp, out, offsets, 8, flags=WRITE, site=made.site(17))
    made.end()
    return made


RACE = """// The maximum of four warps, without the barrier.
__global__ void block_max(const float* x, float* y) {
  __shared__ float sPartial[4];
  float m = warp_max(x[threadIdx.x]);
  if (threadIdx.x % 32 == 0) sPartial[threadIdx.x / 32] = m;
  for (int other = 0; other < 4; ++other) m = fmaxf(m, sPartial[other]);
  if (threadIdx.x == 0) *y = m;
}
"""


def race(folder: Path) -> Synthetic:
    """Warp 0 reads what warp 1 writes, with no barrier between."""
    source = folder / "race.cu"
    source.write_text(RACE, encoding="utf-8")
    made = Synthetic("block_max", 4, str(source))
    x = made.array("global", "x", 512, shape=[128], type="f32")
    y = made.array("global", "y", 4, shape=[1], type="f32")
    partial = made.array("shared", "sPartial", 16, shape=[4], type="f32", begin=0)
    writes = []
    for warp in range(4):
        offsets = [128 * warp + 4 * lane for lane in range(32)]
        made.access(warp, x, offsets, 4, site=made.site(4))
        for _ in range(5):
            made.event(OP, warp, flags=SHUFFLE, site=made.site(4))
        writes.append(made.access(warp, partial, [4 * warp], 4, flags=WRITE, lanes=1, site=made.site(5)))
    for warp in range(4):
        for other in range(4):
            read = made.access(warp, partial, [4 * other] * 32, 4, site=made.site(6))
            if warp == 0 and other == 1:
                made.header["defects"].append(
                    {
                        "kind": "race",
                        "message": "Race reported between Write access by thread (32,0,0) at race.cu:5 and Read"  # noqa: E501
                        " access by thread (0,0,0) at race.cu:6: no __syncthreads() between the two",
                        "event": read,
                        "rival_event": writes[1],
                        "site": made.site(6),
                        "rival_site": made.site(5),
                    }
                )
                made.event(DEFECT, warp, 0, array=0, site=made.site(6))
    made.access(0, y, [0], 4, flags=WRITE, lanes=1, site=made.site(7))
    made.end()
    return made


SLICES = """// Each warp multiplies with the slice, then replaces its part of it: no barrier between the two.
__device__ void load_line(const float* s) {
  for (int i = 0; i < 2; ++i) r[i] = s[lane + 32 * i];
}

__device__ void replace_slice(float* s) {
  s[lane + 32 * warp] = x;
  s[lane ^ 1] = x;
  __syncthreads();  // complete
}

__global__ void slices(float* s) {
  for (int slice = 0; slice < 2; ++slice) {
    load_line(s);
    replace_slice(s);
  }
}
"""


def slices(folder: Path, warps: int = 2, atomic: bool = False) -> Synthetic:
    """Four reports of one race, each of warp 0 against itself. With two warps, both use the bytes.

    @param atomic  both warps also add to a counter, which may order them"""
    source = folder / "slices.cu"
    source.write_text(SLICES, encoding="utf-8")
    made = Synthetic("slices", warps, str(source))
    s = made.array("shared", "sSlice", 256, element_bytes=4, begin=0)
    line = [4 * lane for lane in range(32)]
    swapped = [4 * (lane ^ 1) for lane in range(32)]
    for _ in range(2):
        accesses: dict[int, list[int]] = {}
        for warp in range(warps):
            if atomic:
                counter = made.array("shared", "counter", 4, begin=256)
                made.access(warp, counter, [0], 4, flags=ATOMIC, lanes=1, site=made.site(13))
            half = [128 + at for at in line]
            accesses[warp] = [
                made.access(warp, s, line, 4, site=made.site(3, 14)),
                made.access(warp, s, half, 4, site=made.site(3, 14)),
                made.access(warp, s, [128 * warp + at for at in line], 4, flags=WRITE, site=made.site(7, 15)),
                made.access(warp, s, swapped, 4, flags=WRITE, site=made.site(8, 15)),
            ]
        for own, line_number in ((2, 7), (3, 8)):
            made.header["defects"].append(
                {
                    "kind": "race",
                    "message": f"Race reported between Write access by thread (0,0,0) at slices.cu:{line_number} (from"  # noqa: E501
                    " slices.cu:15) and Read access by thread (1,0,0) at slices.cu:3 (from slices.cu:14): no"
                    " __syncwarp() or __syncthreads() between the two",
                    "event": accesses[0][own],
                    "rival_event": accesses[0][0],
                    "site": made.site(line_number, 15),
                    "rival_site": made.site(3, 14),
                    "thread": 0,
                    "rival_thread": 1,
                }
            )
        made.block_barrier(made.site(9, 15, built_in="__syncthreads"))
    made.end()
    return made


def hopper(folder: Path, tiles: int = 6) -> Synthetic:
    """A producer warp copies boxes with the copy engine; four warps multiply. Its source does not exist."""
    made = Synthetic("warp_specialised", 5)
    keys = made.array("global", "K", tiles * 8192, shape=[64 * tiles, 64], type="bf16")
    shared = made.array("shared", "s.k", 2 * 8192, shape=[128, 64], type="bf16", begin=1024)
    queries = made.array("shared", "s.q", 8192, shape=[64, 64], type="bf16", begin=1024 + 16384)
    full = [made.barrier("mbarrier", f"s.ring.full[{i}]") for i in range(2)]
    empty = [made.barrier("mbarrier", f"s.ring.empty[{i}]") for i in range(2)]
    done = made.barrier("products", "wgmma")
    b = [{"array": shared, "offset": 8192 * i, "major": "K", "swizzle": 128} for i in range(2)]
    product = [
        made._number(
            "products",
            {
                "m": 64,
                "n": 64,
                "k": 16,
                "type": "bf16",
                "a": {"array": queries, "offset": 0, "major": "K", "swizzle": 128},
                "b": operand,
            },
        )
        for operand in b
    ]
    released = [0, 0]
    for tile in range(tiles):
        stage = tile % 2
        if tile >= 2:
            made.event(WAIT, 4, array=empty[stage], offset=tile // 2, site=made.site(40))
            made.now[4] = max(made.now[4], released[stage] + 1)
            made.event(GO_ON, 4, array=empty[stage], offset=tile // 2, site=made.site(40))
        made.header["copies"].append(
            {
                "kind": "load",
                "tensor": keys,
                "coordinates": [0, 64 * tile],
                "box": [64, 64],
                "element_bytes": 2,
                "shared": shared,
                "shared_offset": 8192 * stage,
                "bytes": 8192,
                "swizzle": 128,
                "barrier": full[stage],
            }
        )
        begin = made.event(COPY, 4, array=len(made.header["copies"]) - 1, lanes=1, site=made.site(42))
        issued = made.now[4]
        for warp in range(4):
            made.event(WAIT, warp, array=full[stage], offset=tile // 2, site=made.site(60))
            made.now[warp] = max(made.now[warp], issued + 4)
        made.event(
            COPY_LANDS,
            4,
            0,
            array=len(made.header["copies"]) - 1,
            link=begin,
            time=max(issued + 3, made.now[0] - 1),
        )
        for warp in range(4):
            made.event(GO_ON, warp, array=full[stage], offset=tile // 2, site=made.site(60))
            begins = [made.event(PRODUCT, warp, array=product[stage], site=made.site(62)) for _ in range(4)]
            made.event(COMMIT, warp, array=done, offset=tile, site=made.site(63))
            made.event(WAIT, warp, array=done, offset=tile, site=made.site(64))
            for started in begins:
                made.event(PRODUCT_ENDS, warp, 0, array=product[stage], link=started)
            made.event(GO_ON, warp, array=done, offset=tile, site=made.site(64))
            made.event(ARRIVE, warp, array=empty[stage], lanes=1, site=made.site(66))
        released[stage] = max(made.now[:4])
    made.end()
    return made


def large(folder: Path, events: int = 400_000, warps: int = 8) -> Synthetic:
    """The pipeline over and over, for as many events as a recording holds at most; then it stops in the
    middle.
    """
    made = pipeline(folder, 3, 40, warps)
    once = [event for event in made.events if event[0] != END]
    length = max(event[-1] for event in once) + 1
    made.events.clear()
    while len(made.events) < events:
        first, later = len(made.events), len(made.events) // len(once) * length
        made.events += [
            (*rest, link if link == NONE else link + first, time + later) for *rest, link, time in once
        ]
    del made.events[events:]
    for section in made.header["sections"]:
        section["complete"], section["left_out"] = False, 123_456
    return made


EARLY = """__global__ void early(float* y) {
  multiply(d);
  y[threadIdx.x] = 1.0f;
  y[threadIdx.x] = d[5];
}
"""


def early(folder: Path) -> Synthetic:
    """Warp 1 reads an accumulator before its product is done, after seven other steps."""
    source = folder / "early.cu"
    source.write_text(EARLY, encoding="utf-8")
    made = Synthetic("early", 4, str(source))
    y = made.array("global", "y", 512, shape=[128], type="f32")
    for warp in range(4):
        offsets = [128 * warp + 4 * lane for lane in range(32)]
        for _ in range(7):
            made.access(warp, y, offsets, 4, flags=WRITE, site=made.site(3))
        if warp == 1:
            event = made.event(OP, warp, flags=LOCAL_USE, lanes=1, site=made.site(4))
            made.header["defects"].append(
                {
                    "kind": "wgmma",
                    "message": "Wgmma error detected. Accumulator d[5] read at early.cu:4 before the wait, by thread"  # noqa: E501
                    " (32,0,0) in block (0,0,0)\n    the product was issued at early.cu:2, and no "
                    "wgmma_wait() has"
                    " followed",
                    "event": event,
                    "site": made.site(4),
                    "thread": 32,
                }
            )
            made.event(DEFECT, warp, 0, array=0, link=event, site=made.site(4))
        made.access(warp, y, offsets, 4, flags=WRITE, site=made.site(4))
    made.end()
    return made


ALL_OF_THEM: dict[str, Callable[[Path], Synthetic]] = {
    "transpose": transpose,
    "stages_1": lambda folder: pipeline(folder, 1),
    "stages_3": lambda folder: pipeline(folder, 3),
    "race": race,
    "hopper": hopper,
}


def idle(folder: Path) -> Synthetic:
    """A block that reads how much there is to do, and finds nothing."""
    made = Synthetic("idle", 1)
    made.access(0, made.array("global", "key_lengths", 4), [0], 4, lanes=1, site=made.site(2))
    made.end()
    return made


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (ALL_OF_THEM | {"large": large}).items():
        made = make(folder).write(folder / f"{name}.rec")
        print(f"{made}: {made.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
