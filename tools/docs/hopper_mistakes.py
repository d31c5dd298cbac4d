"""The mistakes that tools/docs/mistakes.py plants in chapter 09.

Texts are single statements, several statements, or expressions. A plant stands in a region: a file, or what follows a
piece of text in it up to the end of that function or struct.
"""

from __future__ import annotations

from dataclasses import dataclass

# Name: file, and the text that begins the region; empty: all of the file.
REGIONS = {
    "copies": ("copies.cuh", ""),
    "load_tile": ("copies.cuh", "void load_tile("),
    "producer": ("copies.cuh", "struct Producer {"),
    "rings": ("shared_tiles.cuh", ""),
    "consumer": ("consumer.cuh", ""),
    "products": ("products.cuh", ""),
    "maps": ("tensor_maps.cuh", ""),
    "tma store": ("tma.cuh", "void store("),
    "tma": ("tma.cuh", "    tma_attention("),
    "wgmma": ("kernel.cuh", "    wgmma_attention("),
    "specialised": ("kernel.cuh", "    specialised_attention("),
    "produce": ("kernel.cuh", "void produce("),
    "consume": ("kernel.cuh", "void consume("),
    "overlapped": ("kernel.cuh", "    overlapped_attention("),
    "step": ("kernel.cuh", "void overlapped_step("),
    "turns": ("turns.cuh", "struct Turns {"),
    "ping_pong": ("ping_pong.cuh", "    ping_pong_attention("),
    "step in turn": ("ping_pong.cuh", "void step_in_turn("),
    "gapless": ("ping_pong.cuh", "    gapless_attention("),
    "no maximum": ("no_maximum.cuh", "struct NoMaximum {"),
}

ALL = (
    "tma",
    "wgmma",
    "specialised",
    "persistent",
    "overlapped",
    "ping_pong",
    "final",
    "no_maximum",
)
WGMMA = ALL[1:]
PRODUCERS = ALL[2:]  # those with a producer warpgroup
PERSISTENT = ALL[3:]
STEPS = {  # the steps that overlap, and the variants that reach them
    "step": ("overlapped",),
    "step in turn": ("ping_pong", "final", "no_maximum"),
    "no maximum": ("no_maximum",),
}
SEARCHING_STEPS = {k: v for k, v in STEPS.items() if k != "no maximum"}
# The loops that wait for each product at once, and the first and last products of the others.
SERIAL = {
    "wgmma": ("wgmma",),
    "specialised": ("specialised",),
    "consume": ("persistent",),
}
LOOKING = {place: STEPS[place] for place in ("step in turn", "no maximum")}
FIRST = {"overlapped": ("overlapped",), "ping_pong": ("ping_pong",)}
GAPLESS = ("final", "no_maximum")

# Two blocks take more than two query tiles, and more key tiles than there are stages. In the second, keys and queries are
# ragged. In TWO_MASKED, two tiles are masked for the first consumer, which nobody precedes in its turn.
LONG = "--dtype bf16 --heads 1 --seq-q 600 --seq-k 520 --head-dim 64"
RAGGED = "--dtype bf16 --heads 2 --kv-heads 1 --seq-q 260 --seq-k 360 --head-dim 128 --causal"
SQUARE = "--dtype bf16 --heads 2 --seq-q 384 --head-dim 64 --causal"
TWO_MASKED = "--dtype bf16 --heads 2 --kv-heads 1 --seq-q 260 --seq-k 290 --head-dim 128 --causal"
INPUTS = {
    "all": (LONG, RAGGED, SQUARE),
    "wide": (RAGGED,),
    "two masked": (LONG, RAGGED, SQUARE, TWO_MASKED),
}


@dataclass(frozen=True)
class Plant:
    region: str
    before: str
    after: str
    variants: tuple[str, ...]
    also: tuple[str, str] | None = (
        None  # a second text of the region, and what it becomes
    )
    harmless: str = ""  # why nothing is to be reported


@dataclass(frozen=True)
class Mistake:
    rule: str
    name: str
    plants: tuple[Plant, ...]
    inputs: str = "all"
    only_numbers: bool = (
        False  # every instruction is right, and only the result is wrong
    )


def ring(text: str, region: str) -> str:
    """In some kernels the shared memory is `s`, in others a member of the consumer."""
    return text.replace("RING", "s." if region in IN_KERNEL else "w.s.")


IN_KERNEL = ("wgmma", "specialised", "overlapped", "ping_pong", "gapless")


def at(places: dict, before: str, after: str, harmless: str = "") -> tuple[Plant, ...]:
    return tuple(
        Plant(
            region,
            ring(before, region),
            ring(after, region),
            variants,
            harmless=harmless,
        )
        for region, variants in places.items()
    )


def one(
    region: str, before: str, after: str, variants=ALL, harmless: str = ""
) -> tuple[Plant, ...]:
    return (Plant(region, before, after, variants, harmless=harmless),)


RELEASE_K = "w.k.release(RINGk_ring);"
GAPLESS_TOP = "ptx::wgmma_wait<0>(w.rS);\n      w.reset();"
TOUCHED = "registers before the wait"
OVERWRITTEN = "shared memory still read"
IN_FLIGHT = "read while a load is in flight"
FENCE = "fence"
PARITY = "parity"
BYTES = "bytes announced"
REUSED = "stage not empty"
PROGRESS = "no progress"
DESCRIPTOR = "descriptor"
MAP = "tensor map"
OTHER = "other"
# The kinds of reports that name the mistake itself, for mistakes that cause others as well.
REPORTS = {
    TOUCHED: ("wgmma", "over_waited"),
    DESCRIPTOR: ("wgmma",),
}


WAIT_S = "ptx::wgmma_wait<0>(w.rS);"
WAIT_O = "ptx::wgmma_wait<0>(w.rO);"
ISSUE_S = "issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());\n"
COMMIT = "ptx::wgmma_commit();"


def parities_of_rings(one) -> tuple[Mistake, ...]:
    """The mistakes in Place's waits, which are in a file that chapter 10 uses, too. @param one  the chapter's function"""
    return (
        Mistake(
            PARITY,
            "the producer waits for the consumers' parity",
            one(
                "rings",
                "ptx::mbarrier_wait(&ring.empty[stage], empty_parity());",
                "ptx::mbarrier_wait(&ring.empty[stage], full_parity());",
            ),
        ),
        Mistake(
            PARITY,
            "the producer always waits for parity 1",
            one(
                "rings",
                "ptx::mbarrier_wait(&ring.empty[stage], empty_parity());",
                "ptx::mbarrier_wait(&ring.empty[stage], 1);",
            ),
        ),
        Mistake(
            PARITY,
            "consumers wait for the producer's parity",
            one(
                "rings",
                "ptx::mbarrier_wait(&ring.full[stage], full_parity());",
                "ptx::mbarrier_wait(&ring.full[stage], empty_parity());",
            ),
        ),
        Mistake(
            PARITY,
            "consumers always wait for parity 0",
            one(
                "rings",
                "ptx::mbarrier_wait(&ring.full[stage], full_parity());",
                "ptx::mbarrier_wait(&ring.full[stage], 0);",
            ),
        ),
        Mistake(
            PARITY,
            "the parity does not change when the ring begins again",
            one("rings", "parity ^= 1;", ";"),
        ),
    )


MISTAKES = (
    # --- accumulators or registers of A before the wait
    Mistake(
        TOUCHED,
        "no wait for the scores",
        at(SERIAL | FIRST, WAIT_S, ";")
        + at(STEPS, "ptx::wgmma_wait<1>(w.rS);", ";")
        + one("gapless", GAPLESS_TOP, "w.reset();", GAPLESS),
    ),
    Mistake(
        TOUCHED,
        "the wait for the scores leaves one group more in flight",
        at(SERIAL | FIRST, WAIT_S, "ptx::wgmma_wait<1>(w.rS);")
        + at(STEPS, "ptx::wgmma_wait<1>(w.rS);", "ptx::wgmma_wait<2>(w.rS);")
        + one("gapless", GAPLESS_TOP, "ptx::wgmma_wait<1>(w.rS); w.reset();", GAPLESS),
    ),
    Mistake(
        TOUCHED,
        "no wait for O",
        at(SERIAL | FIRST | STEPS, WAIT_O, ";")
        + one("gapless", "ptx::wgmma_wait<1>(w.rO);", ";", GAPLESS),
    ),
    Mistake(
        TOUCHED,
        "the wait for O leaves one group more in flight",
        at(SERIAL | FIRST | STEPS, WAIT_O, "ptx::wgmma_wait<1>(w.rO);")
        + one(
            "gapless",
            "ptx::wgmma_wait<1>(w.rO);",
            "ptx::wgmma_wait<2>(w.rO);",
            GAPLESS,
        ),
    ),
    Mistake(
        TOUCHED,
        "the wait names other registers",
        at(SERIAL | FIRST, WAIT_O, "ptx::wgmma_wait<0>(w.rS);")
        + at(SEARCHING_STEPS, WAIT_O, "ptx::wgmma_wait<0>(w.rS);")
        + one(
            "no maximum",
            WAIT_O,
            "ptx::wgmma_wait<0>(w.rS);",
            ("no_maximum",),
            "only products touch O before the next wait that names it, unless a row is scaled down",
        )
        + at(STEPS, "ptx::wgmma_wait<1>(w.rS);", "ptx::wgmma_wait<1>();")
        + one("gapless", "ptx::wgmma_wait<1>(w.rO);", "ptx::wgmma_wait<1>();", GAPLESS),
    ),
    Mistake(
        TOUCHED,
        "O is rescaled before its wait",
        at(
            SEARCHING_STEPS,
            WAIT_O
            + "\n  w.v.release(RINGv_ring);\n  if (grew) scale_rows(w.rO, correction);",
            "if (grew) scale_rows(w.rO, correction);"
            + WAIT_O
            + "w.v.release(RINGv_ring);",
        ),
    ),
    Mistake(
        TOUCHED,
        "P is packed before the products that read it are done",
        at(
            {"step": ("overlapped",)},
            "exponentials<Tile>(w.rS, w.state, w.factor);",
            "exponentials<Tile>(w.rS, w.state, w.factor); pack_p<Tile>(w.rP, w.rS);",
        )
        + at(
            {"step in turn": STEPS["step in turn"], "no maximum": ("no_maximum",)},
            WAIT_O,
            "pack_p<Tile>(w.rP, w.rS);" + WAIT_O,
        ),
        "two masked",
    ),
    Mistake(
        TOUCHED,
        "no commit after Q K^T",
        at(
            {"step": ("overlapped",), "step in turn": STEPS["step in turn"]},
            COMMIT + "\n  issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
            "issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
        )
        + at(
            {"no maximum": ("no_maximum",)},
            COMMIT + "\n    issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
            "issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
        )
        + at({"wgmma": ("wgmma",)}, COMMIT + "\n    " + WAIT_S, WAIT_S)
        + at(
            {
                "specialised": ("specialised",),
                "consume": ("persistent",),
                "overlapped": ("overlapped",),
            },
            COMMIT + "\n      " + WAIT_S,
            WAIT_S,
        ),
    ),
    Mistake(
        TOUCHED,
        "no commit after P V",
        at({"wgmma": ("wgmma",)}, COMMIT + "\n    " + WAIT_O, WAIT_O)
        + at(
            {
                "specialised": ("specialised",),
                "consume": ("persistent",),
                "overlapped": ("overlapped",),
            },
            COMMIT + "\n      " + WAIT_O,
            WAIT_O,
        )
        + at(
            {"step": ("overlapped",)},
            COMMIT + "\n  ptx::wgmma_wait<1>(w.rS);",
            "ptx::wgmma_wait<1>(w.rS);",
        ),
    ),
    Mistake(
        TOUCHED,
        "no wgmma_fence before Q K^T",
        at(
            {
                "specialised": ("specialised",),
                "consume": ("persistent",),
                "overlapped": ("overlapped",),
            },
            "ptx::wgmma_fence();\n      issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());",
            "issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());",
        )
        + at(
            {"wgmma": ("wgmma",)},
            "ptx::wgmma_fence();\n    issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());",
            "issue_qk<Tile>(w.rS, w.q_rows(), w.k_tile());",
        )
        + at(STEPS, "ptx::wgmma_fence();", ";"),
    ),
    Mistake(
        TOUCHED,
        "no wgmma_fence before P V",
        at(
            {
                "specialised": ("specialised",),
                "consume": ("persistent",),
                "overlapped": ("overlapped",),
                "ping_pong": ("ping_pong",),
                "gapless": GAPLESS,
            },
            "ptx::wgmma_fence();\n      issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
            "issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
        )
        + at(
            {"wgmma": ("wgmma",)},
            "ptx::wgmma_fence();\n    issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
            "issue_pv<Tile>(w.rO, w.rP, w.v_tile());",
        ),
    ),
    Mistake(
        TOUCHED,
        "the last product is not waited for",
        one(
            "gapless",
            "ptx::wgmma_wait<0>(w.rS);\n    turn.end();",
            "turn.end();",
            GAPLESS,
        ),
    ),
    Mistake(
        TOUCHED,
        "waits for both products at once",
        at(STEPS, "ptx::wgmma_wait<1>(w.rS);", "ptx::wgmma_wait<0>(w.rS);")
        + one(
            "gapless",
            "ptx::wgmma_wait<1>(w.rO);",
            "ptx::wgmma_wait<0>(w.rO);",
            GAPLESS,
        ),
    ),
    # --- shared memory that a product or a store still reads
    Mistake(
        OVERWRITTEN,
        "K is released before the wait",
        at(
            {"wgmma": ("wgmma",)},
            WAIT_S + "\n    " + RELEASE_K,
            RELEASE_K + WAIT_S,
        )
        + at(
            {
                "specialised": ("specialised",),
                "consume": ("persistent",),
                "overlapped": ("overlapped",),
                "ping_pong": ("ping_pong",),
            },
            WAIT_S + "\n      " + RELEASE_K,
            RELEASE_K + WAIT_S,
        )
        + at(
            {"step": ("overlapped",), "step in turn": STEPS["step in turn"]},
            "ptx::wgmma_wait<1>(w.rS);\n  " + RELEASE_K,
            RELEASE_K + "ptx::wgmma_wait<1>(w.rS);",
        )
        + one(
            "gapless",
            GAPLESS_TOP + "\n      w.k.release(s.k_ring);",
            "w.k.release(s.k_ring);" + GAPLESS_TOP,
            GAPLESS,
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "V is released before the wait",
        at(
            {"wgmma": ("wgmma",)},
            WAIT_O + "\n    w.v.release(RINGv_ring);",
            "w.v.release(RINGv_ring);" + WAIT_O,
        )
        + at(
            {
                "specialised": ("specialised",),
                "consume": ("persistent",),
            },
            WAIT_O + "\n      w.v.release(RINGv_ring);",
            "w.v.release(RINGv_ring);" + WAIT_O,
        )
        + at(
            {"overlapped": ("overlapped",), "ping_pong": ("ping_pong",)},
            WAIT_O + "\n      w.v.release(RINGv_ring);",
            "w.v.release(RINGv_ring);" + WAIT_O,
            "the next copy to this stage is for another query tile, and the one buffer of Q is released after the wait",
        )
        + at(
            {"step": ("overlapped",), "step in turn": STEPS["step in turn"]},
            WAIT_O + "\n  w.v.release(RINGv_ring);",
            "w.v.release(RINGv_ring);" + WAIT_O,
        )
        + one(
            "gapless",
            "ptx::wgmma_wait<1>(w.rO);\n      w.v.release(s.v_ring);",
            "w.v.release(s.v_ring); ptx::wgmma_wait<1>(w.rO);",
            GAPLESS,
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "K is released before all lanes have read it",
        one(
            "tma",
            "__syncwarp();  // all lanes have read K\n",
            ";\n",
            ("tma",),
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "Q is released before O is stored",
        at(
            {
                "overlapped": ("overlapped",),
                "ping_pong": ("ping_pong",),
                "gapless": GAPLESS,
            },
            "w.store(maps, tile);\n      w.q.release(s.q_ring);",
            "w.q.leave(s.q_ring); w.store(maps, tile); w.q.advance();",
        )
        + one(
            "consume",
            "w.store(maps, tile);\n    w.q.release(w.s.q_ring);",
            "w.q.leave(w.s.q_ring); w.store(maps, tile); w.q.advance();",
            ("persistent",),
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "O overwrites Q before all warps have multiplied it",
        one("consumer", "ptx::barrier_sync(8 + index, 128);", ";", ALL[1:5])
        + one(
            "consumer",
            "ptx::barrier_sync(8 + index, 128);",
            ";",
            ALL[5:],
            "all warps have waited for the last product with Q before they meet to take their last turn",
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "nobody waits until the store has read O",
        one("consumer", "ptx::bulk_wait_read<0>();", ";", WGMMA)
        + one("tma store", "ptx::bulk_wait_read<0>();", ";", ("tma",)),
    ),
    Mistake(
        OVERWRITTEN,
        "no bulk_commit after the stores",
        one("consumer", "ptx::bulk_commit();", ";", WGMMA)
        + one("tma store", "ptx::bulk_commit();", ";", ("tma",)),
    ),
    Mistake(
        OVERWRITTEN,
        "the unused product reads where O is stored",
        one(
            "gapless",
            "more ? w.q_rows(next) : w.first_k",
            "more ? w.q_rows(next) : w.q_rows()",
            GAPLESS,
        ),
    ),
    # --- data whose load is in flight
    Mistake(
        IN_FLIGHT,
        "no wait for Q",
        one("tma", "ptx::mbarrier_wait(&s.q_ring.full[0], 0);", ";", ("tma",))
        + at(SERIAL | FIRST, "w.q.wait_full(RINGq_ring);", ";")
        + one("gapless", "w.q.wait_full(s.q_ring);", ";", GAPLESS)
        + one("gapless", "next.wait_full(s.q_ring);", ";", GAPLESS),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for K",
        one("tma", "at.wait_full(s.k_ring);", ";", ("tma",))
        + at(
            SERIAL | FIRST | {"step": STEPS["step"]},
            "w.k.wait_full(RINGk_ring);",
            ";",
        )
        + at(LOOKING, "w.k.wait_unless_landed(RINGk_ring);", ";")
        + one("gapless", "if (more) w.k.wait_full(s.k_ring);", ";", GAPLESS),
        "two masked",
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for V",
        one("tma", "at.wait_full(s.v_ring);", ";", ("tma",))
        + at(
            SERIAL | FIRST | {"step": STEPS["step"]},
            "w.v.wait_full(RINGv_ring);",
            ";",
        )
        + at(LOOKING, "w.v.wait_unless_landed(RINGv_ring);", ";")
        + one(
            "gapless",
            "w.v.wait_full(s.v_ring);\n      if (more) w.k.wait_full(s.k_ring);",
            "if (more) w.k.wait_full(s.k_ring);",
            GAPLESS,
        ),
        "two masked",
    ),
    Mistake(
        IN_FLIGHT,
        "the unused product reads what nothing has written",
        one(
            "gapless",
            "issue_qk<Tile>(w.rS, more ? w.q_rows(next) : w.first_k, more ? w.k_tile() : w.first_k);",
            "issue_qk<Tile>(w.rS, w.q_rows(next), w.k_tile());",
            GAPLESS,
        ),
    ),
    Mistake(
        IN_FLIGHT,
        "the query tile is written after its announcement",
        one(
            "producer",
            """s.query_tile[q.stage] = tile;
    load_tile<Tile::Br, Tile::kCols>(s.q[q.stage], maps.q, s.q_ring.full[q.stage], tile.first_query,
                                     tile.head);""",
            """load_tile<Tile::Br, Tile::kCols>(s.q[q.stage], maps.q, s.q_ring.full[q.stage], tile.first_query,
                                     tile.head);
    s.query_tile[q.stage] = tile;""",
            PERSISTENT,
        ),
    ),
    # --- fences
    Mistake(
        FENCE,
        "no fence_proxy_async",
        one("consumer", "ptx::fence_proxy_async();", ";", WGMMA)
        + one("tma store", "ptx::fence_proxy_async();", ";", ("tma",)),
    ),
    Mistake(
        FENCE,
        "only the lane that copies executes the fence",
        one(
            "consumer",
            "ptx::fence_proxy_async();",
            "if (lane == 0) ptx::fence_proxy_async();",
            WGMMA,
        )
        + one(
            "tma store",
            "ptx::fence_proxy_async();",
            "if (lane == 0) ptx::fence_proxy_async();",
            ("tma",),
        ),
    ),
    Mistake(
        FENCE,
        "no barrier between the fence and the copy",
        one("consumer", "__syncwarp();", ";", WGMMA)
        + one("tma store", "__syncwarp();", ";", ("tma",)),
    ),
    Mistake(
        FENCE,
        "no fence after mbarrier_init",
        one("rings", "ptx::fence_mbarrier_init();", ";"),
    ),
    Mistake(
        FENCE,
        "no __syncthreads after mbarrier_init",
        one("rings", "__syncthreads();", ";"),
    ),
    # --- parity
    *parities_of_rings(one),
    Mistake(
        PARITY,
        "Q's wait has the wrong parity",
        one(
            "tma",
            "ptx::mbarrier_wait(&s.q_ring.full[0], 0);",
            "ptx::mbarrier_wait(&s.q_ring.full[0], 1);",
            ("tma",),
        ),
    ),
    # --- bytes
    Mistake(
        BYTES,
        "announces too many bytes",
        one(
            "load_tile",
            "kRows * kCols * int(sizeof(T))",
            "kRows * kCols * int(sizeof(float))",
        ),
    ),
    Mistake(
        BYTES,
        "announces half of the bytes",
        one(
            "load_tile",
            "kRows * kCols * int(sizeof(T))",
            "kRows * kCols * int(sizeof(T)) / 2",
        ),
    ),
    Mistake(
        BYTES,
        "announces nothing",
        one(
            "load_tile",
            "ptx::mbarrier_arrive_expect_tx(&full, kRows * kCols * int(sizeof(T)));",
            "ptx::mbarrier_arrive(&full);",
        ),
    ),
    Mistake(
        BYTES,
        "copies only the first panel",
        one("load_tile", "panel < kCols / 64", "panel < 1"),
        "wide",
    ),
    Mistake(
        BYTES,
        "announces half of Q",
        one("tma", "int(sizeof s.q)", "int(sizeof s.q) / 2", ("tma",)),
    ),
    # --- a stage that is not empty
    Mistake(
        REUSED,
        "no wait until K is no longer needed",
        one("producer", "k.wait_empty(s.k_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until V is no longer needed",
        one("producer", "v.wait_empty(s.v_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until Q is no longer needed",
        one(
            "producer",
            "q.wait_empty(s.q_ring);\n    s.query_tile[q.stage] = tile;",
            "s.query_tile[q.stage] = tile;",
            PERSISTENT,
        ),
    ),
    Mistake(
        REUSED,
        "`empty` expects one warp of each consumer",
        one(
            "rings",
            "init_ring(s.k_ring, 4 * Tile::kConsumers);",
            "init_ring(s.k_ring, Tile::kConsumers);",
        ),
    ),
    Mistake(
        REUSED,
        "all lanes release",
        one("rings", "threadIdx.x % 32 == 0", "true"),
    ),
    # --- no progress
    Mistake(
        PROGRESS,
        "`empty` expects all threads",
        one(
            "rings",
            "init_ring(s.k_ring, 4 * Tile::kConsumers);",
            "init_ring(s.k_ring, 128 * Tile::kConsumers);",
        ),
    ),
    Mistake(
        PROGRESS,
        "nobody releases K",
        at(
            SERIAL | {"step": ("overlapped",), "step in turn": ("ping_pong", "final")},
            RELEASE_K,
            "w.k.advance();",
        )
        + one("tma", "at.leave(s.k_ring);", ";", ("tma",))
        + one(
            "no maximum",
            ring(RELEASE_K, "no maximum"),
            "w.k.advance();",
            ("no_maximum",),
        ),
    ),
    Mistake(
        PROGRESS,
        "nobody releases V",
        at(
            SERIAL | {"step": ("overlapped",), "step in turn": ("ping_pong", "final")},
            "w.v.release(RINGv_ring);",
            "w.v.advance();",
        )
        + one("tma", "at.leave(s.v_ring);", ";", ("tma",))
        + one(
            "no maximum",
            "w.v.release(w.s.v_ring);",
            "w.v.advance();",
            ("no_maximum",),
        ),
    ),
    Mistake(
        PROGRESS,
        "nobody releases Q",
        one("consume", "w.q.release(w.s.q_ring);", "w.q.advance();", ("persistent",))
        + at(
            {
                "overlapped": ("overlapped",),
                "ping_pong": ("ping_pong",),
                "gapless": GAPLESS,
            },
            "w.q.release(s.q_ring);",
            "w.q.advance();",
        ),
    ),
    Mistake(
        PROGRESS,
        "hidden tiles are not released",
        one(
            "consumer",
            "k.wait_full(s.k_ring);\n    k.release(s.k_ring);\n    v.wait_full(s.v_ring);\n    v.release(s.v_ring);",
            "k.advance(); v.advance();",
            ("specialised", "persistent", "overlapped", "ping_pong"),
        ),
    ),
    Mistake(
        PROGRESS,
        "the producer does not say that there are no more tiles",
        one("produce", "producer.end();", ";", PERSISTENT),
    ),
    Mistake(
        PROGRESS,
        "a turn is not passed on",
        at(
            {"step in turn": ("ping_pong", "final"), "no maximum": ("no_maximum",)},
            "turn.pass();\n",
            ";\n",
        ),
    ),
    Mistake(
        PROGRESS,
        "a turn too few is taken",
        one(
            "ping_pong",
            "turn.take();\n        turn.pass();\n        w.skip_tile();",
            "w.skip_tile();",
            ("ping_pong",),
        )
        + one(
            "gapless",
            "turn.take();\n          turn.pass();",
            ";",
            GAPLESS,
        ),
    ),
    Mistake(
        PROGRESS,
        "nobody begins with the turns",
        at({"ping_pong": ("ping_pong",), "gapless": GAPLESS}, "turn.begin();", ";"),
    ),
    Mistake(
        PROGRESS,
        "nobody takes the last turn",
        at(
            {"ping_pong": ("ping_pong",), "gapless": GAPLESS},
            "turn.end();",
            ";",
            "a block may end with arrivals at a barrier where nobody waits",
        ),
    ),
    Mistake(
        PROGRESS,
        "a turn is for fewer threads",
        one(
            "turns",
            "ptx::barrier_sync(1 + index, 256);",
            "ptx::barrier_sync(1 + index, 128);",
            ("ping_pong", "final", "no_maximum"),
        ),
    ),
    Mistake(
        PROGRESS,
        "one warp leaves before the product",
        one(
            "wgmma",
            "w.q.wait_full(s.q_ring);",
            "if (threadIdx.x >= 96) return; w.q.wait_full(s.q_ring);",
            ("wgmma",),
        )
        + one(
            "specialised",
            "w.q.wait_full(s.q_ring);",
            "if (threadIdx.x % 128 >= 96) return; w.q.wait_full(s.q_ring);",
            ("specialised",),
        ),
    ),
    # --- descriptors
    Mistake(
        DESCRIPTOR,
        "the address is not divided by 16",
        one(
            "products",
            "std::uint64_t(ptx::shared_address(s) / 16)",
            "std::uint64_t(ptx::shared_address(s))",
            WGMMA,
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "rows are not swizzled",
        one("products", "std::uint64_t(1) << 62", "std::uint64_t(0)", WGMMA),
    ),
    Mistake(
        DESCRIPTOR,
        "another swizzle",
        one("products", "std::uint64_t(1) << 62", "std::uint64_t(2) << 62", WGMMA),
    ),
    Mistake(
        DESCRIPTOR,
        "the distance between rows, not between groups of 8",
        one(
            "products",
            "std::uint64_t(8 * 128 / 16) << 32",
            "std::uint64_t(128 / 16) << 32",
            WGMMA,
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "the two distances are exchanged",
        one(
            "products",
            "std::uint64_t(panel_bytes / 16) << 16 |\n         std::uint64_t(8 * 128 / 16) << 32",
            "std::uint64_t(panel_bytes / 16) << 32 | std::uint64_t(8 * 128 / 16) << 16",
            WGMMA,
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "the distance of V's panels is that of a row",
        one("consumer", "Tile::Bc * 128", "128", WGMMA),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "the rows of another consumer",
        one("consumer", "64 * 64 * consumer", "64 * consumer", PRODUCERS),
    ),
    Mistake(
        DESCRIPTOR,
        "a step of 16 columns is 16 bytes",
        one("products", "step % 4 * 32", "step % 4 * 16", WGMMA),
    ),
    Mistake(
        DESCRIPTOR,
        "a step of 16 columns is 64 bytes",
        one("products", "step % 4 * 32", "step % 4 * 64", WGMMA),
    ),
    Mistake(
        DESCRIPTOR,
        "only K moves by 16 bytes",
        one(
            "products",
            "panel * Tile::Bc * 128 + in_panel",
            "panel * Tile::Bc * 128 + in_panel / 2",
            WGMMA,
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "K's panels are half as far apart",
        one(
            "products",
            "panel * Tile::Bc * 128 + in_panel",
            "panel * Tile::Bc * 64 + in_panel",
            WGMMA,
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "K's second panel is not used",
        one(
            "products",
            "panel * Tile::Bc * 128 + in_panel",
            "in_panel",
            WGMMA,
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "Q's panels are half as far apart",
        one(
            "products",
            "panel * Tile::Br * 128 + in_panel",
            "panel * Tile::Br * 64 + in_panel",
            WGMMA,
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "Q's second panel is not used",
        one("products", "panel * Tile::Br * 128 + in_panel", "in_panel", WGMMA),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "V moves by 8 rows instead of 16",
        one("products", "step * 16 * 128", "step * 8 * 128", WGMMA),
    ),
    Mistake(
        DESCRIPTOR,
        "V does not move",
        one("products", "step * 16 * 128", "0", WGMMA),
    ),
    Mistake(
        DESCRIPTOR,
        "V is not transposed",
        one(
            "products",
            "ptx::wgmma<typename Tile::T, true, true>(rO, rP[step], moved(v, step * 16 * 128));",
            "ptx::wgmma<typename Tile::T, true, false>(rO, rP[step], moved(v, step * 16 * 128));",
            WGMMA,
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "stages are counted in elements",
        one(
            "consumer",
            "k.stage * int(sizeof s.k[0])",
            "k.stage * int(sizeof s.k[0]) / 2",
            WGMMA,
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "panels are loaded to the wrong place",
        one("load_tile", "s + panel * kRows * 64", "s + panel * kRows * 32"),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "the columns of a panel are counted in bytes",
        one(
            "load_tile",
            "64 * panel",
            "128 * panel",
        ),
        "wide",
        only_numbers=True,
    ),
    # --- tensor maps
    Mistake(
        MAP,
        "a row of the box is longer than the swizzle",
        one("maps", "CU_TENSOR_MAP_SWIZZLE_128B", "CU_TENSOR_MAP_SWIZZLE_64B"),
    ),
    Mistake(
        MAP,
        "a box of more than 256 rows",
        one("maps", "cuuint32_t(box_rows)", "cuuint32_t(257)"),
    ),
    Mistake(
        MAP,
        "a stride that is not a multiple of 16",
        one("maps", "of.strides.head * sizeof(T)", "of.strides.head * sizeof(T) + 8"),
    ),
    Mistake(
        MAP,
        "an address that is not a multiple of 16",
        one("maps", "const_cast<T*>(of.first)", "const_cast<T*>(of.first) + 1"),
    ),
    Mistake(
        MAP,
        "a dimension of length 0",
        one("maps", "cuuint64_t(of.heads)", "cuuint64_t(0)"),
    ),
    # --- without a rule of its own
    Mistake(
        OTHER,
        "no mask",
        at(
            {"wgmma": ("wgmma",)},
            "if (j >= keys.first_masked) mask<Tile>(w.rS, a, tile.first_query + w.warp_row, j * Tile::Bc);",
            ";",
        )
        + one(
            "specialised",
            "if (j >= keys.first_masked) mask<Tile>(w.rS, a, tile.first_query + w.warp_row, j * Tile::Bc);",
            ";",
            ("specialised",),
        )
        + at(
            {
                "overlapped": ("overlapped",),
                "ping_pong": ("ping_pong",),
                "gapless": GAPLESS,
            },
            "if (j >= keys.first_masked) mask<Tile>(w.rS, a, first_query, j * Tile::Bc);",
            ";",
        )
        + one(
            "consume",
            "if (j >= keys.first_masked) mask<Tile>(w.rS, w.a, tile.first_query + w.warp_row, j * Tile::Bc);",
            ";",
            ("persistent",),
        )
        + one(
            "tma",
            "if ((j + 1) * Bc > a.visible_keys(first_query)) ch07::mask<Tile>(rS, a, first_query, j * Bc);",
            ";",
            ("tma",),
        ),
        only_numbers=True,
    ),
    Mistake(
        OTHER,
        "O is not rescaled",
        at(
            {
                "step": ("overlapped",),
                "step in turn": ("ping_pong", "final", "no_maximum"),
            },
            "if (grew) scale_rows(w.rO, correction);",
            ";",
        ),
        only_numbers=True,
    ),
    Mistake(
        OTHER,
        "O is stored without the swizzle",
        one("consumer", "n % 8 ^ lane / 4", "n % 8", WGMMA),
        only_numbers=True,
    ),
    Mistake(
        OTHER,
        "the store reads panels at the wrong distance",
        one("consumer", "sO + panel * Tile::Br * 64", "sO + panel * 16 * 64", WGMMA),
        "wide",
    ),
    Mistake(
        OTHER,
        "nobody takes turns",
        (
            Plant(
                "turns",
                "ptx::barrier_sync(1 + index, 256);",
                ";",
                ("ping_pong", "final", "no_maximum"),
                ("ptx::barrier_arrive(1 + (index + 1) % kConsumers, 256);", ";"),
                "turns change only the speed",
            ),
        ),
    ),
)
