"""The mistakes that tools/docs/mistakes.py plants in chapter 10: those of chapter 09, where they can be made, and their
like for dS, P and dQ, which the consumers hand to each other.

Regions and plants are as in hopper_mistakes.py. Chapter 10 takes rings, descriptors and tensor maps from files of chapter
09, and mistakes are planted in these as well.
"""

from __future__ import annotations

from .hopper_mistakes import (
    BYTES,
    DESCRIPTOR,
    FENCE,
    IN_FLIGHT,
    MAP,
    OTHER,
    OVERWRITTEN,
    PARITY,
    PROGRESS,
    REUSED,
    TOUCHED,
    Mistake,
    Plant,
    parities_of_rings,
)

# Name: file, and the text that begins the region; empty: all of the file.
REGIONS = {
    "load_queries": ("copies.cuh", "void load_queries("),
    "load_panels": ("copies.cuh", "void load_panels("),
    "load_keys": ("copies.cuh", "void load_keys("),
    "load_query_tile": ("copies.cuh", "void load_query_tile("),
    "rings": ("09_hopper/shared_tiles.cuh", ""),
    "descriptor": ("09_hopper/products.cuh", ""),
    "maps": ("09_hopper/tensor_maps.cuh", ""),
    "init_tiles": ("shared_tiles.cuh", "void init_tiles("),
    "init": ("shared_tiles.cuh", "void init_barriers(KeyTileMemory<Tile>& s)"),
    "init with dQ": (
        "shared_tiles.cuh",
        "void init_barriers(KeyTileMemoryWithDq<Tile>& s)",
    ),
    "warp_arrives": ("shared_tiles.cuh", "void warp_arrives("),
    "products": ("products.cuh", ""),
    "issue_scores": ("products.cuh", "void issue_scores("),
    "issue_key_gradient": ("products.cuh", "void issue_key_gradient("),
    "issue_dq": ("products.cuh", "void issue_dq("),
    "store_pair": ("gradients.cuh", "void store_pair("),
    "store_rows": ("consumer.cuh", "void store_rows("),
    "consumer": ("consumer.cuh", "struct Consumer {"),
    "add_dq": ("kernel.cuh", "void add_dq("),
    "wgmma": ("kernel.cuh", "    wgmma_gradients("),
    "register_sums": ("kernel.cuh", "    register_sums_gradients("),
    "overlapped": ("kernel.cuh", "    overlapped_gradients("),
    "decoupled": ("kernel.cuh", "    decoupled_gradients("),
    "init persistent": (
        "persistent.cuh",
        "void init_barriers(PersistentMemory<Tile>& s)",
    ),
    "produce tiles": ("persistent.cuh", "void produce_tiles("),
    "persistent": ("persistent.cuh", "    persistent_gradients("),
    "launch persistent": ("chapter.cu", "struct Persistent :"),
    "init pair": ("pair.cuh", "void init_barriers(PairMemory<Tile>& s)"),
    "pair walk": ("pair.cuh", "struct PairWalk :"),
    "produce pair": ("pair.cuh", "void produce_pair("),
    "exchange": ("pair.cuh", "void exchange_ds("),
    "issue_more_dq": ("pair.cuh", "void issue_more_dq("),
    "pair consumer": ("pair.cuh", "struct PairConsumer :"),
    "pair file": ("pair.cuh", ""),
    "pair": ("pair.cuh", "    pair_gradients("),
    "init owners": ("owners.cuh", "void init_barriers(OwnersMemory<Tile>& s)"),
    "owner": ("owners.cuh", "struct Owner {"),
    "own_dv": ("owners.cuh", "void own_dv("),
    "own_dk": ("owners.cuh", "void own_dk("),
    "owners": ("owners.cuh", "    two_owners_gradients("),
    "keys": ("deterministic.cuh", "    key_gradients("),
    "query consumer": ("deterministic.cuh", "struct QueryConsumer {"),
    "queries": ("deterministic.cuh", "    query_gradients("),
}

ALL = (
    "wgmma",
    "register_sums",
    "overlapped",
    "decoupled",
    "persistent",
    "pair",
    "final",
    "deterministic",
)
# `final` is `decoupled`, unless head_dim is 256: it is run with head_dim 256 alone.
FUSED = tuple(v for v in ALL if v != "deterministic")
NOT_OWNERS = tuple(v for v in ALL if v != "final")
OVERLAPPING = ALL[2:6] + ALL[7:]  # steps of struct Consumer
NOT_PAIR = tuple(v for v in OVERLAPPING if v != "pair")
DECOUPLED = ALL[3:6]  # those that store zeros before the first step

# Two blocks or more, more query tiles than stages. The second input has two heads for each of K and V, a mask, and ragged
# ends; the third a single query tile and a single key tile.
LONG = "--dtype bf16 --heads 1 --seq-q 500 --seq-k 260 --head-dim 64"
RAGGED = "--dtype bf16 --heads 2 --kv-heads 1 --seq-q 150 --seq-k 200 --head-dim 128 --causal"
ONE_TILE = "--dtype bf16 --heads 1 --seq-q 40 --seq-k 50 --head-dim 128"
# `deterministic` pads queries to a multiple of 128, which is one tile only if head_dim is 64.
ONE_TILE_OF_128 = "--dtype bf16 --heads 1 --seq-q 40 --seq-k 50 --head-dim 64"
WIDE_LONG = "--dtype bf16 --heads 1 --seq-q 260 --seq-k 70 --head-dim 256"
WIDE_RAGGED = (
    "--dtype bf16 --heads 2 --kv-heads 1 --seq-q 90 --seq-k 100 --head-dim 256 --causal"
)
INPUTS = {
    "all": (LONG, RAGGED, ONE_TILE),
    "wide": (RAGGED,),
    "one tile": (ONE_TILE, ONE_TILE_OF_128),
}
INPUTS_OF_FINAL = {"all": (WIDE_LONG, WIDE_RAGGED), "wide": (WIDE_RAGGED,)}
# Two blocks take five and four key tiles.
MANY_TILES = "--dtype bf16 --heads 1 --seq-q 300 --seq-k 520 --head-dim 64"
RAGGED_TILES = "--dtype bf16 --batch 2 --heads 2 --kv-heads 1 --seq-q 150 --seq-k 200 --head-dim 128 --causal"
INPUTS_OF_PERSISTENT = INPUTS | {"all": (MANY_TILES, RAGGED_TILES, ONE_TILE)}


def inputs_of(kind: str, variant: str) -> tuple[str, ...]:
    special = {"final": INPUTS_OF_FINAL, "persistent": INPUTS_OF_PERSISTENT}
    return special.get(variant, INPUTS)[kind]


def one(
    region: str,
    before: str,
    after: str,
    variants: tuple[str, ...] | None = None,
    harmless: str = "",
    also: tuple[str, str] | None = None,
) -> tuple[Plant, ...]:
    """@param variants  those that reach the region; None: the kernel's own"""
    reached = variants or REACHED[region]
    return (Plant(region, before, after, reached, also, harmless),)


def each(regions: tuple[str, ...], before: str, after: str, harmless: str = ""):
    """The same statements of several main loops."""
    plants = (
        one(region, in_loop(region, before), after, None, harmless)
        for region in regions
    )
    return sum(plants, ())


def in_loop(region: str, lines: str) -> str:
    """The main loop of `persistent` is in another loop, and its lines are indented by two more."""
    return lines.replace(NL, NL + "  ") if region == "persistent" else lines


REACHED = {
    "wgmma": ("wgmma",),
    "add_dq": ("wgmma",),
    "init with dQ": ("wgmma",),
    "register_sums": ("register_sums",),
    "overlapped": ("overlapped",),
    "decoupled": ("decoupled",),
    "init": ("register_sums", "overlapped", "decoupled", "deterministic"),
    "init persistent": ("persistent",),
    "produce tiles": ("persistent",),
    "persistent": ("persistent",),
    "launch persistent": ("persistent",),
    "init pair": ("pair",),
    "pair walk": ("pair",),
    "produce pair": ("pair",),
    "exchange": ("pair",),
    "issue_more_dq": ("pair",),
    "pair consumer": ("pair",),
    "pair file": ("pair",),
    "pair": ("pair",),
    "consumer": OVERLAPPING,
    "warp_arrives": FUSED,
    "init owners": ("final",),
    "owner": ("final",),
    "own_dv": ("final",),
    "own_dk": ("final",),
    "owners": ("final",),
    "keys": ("deterministic",),
    "query consumer": ("deterministic",),
    "queries": ("deterministic",),
    "issue_dq": FUSED,
} | {
    region: ALL
    for region in (
        "load_queries",
        "load_panels",
        "load_keys",
        "load_query_tile",
        "rings",
        "descriptor",
        "maps",
        "init_tiles",
        "products",
        "issue_scores",
        "issue_key_gradient",
        "store_pair",
        "store_rows",
    )
}
CLUSTER = "two blocks"
QUEUE = "blocks that stay"
INITS = (
    "init",
    "init with dQ",
    "init persistent",
    "init pair",
    "init owners",
    "queries",
)
PROXIES = ("register_sums", "overlapped", "decoupled", "persistent", "own_dk")
SERIAL = ("wgmma", "register_sums")  # S and dP are waited for in the same step
LOOPS = (
    "overlapped",
    "decoupled",
    "persistent",
    "keys",
)  # dK and the next S are in flight at the end

# The kernels that wait for K and V once.
ONCE = (*SERIAL, *(loop for loop in LOOPS if loop != "persistent"), "pair", "owners")

NL = "\n      "  # to the next line of a main loop
NL4 = "\n    "  # of a kernel's consumers, or of a member function
WAIT_TOP = "ptx::wgmma_wait<0>(w.rS, w.rdK);" + NL + "w.release_q_before(walk);"
WAIT_DQ = "ptx::wgmma_wait<1>(w.rdQ, w.rdV);"
LEAVE_DO = "w.at.leave(s.do_ring);"
RELEASE_DS = "ds.release(s.ds_ring);"
RELEASE_Q = "w.at.release(s.q_ring);"
COMMIT = "ptx::wgmma_commit();"
PROXY = "ptx::fence_proxy_async();"
ISSUE_S = "issue_scores<Tile>(w.rS, w.k_rows, w.in_stage(w.first_q));"
ISSUE_DP = "issue_scores<Tile>(w.rdP, w.v_rows, w.in_stage(w.first_do));"
ISSUE_DV = "issue_key_gradient<Tile>(w.rdV, w.rP, w.in_stage(w.first_do_summed));"
ISSUE_DK = "issue_key_gradient<Tile>(w.rdK, w.rdS, w.in_stage(w.first_q_summed));"
ISSUE_DQ = "issue_dq<Tile>(w.rdQ, w.ds(ds.stage), w.k_of_dq);"
ISSUE_OLD_DQ = "issue_dq<Tile>(w.rdQ, w.ds(multiplied.stage), w.k_of_dq);"
OWN_DQ = "issue_dq<Tile>(w.rdQ, w.ds_tile(), w.k_of_dq);"
NEXT_S = (
    "issue_scores<Tile>(rS, k_rows, more ? in_stage(first_q) : descriptor(s.k, 16));"
)
OWN_S = "issue_scores<Tile>(rS, k, w.in_stage(q));"
OWN_DP = "issue_scores<Tile>(rdP, v, w.in_stage(d_o));"
OWN_DV = "issue_key_gradient<Tile>(w.rSum, rP, w.in_stage(d_o));"
SHARED_DP = "issue_scores<Tile>(rdP, v_rows, in_stage(first_do));"
SHARED_DV = "issue_key_gradient<Tile>(rdV, rP, in_stage(first_do_summed));"
QUERY_S = "ch09::issue_qk<Tile>(w.rS, w.q_rows, w.in_stage(w.first_k));"
QUERY_DP = "ch09::issue_qk<Tile>(w.rdP, w.do_rows, w.in_stage(w.first_v));"
QUERY_DQ = "ch09::issue_pv<Tile>(w.rdQ, w.rdS, w.in_stage(w.first_k_summed));"
KV_FULL = "ptx::mbarrier_wait(&s.kv_full, 0);"
KV_FULL_AGAIN = "ptx::mbarrier_wait(&s.kv_full, of_keys.parity);"
KV_EMPTY = "ptx::mbarrier_wait(&s.kv_empty, of_keys.parity ^ 1);"
TAKE = KV_EMPTY + NL4 + "s.key_tile = n;"  # the producer's next key tile
END = KV_EMPTY + "\n  s.key_tile = -1;"  # when there is none
WAIT_ZEROS = "stored.wait_empty(s.ds_ring);" + NL + "w.store_zeros(stored);"
STORE_DS = "store_ds<Tile>(s.ds[stored.stage], w.rdS, w.warp_key);"
ADD_DQ = "add_to_sums<Tile>(sums, w.rdQ, w.index);"
PAIR_TOP = "ptx::wgmma_wait<0>(w.rS, w.rdK);" + NL + "if (!first) w.release_q(1);"
PAIR_OWN = "ptx::wgmma_wait<0>(w.rS, w.rdK);" + NL + "w.release_q(0);"
PAIR_DV = "ptx::wgmma_wait<0>(w.rdV);"
PAIR_OWN_DV = "ptx::wgmma_wait<1>(w.rdV);"
PAIR_DQ = "ptx::wgmma_wait<1>(w.rdQ);"
ARRIVE_SENT = "warp_arrives(pair.sent_ring.full[0]);"
ARRIVE_OWN = "warp_arrives(s.ds_ring.full[0]);"
EMPTY_RECEIVED = "ptx::mbarrier_wait(&s.received_ring.empty[0], at.parity);"
ANNOUNCE_DS = "ptx::mbarrier_arrive_expect_tx(&s.landed, sizeof s.received);"
ALLOW = "ptx::mbarrier_arrive_cluster(ptx::mapa(&s.may_send, other));"
MAY_SEND = "ptx::mbarrier_wait_cluster(&s.may_send, at.parity);"
SEND = "ptx::bulk_copy_cluster(ptx::mapa(s.received, other), s.sent, sizeof s.sent, ptx::mapa(&s.landed, other));"
LANDED = "ptx::mbarrier_wait_cluster(&s.landed, at.parity);"
PASS_ON = "ptx::mbarrier_arrive(&s.received_ring.full[0]);"
THANK = "ptx::mbarrier_arrive_cluster(ptx::mapa(&s.copied, other));"
COPIED = "ptx::mbarrier_wait_cluster(&s.copied, at.parity);"
LAST_OWN = (
    "return PairWalk<Tile>(this->a, this->keys, rank).end_head * (this->a.padded_queries / Tile::Br) - 2 +\n"
    "           rank;"
)
END_SYNC = (
    "// Nobody ends while the other block may still write here. exchange_ds() waits for all of that; this does not rely on it.\n"
    "  ptx::barrier_cluster_wait();"
)
CLUSTER_SYNC = "ptx::barrier_cluster_arrive();\n  ptx::barrier_cluster_wait();"
WAITS_OF_EXCHANGE = (MAY_SEND, LANDED, COPIED)  # for the other block
LAST_Q = (
    "if (threadIdx.x % 32 == 0)  // the last Q\n"
    "        ptx::mbarrier_arrive(&s.q_ring.empty[(at.stage + Tile::kStages - 1) % Tile::kStages]);"
)
ARRIVE_DS = "warp_arrives(s.ds_ring.full[ds.stage]);"
ARRIVE_DQ = "warp_arrives(with_dq.dq_ring.full[0]);"
# Why an early release does no harm.
Q_FIRST = "the producer waits for Q's stage before it loads the next dO, and Q is released after this product"
STEP_BETWEEN = (
    "dS is stored in this stage two steps later, and the step in between waits for all warps' dS, which they store"
    " after this wait"
)
MASK = "if (walk.masked(a, keys)) mask<Tile>(w.rS, a, walk.first_query(), keys.first_key + w.warp_key);"

MISTAKES = (
    # --- accumulators or registers of A before the wait
    Mistake(
        TOUCHED,
        "no wait for S",
        each(SERIAL, "ptx::wgmma_wait<1>(w.rS);", ";")
        + each(LOOPS, WAIT_TOP, "w.release_q_before(walk);")
        + one("own_dv", "ptx::wgmma_wait<0>(rS);", ";")
        + one("queries", "ptx::wgmma_wait<1>(w.rS, w.rdQ);", ";")
        + one("pair", PAIR_TOP, "if (!first) w.release_q(1);")
        + one("pair", PAIR_OWN, "w.release_q(0);"),
    ),
    Mistake(
        TOUCHED,
        "the wait for S leaves one group more in flight",
        each(SERIAL, "ptx::wgmma_wait<1>(w.rS);", "ptx::wgmma_wait<2>(w.rS);")
        + each(LOOPS, WAIT_TOP, WAIT_TOP.replace("<0>", "<1>"))
        + one("own_dv", "ptx::wgmma_wait<0>(rS);", "ptx::wgmma_wait<1>(rS);")
        + one(
            "queries",
            "ptx::wgmma_wait<1>(w.rS, w.rdQ);",
            "ptx::wgmma_wait<2>(w.rS, w.rdQ);",
        )
        + one("pair", PAIR_TOP, PAIR_TOP.replace("<0>", "<1>"))
        + one("pair", PAIR_OWN, PAIR_OWN.replace("<0>", "<1>")),
    ),
    Mistake(
        TOUCHED,
        "no wait for dP",
        each((*SERIAL, "queries"), "ptx::wgmma_wait<0>(w.rdP);", ";")
        + one("consumer", "ptx::wgmma_wait<1>(rdP);", ";")
        + one("own_dk", "ptx::wgmma_wait<0>(rdP);", ";"),
    ),
    Mistake(
        TOUCHED,
        "the wait for dP leaves one group more in flight",
        each(
            (*SERIAL, "queries"),
            "ptx::wgmma_wait<0>(w.rdP);",
            "ptx::wgmma_wait<1>(w.rdP);",
        )
        + one("consumer", "ptx::wgmma_wait<1>(rdP);", "ptx::wgmma_wait<2>(rdP);")
        + one("own_dk", "ptx::wgmma_wait<0>(rdP);", "ptx::wgmma_wait<1>(rdP);"),
    ),
    Mistake(
        TOUCHED,
        "no wait for dV",
        each(("decoupled", "persistent", "keys"), "ptx::wgmma_wait<0>(w.rdV);", ";")
        + one("own_dv", "ptx::wgmma_wait<0>(w.rSum);", ";")
        + one(
            "pair",
            PAIR_DV,
            ";",
            harmless="the wait for dQ is for this older group, too, dV is named before it is read, and "
            + Q_FIRST,
        )
        + one("pair", PAIR_OWN_DV, ";"),
    ),
    Mistake(
        TOUCHED,
        "the wait for dV leaves one group more in flight",
        each(
            ("decoupled", "persistent", "keys"),
            "ptx::wgmma_wait<0>(w.rdV);",
            "ptx::wgmma_wait<1>(w.rdV);",
        )
        + one("own_dv", "ptx::wgmma_wait<0>(w.rSum);", "ptx::wgmma_wait<1>(w.rSum);")
        + one("pair", PAIR_DV, "ptx::wgmma_wait<1>(w.rdV);")
        + one("pair", PAIR_OWN_DV, "ptx::wgmma_wait<2>(w.rdV);"),
    ),
    Mistake(
        TOUCHED,
        "no wait for dQ",
        each((*SERIAL, "overlapped"), WAIT_DQ, ";")
        + each(
            ("decoupled", "persistent", "pair", "own_dk"),
            "ptx::wgmma_wait<1>(w.rdQ);",
            ";",
        )
        + one("own_dv", "ptx::wgmma_wait<0>(w.rdQ, w.rSum);", ";")
        + one("queries", "ptx::wgmma_wait<0>(w.rdQ);", ";"),
    ),
    Mistake(
        TOUCHED,
        "the wait for dQ leaves one group more in flight",
        each((*SERIAL, "overlapped"), WAIT_DQ, WAIT_DQ.replace("<1>", "<2>"))
        + each(
            ("decoupled", "persistent", "pair", "own_dk"),
            "ptx::wgmma_wait<1>(w.rdQ);",
            "ptx::wgmma_wait<2>(w.rdQ);",
        )
        + one(
            "own_dv",
            "ptx::wgmma_wait<0>(w.rdQ, w.rSum);",
            "ptx::wgmma_wait<1>(w.rdQ, w.rSum);",
        )
        + one("queries", "ptx::wgmma_wait<0>(w.rdQ);", "ptx::wgmma_wait<1>(w.rdQ);"),
    ),
    Mistake(
        TOUCHED,
        "no wait for dK",
        each(SERIAL, "ptx::wgmma_wait<0>(w.rdK);", ";")
        + one("own_dk", "ptx::wgmma_wait<0>(w.rSum);", ";"),
    ),
    Mistake(
        TOUCHED,
        "the wait for dK leaves one group more in flight",
        each(SERIAL, "ptx::wgmma_wait<0>(w.rdK);", "ptx::wgmma_wait<1>(w.rdK);")
        + one("own_dk", "ptx::wgmma_wait<0>(w.rSum);", "ptx::wgmma_wait<1>(w.rSum);"),
    ),
    Mistake(
        TOUCHED,
        "the wait names other registers",
        each(
            (*SERIAL, "queries"),
            "ptx::wgmma_wait<0>(w.rdP);",
            "ptx::wgmma_wait<0>(w.rS);",
        )
        + one("consumer", "ptx::wgmma_wait<1>(rdP);", "ptx::wgmma_wait<1>(rS);")
        + each(
            ("decoupled", "persistent", "pair", "own_dk"),
            "ptx::wgmma_wait<1>(w.rdQ);",
            "ptx::wgmma_wait<1>();",
        )
        + one(
            "own_dv",
            "ptx::wgmma_wait<0>(w.rdQ, w.rSum);",
            "ptx::wgmma_wait<0>(w.rSum);",
        ),
    ),
    Mistake(
        TOUCHED,
        "dQ is added before its wait",
        one(
            "register_sums",
            NL.join(
                (
                    WAIT_DQ,
                    LEAVE_DO,
                    RELEASE_DS,
                    "add_to_sums<Tile>(w.sums(walk), w.rdQ, w.index);",
                )
            ),
            f"add_to_sums<Tile>(w.sums(walk), w.rdQ, w.index); {WAIT_DQ} {LEAVE_DO} {RELEASE_DS}",
        )
        + one(
            "overlapped",
            NL.join(
                (
                    WAIT_DQ,
                    LEAVE_DO,
                    RELEASE_DS,
                    "add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));",
                )
            ),
            f"add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a)); {WAIT_DQ} {LEAVE_DO} {RELEASE_DS}",
        )
        + one(
            "own_dk",
            "ptx::wgmma_wait<1>(w.rdQ);\n    w.ds.release(s.ds_ring);\n    add_to_sums<Tile>(w.sums(walk), w.rdQ, w.index, head_dim<Tile>(w.a));",
            "add_to_sums<Tile>(w.sums(walk), w.rdQ, w.index, head_dim<Tile>(w.a)); ptx::wgmma_wait<1>(w.rdQ); w.ds.release(s.ds_ring);",
        )
        + one(
            "persistent",
            in_loop(
                "persistent",
                NL.join(
                    (
                        PAIR_DQ,
                        "multiplied.release(s.ds_ring);",
                        "if (sums != nullptr) add_to_sums<Tile>(sums, w.rdQ, w.index);",
                    )
                ),
            ),
            "if (sums != nullptr) add_to_sums<Tile>(sums, w.rdQ, w.index);"
            + PAIR_DQ
            + "multiplied.release(s.ds_ring);",
        )
        + one(
            "pair",
            NL.join(
                (
                    PAIR_DQ,
                    "round.leave(pair.received_ring);",
                    "round.release(s.ds_ring);",
                    "if (!first) add_to_sums<Tile>(w.sums_of(walk.own_before()), w.rdQ, w.index);",
                )
            ),
            "if (!first) add_to_sums<Tile>(w.sums_of(walk.own_before()), w.rdQ, w.index);"
            + PAIR_DQ
            + "round.leave(pair.received_ring); round.release(s.ds_ring);",
        ),
    ),
    Mistake(
        TOUCHED,
        "P is packed after dV has been issued",
        each(
            SERIAL,
            ISSUE_DV + NL + COMMIT,
            f"{ISSUE_DV} {COMMIT} pack_operand<Tile>(w.rP, w.rS);",
        )
        + one(
            "consumer",
            "pack_operand<Tile>(rP, rS);\n    ptx::wgmma_fence();\n    issue_key_gradient<Tile>(rdV, rP, in_stage(first_do_summed));\n    "
            + COMMIT,
            "ptx::wgmma_fence(); issue_key_gradient<Tile>(rdV, rP, in_stage(first_do_summed)); "
            + COMMIT
            + " pack_operand<Tile>(rP, rS);",
        )
        + one(
            "own_dv",
            "issue_key_gradient<Tile>(w.rSum, rP, w.in_stage(d_o));\n    " + COMMIT,
            "issue_key_gradient<Tile>(w.rSum, rP, w.in_stage(d_o)); "
            + COMMIT
            + " pack_operand<Tile>(rP, rS);",
        ),
    ),
    Mistake(
        TOUCHED,
        "no commit after S",
        each(
            SERIAL,
            COMMIT + NL + "w.at.wait_full(s.do_ring);",
            "w.at.wait_full(s.do_ring);",
        )
        + one(
            "consumer",
            NEXT_S + "\n    " + COMMIT,
            NEXT_S,
        )
        + one(
            "own_dv",
            COMMIT + "\n    ptx::wgmma_wait<0>(rS);",
            "ptx::wgmma_wait<0>(rS);",
        )
        + one(
            "queries",
            COMMIT + NL + "w.at.wait_full(s.v_ring);",
            "w.at.wait_full(s.v_ring);",
        ),
    ),
    Mistake(
        TOUCHED,
        "no commit after dP",
        each(SERIAL, ISSUE_DP + NL + COMMIT, ISSUE_DP)
        + one(
            "consumer",
            SHARED_DP + "\n    " + COMMIT,
            SHARED_DP,
        )
        + one(
            "own_dk",
            COMMIT + "\n    w.p.wait_full(w.with_p.p_ring);",
            "w.p.wait_full(w.with_p.p_ring);",
        )
        + one(
            "queries",
            COMMIT + NL + "ptx::wgmma_wait<1>(w.rS, w.rdQ);",
            "ptx::wgmma_wait<1>(w.rS, w.rdQ);",
        ),
    ),
    Mistake(
        TOUCHED,
        "no commit after dQ",
        each((*SERIAL, "overlapped"), ISSUE_DQ + NL + COMMIT, ISSUE_DQ)
        + each(("decoupled", "persistent"), ISSUE_OLD_DQ + NL + COMMIT, ISSUE_OLD_DQ)
        + one("own_dk", OWN_DQ + "\n    " + COMMIT, OWN_DQ)
        + one("own_dv", OWN_DQ + NL + COMMIT, OWN_DQ)
        + one("queries", COMMIT + NL + "w.at.advance();", "w.at.advance();")
        + one("pair consumer", COMMIT, ";"),
    ),
    Mistake(
        TOUCHED,
        "no commit after dK",
        each((*SERIAL, "decoupled", "persistent"), ISSUE_DK + NL + COMMIT, ISSUE_DK)
        + one(
            "keys",
            ISSUE_DK + NL + COMMIT,
            ISSUE_DK,
            harmless="dK is then in one group with the next S, and the same wait is for both",
        )
        + one(
            "own_dk",
            "issue_key_gradient<Tile>(w.rSum, rdS, w.in_stage(q));\n    " + COMMIT,
            "issue_key_gradient<Tile>(w.rSum, rdS, w.in_stage(q));",
        )
        + one("pair", NL.join((ISSUE_DK, COMMIT, PAIR_DQ)), ISSUE_DK + PAIR_DQ)
        + one("pair", NL.join((ISSUE_DK, COMMIT, PAIR_OWN_DV)), ISSUE_DK + PAIR_OWN_DV),
    ),
    Mistake(
        TOUCHED,
        "no wgmma_fence before S",
        each(SERIAL, "ptx::wgmma_fence();" + NL + ISSUE_S, ISSUE_S)
        + one(
            "own_dv",
            "ptx::wgmma_fence();\n    " + OWN_S,
            OWN_S,
        )
        + one(
            "queries",
            "ptx::wgmma_fence();" + NL + QUERY_S,
            QUERY_S,
        )
        + one(
            "consumer",
            "ptx::wgmma_fence();\n    " + NEXT_S,
            NEXT_S,
            harmless="the fence before dQ or dK comes after the last access to rS",
        ),
    ),
    Mistake(
        TOUCHED,
        "no wgmma_fence before dP",
        each(
            SERIAL,
            "ptx::wgmma_fence();" + NL + ISSUE_DP,
            ISSUE_DP,
            "the fence before S comes after the last access to rdP",
        )
        + one(
            "consumer",
            "ptx::wgmma_fence();\n    " + SHARED_DP,
            SHARED_DP,
            harmless="the fence before S comes after the last access to rdP",
        )
        + one(
            "own_dk",
            "ptx::wgmma_fence();\n    " + OWN_DP,
            OWN_DP,
        )
        + one(
            "queries",
            "ptx::wgmma_fence();" + NL + QUERY_DP,
            QUERY_DP,
            harmless="the fence before S comes after the last access to rdP",
        ),
    ),
    Mistake(
        TOUCHED,
        "no wgmma_fence before dV",
        each(SERIAL, "ptx::wgmma_fence();" + NL + ISSUE_DV, ISSUE_DV)
        + one(
            "consumer",
            "ptx::wgmma_fence();\n    " + SHARED_DV,
            SHARED_DV,
        )
        + one(
            "own_dv",
            "ptx::wgmma_fence();\n    " + OWN_DV,
            OWN_DV,
        ),
    ),
    Mistake(
        TOUCHED,
        "no wgmma_fence before dQ and dK",
        each(
            SERIAL,
            "ptx::wgmma_fence();" + NL + ISSUE_DQ,
            ISSUE_DQ,
            "the fence before dV comes after dS has been packed and dQ added",
        )
        + one("overlapped", "ptx::wgmma_fence();" + NL + ISSUE_DQ, ISSUE_DQ)
        + each(
            ("decoupled", "persistent"),
            "ptx::wgmma_fence();" + NL + ISSUE_OLD_DQ,
            ISSUE_OLD_DQ,
        )
        + one("own_dk", "ptx::wgmma_fence();\n    " + OWN_DQ, OWN_DQ)
        + one(
            "own_dv",
            "ptx::wgmma_fence();" + NL + OWN_DQ,
            OWN_DQ,
            harmless="the fence before dV comes after dQ has been added, and dS is in shared memory",
        )
        + one("keys", "ptx::wgmma_fence();" + NL + ISSUE_DK, ISSUE_DK)
        + one(
            "queries",
            "ptx::wgmma_fence();" + NL + QUERY_DQ,
            QUERY_DQ,
        )
        + one("pair consumer", "ptx::wgmma_fence();", ";")
        + one("pair", "ptx::wgmma_fence();" + NL + ISSUE_DK, ISSUE_DK),
    ),
    Mistake(
        TOUCHED,
        "the last product is not waited for",
        each(
            ("overlapped", "keys"),
            "ptx::wgmma_wait<0>(w.rS, w.rdK);\n    w.store_gradients(maps);",
            "w.store_gradients(maps);",
        )
        + one(
            "decoupled",
            "ptx::wgmma_wait<0>(w.rdQ);\n    add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));",
            "add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(a));",
        )
        + one(
            "own_dv",
            "ptx::wgmma_wait<0>(w.rdQ);\n  add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(w.a));",
            "add_to_sums<Tile>(sums, w.rdQ, w.index, head_dim<Tile>(w.a));",
        )
        + one("persistent", "ptx::wgmma_wait<0>(w.rdQ);" + NL, ";" + NL)
        + one(
            "persistent",
            "ptx::wgmma_wait<0>(w.rS, w.rdK);" + NL + "at = w.at;",
            "at = w.at;",
        )
        + one("pair", "ptx::wgmma_wait<0>(w.rdQ);" + NL4, ";" + NL4)
        + one(
            "pair",
            "ptx::wgmma_wait<0>(w.rS, w.rdK);" + NL4 + "w.issue_dq_of_pair(round);",
            "w.issue_dq_of_pair(round);",
        ),
    ),
    Mistake(
        TOUCHED,
        "waits for two products at once",
        each(SERIAL, "ptx::wgmma_wait<1>(w.rS);", "ptx::wgmma_wait<0>(w.rS);")
        + one("consumer", "ptx::wgmma_wait<1>(rdP);", "ptx::wgmma_wait<0>(rdP);")
        + each(
            ("decoupled", "persistent", "pair", "own_dk"),
            "ptx::wgmma_wait<1>(w.rdQ);",
            "ptx::wgmma_wait<0>(w.rdQ);",
        )
        + one(
            "queries",
            "ptx::wgmma_wait<1>(w.rS, w.rdQ);",
            "ptx::wgmma_wait<0>(w.rS, w.rdQ);",
        )
        + one("pair", PAIR_OWN_DV, "ptx::wgmma_wait<0>(w.rdV);"),
    ),
    # --- shared memory that a product, a store or another warp still reads
    Mistake(
        OVERWRITTEN,
        "Q is released before the wait",
        each(
            SERIAL,
            "ptx::wgmma_wait<0>(w.rdK);" + NL + RELEASE_Q,
            RELEASE_Q + "ptx::wgmma_wait<0>(w.rdK);",
        )
        + each(
            LOOPS,
            WAIT_TOP,
            "w.release_q_before(walk); ptx::wgmma_wait<0>(w.rS, w.rdK);",
        )
        + one(
            "own_dv",
            "ptx::wgmma_wait<0>(rS);",
            "w.at.leave(s.q_ring); ptx::wgmma_wait<0>(rS);",
            harmless="the other owner releases Q, too, after it has waited for P, which comes after this S",
            also=("w.at.leave(s.q_ring);\n    w.p.advance();", "w.p.advance();"),
        )
        + one(
            "own_dk",
            "ptx::wgmma_wait<0>(w.rSum);\n    " + RELEASE_Q,
            RELEASE_Q + "ptx::wgmma_wait<0>(w.rSum);",
        )
        + one(
            "persistent",
            "ptx::wgmma_wait<0>(w.rS, w.rdK);" + NL + "at = w.at;" + NL + LAST_Q,
            "at = w.at;" + LAST_Q + "ptx::wgmma_wait<0>(w.rS, w.rdK);",
            harmless="the producer waits until dK and dV are stored before it loads another tile into this stage",
        )
        + one(
            "pair",
            PAIR_TOP,
            "if (!first) w.release_q(1); ptx::wgmma_wait<0>(w.rS, w.rdK);",
        )
        + one("pair", PAIR_OWN, "w.release_q(0); ptx::wgmma_wait<0>(w.rS, w.rdK);"),
    ),
    Mistake(
        OVERWRITTEN,
        "dO is released before the wait",
        each(
            (*SERIAL, "overlapped"),
            WAIT_DQ + NL + LEAVE_DO,
            LEAVE_DO + WAIT_DQ,
            Q_FIRST,
        )
        + each(
            ("decoupled", "persistent", "pair"),
            "ptx::wgmma_wait<0>(w.rdV);" + NL + LEAVE_DO,
            LEAVE_DO + "ptx::wgmma_wait<0>(w.rdV);",
            harmless=Q_FIRST,
        )
        + one(
            "keys",
            "ptx::wgmma_wait<0>(w.rdV);"
            + NL
            + "__syncwarp();  // all lanes have read log2_sum and delta"
            + NL
            + LEAVE_DO,
            "__syncwarp();" + LEAVE_DO + "ptx::wgmma_wait<0>(w.rdV);",
            harmless=Q_FIRST,
        )
        + one(
            "own_dv",
            "ptx::wgmma_wait<0>(w.rSum);\n    w.at.release(s.do_ring);",
            "w.at.leave(s.do_ring); ptx::wgmma_wait<0>(w.rSum); w.at.advance();",
        )
        + one(
            "own_dk",
            "ptx::wgmma_wait<0>(rdP);",
            "w.at.leave(s.do_ring); ptx::wgmma_wait<0>(rdP);",
            harmless=Q_FIRST,
            also=(
                "w.at.leave(s.do_ring);\n    w.ds.wait_empty(s.ds_ring);",
                "w.ds.wait_empty(s.ds_ring);",
            ),
        )
        + one(
            "pair", PAIR_OWN_DV + NL + LEAVE_DO, LEAVE_DO + PAIR_OWN_DV, None, Q_FIRST
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "dS is released before the wait",
        each(
            (*SERIAL, "overlapped"),
            NL.join((WAIT_DQ, LEAVE_DO, RELEASE_DS)),
            f"{RELEASE_DS} {WAIT_DQ} {LEAVE_DO}",
            STEP_BETWEEN,
        )
        + each(
            ("decoupled", "persistent"),
            "ptx::wgmma_wait<1>(w.rdQ);" + NL + "multiplied.release(s.ds_ring);",
            "multiplied.release(s.ds_ring); ptx::wgmma_wait<1>(w.rdQ);",
        )
        + one(
            "own_dv",
            "ptx::wgmma_wait<0>(w.rdQ, w.rSum);" + NL + "w.ds.release(s.ds_ring);",
            "w.ds.release(s.ds_ring); ptx::wgmma_wait<0>(w.rdQ, w.rSum);",
            harmless="the next dS comes from a P that this owner hands over after this wait",
        )
        + one(
            "own_dk",
            "ptx::wgmma_wait<1>(w.rdQ);\n    w.ds.release(s.ds_ring);",
            "w.ds.release(s.ds_ring); ptx::wgmma_wait<1>(w.rdQ);",
            harmless=STEP_BETWEEN,
        )
        + one(
            "persistent",
            "ptx::wgmma_wait<0>(w.rdQ);" + NL + "multiplied.release(s.ds_ring);",
            "multiplied.release(s.ds_ring); ptx::wgmma_wait<0>(w.rdQ);",
            harmless="the consumers meet after this wait, before they store dK and dV, and the next dS comes after that",
        )
        + one(
            "pair",
            NL.join(
                (
                    PAIR_DQ,
                    "round.leave(pair.received_ring);",
                    "round.release(s.ds_ring);",
                )
            ),
            "round.leave(s.ds_ring);" + PAIR_DQ + "round.release(pair.received_ring);",
        )
        + one(
            "pair",
            PAIR_DQ + NL + "round.leave(pair.received_ring);",
            "round.leave(pair.received_ring);" + PAIR_DQ,
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "K and V of a query tile are released before the wait",
        one(
            "queries",
            "ptx::wgmma_wait<1>(w.rS, w.rdQ);  // the dQ of the step before, too"
            + NL
            + "w.release_k_before(key);",
            "w.release_k_before(key); ptx::wgmma_wait<1>(w.rS, w.rdQ);",
        )
        + one(
            "queries",
            "ptx::wgmma_wait<0>(w.rdP);" + NL + "w.at.leave(s.v_ring);",
            "w.at.leave(s.v_ring); ptx::wgmma_wait<0>(w.rdP);",
            harmless="the producer waits for K's stage before it loads the next V, and K is released after this product",
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "a tile is released before all lanes have read it",
        one("keys", "__syncwarp();  // all lanes have read log2_sum and delta\n", ";\n")
        + one(
            "own_dk",
            "__syncwarp();  // all lanes have read P\n",
            ";\n",
            harmless="the warp meets once more before it hands over dS, for which the next writer of P waits, and before it"
            " releases Q, for which the producer waits before it loads the next dO",
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "dK and dV overwrite K and V before all warps have multiplied them",
        one(
            "consumer",
            "ptx::barrier_sync(1, 128 * Tile::kConsumers);",
            ";",
            NOT_OWNERS,
        )
        + one(
            "query consumer",
            "ptx::barrier_sync(1 + row / 64, 128);",
            ";",
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "nobody waits until the store has read the gradient",
        one("store_rows", "ptx::bulk_wait_read<0>();", ";"),
    ),
    Mistake(
        OVERWRITTEN,
        "nobody waits until dQ has been read",
        one("add_dq", "ptx::bulk_wait_read<0>();", ";"),
    ),
    Mistake(
        OVERWRITTEN,
        "K and V are given up before dK and dV are stored",
        one(
            "persistent",
            "w.store_gradients(maps);" + NL + "warp_arrives(memory.kv_empty);",
            "warp_arrives(memory.kv_empty); w.store_gradients(maps);",
        ),
    ),
    Mistake(
        OVERWRITTEN,
        "no bulk_commit after the stores",
        one("store_rows", "ptx::bulk_commit();", ";")
        + one("add_dq", "ptx::bulk_commit();", ";"),
    ),
    # --- data whose load is in flight
    Mistake(
        IN_FLIGHT,
        "no wait for Q",
        each((*SERIAL, *LOOPS, "pair", "own_dv"), "w.at.wait_full(s.q_ring);", ";")
        + one(
            "own_dk",
            "w.at.wait_full(s.q_ring);",
            ";",
            harmless="P comes from an owner that has waited for the same Q",
        )
        + one("queries", "ptx::mbarrier_wait(&s.q_full, 0);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for the next Q",
        one("consumer", "if (more) at.wait_full(s.q_ring);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for K",
        each(ONCE, KV_FULL, ";")
        + one("queries", "w.at.wait_full(s.k_ring);", ";")
        + one("persistent", KV_FULL_AGAIN, ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for the other block's K",
        one("pair", "ptx::mbarrier_wait(&pair.other_k_full, 0);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for V",
        one("queries", "w.at.wait_full(s.v_ring);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for dO",
        each((*SERIAL, "own_dv", "own_dk"), "w.at.wait_full(s.do_ring);", ";")
        + one("consumer", "at.wait_full(s.do_ring);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for dS",
        each((*SERIAL, "overlapped"), "ds.wait_full(s.ds_ring);", ";")
        + each(
            ("decoupled", "persistent"),
            "multiplied.wait_full(s.ds_ring);" + NL,
            ";" + NL,
        )
        + one(
            "decoupled",
            "multiplied.wait_full(s.ds_ring);\n    ptx::wgmma_fence();",
            "ptx::wgmma_fence();",
        )
        + one("own_dv", "w.ds.wait_full(s.ds_ring);" + NL, ";" + NL)
        + one(
            "own_dv",
            "w.ds.wait_full(s.ds_ring);\n  ptx::wgmma_fence();",
            "ptx::wgmma_fence();",
        )
        + one("own_dk", "w.ds.wait_full(s.ds_ring);", ";")
        + one(
            "persistent",
            "multiplied.wait_full(s.ds_ring);" + NL + "ptx::wgmma_fence();" + NL,
            "ptx::wgmma_fence();" + NL,
        )
        + one("pair consumer", "place.wait_full(this->s.ds_ring);", ";")
        + one("pair consumer", "place.wait_full(pair.received_ring);", ";")
        + one("exchange", "at.wait_full(s.sent_ring);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for P",
        one("own_dk", "w.p.wait_full(w.with_p.p_ring);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "no wait for dQ of the consumers",
        one("add_dq", "at.wait_full(s.dq_ring);", ";"),
    ),
    Mistake(
        IN_FLIGHT,
        "the unused product reads what nothing has written",
        one(
            "consumer",
            "more ? in_stage(first_q) : descriptor(s.k, 16)",
            "in_stage(first_q)",
            NOT_PAIR,
        )
        + one(
            "consumer",
            "more ? in_stage(first_q) : descriptor(s.k, 16)",
            "in_stage(first_q)",
            ("pair",),
            "a pair has an even number of query tiles, so that there has been one in each of the two stages",
        ),
        "one tile",
    ),
    Mistake(
        IN_FLIGHT,
        "no wait until the other block's dS has landed",
        one("exchange", LANDED, ";"),
    ),
    # --- fences
    Mistake(
        FENCE,
        "no fence_proxy_async",
        one("store_rows", PROXY, ";")
        + one("wgmma", PROXY + NL + ARRIVE_DS, ARRIVE_DS)
        + one(
            "wgmma",
            PROXY + NL + ARRIVE_DQ,
            ARRIVE_DQ,
        )
        + each(PROXIES, PROXY, ";")
        + one("pair", PROXY + NL + ARRIVE_SENT, ARRIVE_SENT)
        + one("pair", PROXY + NL + ARRIVE_OWN, ARRIVE_OWN)
        + one("consumer", PROXY, ";", DECOUPLED),
    ),
    Mistake(
        FENCE,
        "only the lane that copies or arrives executes the fence",
        one("store_rows", PROXY, f"if (lane == 0) {PROXY}")
        + one(
            "wgmma",
            PROXY + NL + ARRIVE_DS,
            f"if (threadIdx.x % 32 == 0) {PROXY} {ARRIVE_DS}",
        )
        + one(
            "wgmma",
            PROXY + NL + ARRIVE_DQ,
            f"if (threadIdx.x % 32 == 0) {PROXY} {ARRIVE_DQ}",
        )
        + one(
            "pair",
            PROXY + NL + ARRIVE_SENT,
            f"if (threadIdx.x % 32 == 0) {PROXY} {ARRIVE_SENT}",
        )
        + one(
            "pair",
            PROXY + NL + ARRIVE_OWN,
            f"if (threadIdx.x % 32 == 0) {PROXY} {ARRIVE_OWN}",
        )
        + each(
            PROXIES,
            PROXY,
            f"if (threadIdx.x % 32 == 0) {PROXY}",
        )
        + one("consumer", PROXY, f"if (threadIdx.x % 32 == 0) {PROXY}", DECOUPLED),
    ),
    Mistake(
        FENCE,
        "no barrier between the fence and the copy",
        one("store_rows", "__syncwarp();", ";")
        + one("warp_arrives", "__syncwarp();", ";"),
    ),
    Mistake(
        FENCE,
        "no fence after mbarrier_init",
        each(
            INITS,
            "ptx::fence_mbarrier_init();",
            ";",
        ),
    ),
    Mistake(
        FENCE,
        "no __syncthreads after mbarrier_init",
        each(tuple(i for i in INITS if i != "init pair"), "__syncthreads();", ";"),
    ),
    Mistake(
        FENCE,
        "no barrier of the cluster after mbarrier_init",
        one("init pair", CLUSTER_SYNC, ";")
        + one("init pair", CLUSTER_SYNC, "__syncthreads();"),
    ),
    Mistake(
        FENCE,
        "waits only for what its own block has done",
        sum(
            (
                one("exchange", wait, wait.replace("_cluster", ""))
                for wait in WAITS_OF_EXCHANGE
            ),
            (),
        ),
    ),
    # --- parity
    *parities_of_rings(one),
    Mistake(
        PARITY,
        "the wait for what is loaded once has the wrong parity",
        each(
            ONCE,
            KV_FULL,
            "ptx::mbarrier_wait(&s.kv_full, 1);",
        )
        + one(
            "queries",
            "ptx::mbarrier_wait(&s.q_full, 0);",
            "ptx::mbarrier_wait(&s.q_full, 1);",
        )
        + one(
            "pair",
            "ptx::mbarrier_wait(&pair.other_k_full, 0);",
            "ptx::mbarrier_wait(&pair.other_k_full, 1);",
        ),
    ),
    Mistake(
        PARITY,
        "K and V of a key tile have the parity of the one before",
        one("persistent", KV_FULL_AGAIN, KV_FULL_AGAIN.replace("parity", "parity ^ 1"))
        + one("produce tiles", TAKE, TAKE.replace(" ^ 1", ""))
        + one("produce tiles", END, END.replace(" ^ 1", "")),
    ),
    Mistake(
        PARITY,
        "the phase of K and V is not counted",
        each(("persistent", "produce tiles"), "of_keys.advance();", ";"),
    ),
    Mistake(
        PARITY,
        "a ring begins anew with each key tile",
        one("persistent", "w.at = at;", ";")
        + one(
            "persistent",
            WAIT_ZEROS,
            "stored = {}; " + WAIT_ZEROS,
        )
        + one(
            "persistent",
            WAIT_ZEROS,
            "multiplied = {}; " + WAIT_ZEROS,
        ),
    ),
    Mistake(
        PARITY,
        "the exchange waits for the other parity",
        sum(
            (
                one("exchange", wait, wait.replace("at.parity", "at.parity ^ 1"))
                for wait in (EMPTY_RECEIVED, *WAITS_OF_EXCHANGE)
            ),
            (),
        ),
    ),
    Mistake(
        PARITY,
        "the parity of the exchange does not change",
        one("exchange", "at.advance();", ";")
        + one("pair", "round.release(s.ds_ring);", "round.leave(s.ds_ring);"),
    ),
    # --- bytes
    Mistake(
        BYTES,
        "announces too many bytes",
        one(
            "load_queries",
            "Tile::kQueryTile * int(sizeof *s)",
            "Tile::kQueryTile * int(sizeof(float))",
        )
        + one(
            "queries",
            "ptx::mbarrier_arrive_expect_tx(&s.k_ring.full[at.stage], kTile);",
            "ptx::mbarrier_arrive_expect_tx(&s.k_ring.full[at.stage], 2 * kTile);",
        )
        + one("produce pair", "sizeof s.other_k", "2 * sizeof s.other_k")
        + one("exchange", ANNOUNCE_DS, ANNOUNCE_DS.replace("sizeof", "2 * sizeof")),
    ),
    Mistake(
        BYTES,
        "announces half of the bytes",
        one(
            "load_queries",
            "Tile::kQueryTile * int(sizeof *s)",
            "Tile::kQueryTile * int(sizeof *s) / 2",
        )
        + one(
            "queries",
            "ptx::mbarrier_arrive_expect_tx(&s.k_ring.full[at.stage], kTile);",
            "ptx::mbarrier_arrive_expect_tx(&s.k_ring.full[at.stage], kTile / 2);",
        )
        + one("produce pair", "sizeof s.other_k", "sizeof s.other_k / 2")
        + one("exchange", "sizeof s.received", "sizeof s.received / 2"),
    ),
    Mistake(
        BYTES,
        "announces nothing",
        one(
            "load_queries",
            "ptx::mbarrier_arrive_expect_tx(&full, Tile::kQueryTile * int(sizeof *s) + Tile::Br * int(sizeof(float)));",
            "ptx::mbarrier_arrive(&full);",
        )
        + one(
            "queries",
            "ptx::mbarrier_arrive_expect_tx(&s.k_ring.full[at.stage], kTile);",
            "ptx::mbarrier_arrive(&s.k_ring.full[at.stage]);",
        )
        + one(
            "produce pair",
            "ptx::mbarrier_arrive_expect_tx(&s.other_k_full, sizeof s.other_k);",
            "ptx::mbarrier_arrive(&s.other_k_full);",
        )
        + one("exchange", ANNOUNCE_DS, "ptx::mbarrier_arrive(&s.landed);"),
    ),
    Mistake(
        BYTES,
        "announces the tile without its rows' floats",
        one(
            "load_queries",
            "Tile::kQueryTile * int(sizeof *s) + Tile::Br * int(sizeof(float))",
            "Tile::kQueryTile * int(sizeof *s)",
        ),
    ),
    Mistake(
        BYTES,
        "copies only the first panel",
        one("load_panels", "panel < kCols / 64", "panel < 1"),
        "wide",
    ),
    Mistake(
        BYTES,
        "announces half of what is loaded once",
        one("load_keys", "sizeof s.k + sizeof s.v", "sizeof s.k")
        + one("queries", "sizeof s.q + sizeof s.d_o", "sizeof s.q"),
    ),
    Mistake(
        BYTES,
        "sends half of dS",
        one("exchange", "sizeof s.sent", "sizeof s.sent / 2"),
    ),
    Mistake(
        BYTES,
        "announces the other block's dS after it may be sent",
        one(
            "exchange",
            ANNOUNCE_DS + NL4 + ALLOW,
            ALLOW + ANNOUNCE_DS,
            harmless="bytes may come before they are announced: the phase is not complete before this thread arrives",
        ),
    ),
    # --- a stage that is not empty
    Mistake(
        REUSED,
        "no wait until Q is no longer needed",
        one("load_query_tile", "at.wait_empty(s.q_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until dO is no longer needed",
        one("load_query_tile", "at.wait_empty(s.do_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until K is no longer needed",
        one("queries", "at.wait_empty(s.k_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until V is no longer needed",
        one("queries", "at.wait_empty(s.v_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until dS is no longer needed",
        each((*SERIAL, "overlapped"), "ds.wait_empty(s.ds_ring);", ";")
        + one("decoupled", "stored.wait_empty(s.ds_ring);", ";")
        + one("persistent", WAIT_ZEROS, "w.store_zeros(stored);")
        + one(
            "persistent", "stored.wait_empty(s.ds_ring);\n        " + STORE_DS, STORE_DS
        )
        + one("pair", "round.wait_empty(s.ds_ring);", ";")
        + one("own_dk", "w.ds.wait_empty(s.ds_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until the dS that was sent has been copied",
        one("pair", "round.wait_empty(pair.sent_ring);", ";")
        + one("exchange", COPIED, ";"),
    ),
    Mistake(
        REUSED,
        "no wait until the other block may send",
        one("exchange", EMPTY_RECEIVED, ";"),
    ),
    Mistake(
        REUSED,
        "no wait until this block may send",
        one("exchange", MAY_SEND, ";"),
    ),
    Mistake(
        REUSED,
        "no wait until K and V are no longer needed",
        one("produce tiles", TAKE, "s.key_tile = n;")
        + one("produce tiles", END, "s.key_tile = -1;"),
    ),
    Mistake(
        REUSED,
        "no wait until P is no longer needed",
        one("own_dv", "w.p.wait_empty(w.with_p.p_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "no wait until dQ is no longer needed",
        one("wgmma", "dq.wait_empty(with_dq.dq_ring);", ";"),
    ),
    Mistake(
        REUSED,
        "`empty` expects one warp of each consumer",
        one(
            "init_tiles",
            "init_ring(s.q_ring, kWarps);",
            "init_ring(s.q_ring, Tile::kConsumers);",
        )
        + one(
            "queries",
            "init_ring(s.k_ring, 4 * Tile::kConsumers);",
            "init_ring(s.k_ring, Tile::kConsumers);",
        )
        + one("init persistent", "4 * Tile::kConsumers", "Tile::kConsumers"),
    ),
    Mistake(
        REUSED,
        "`empty` of dS expects one warp of each consumer",
        one(
            "init_tiles",
            "ptx::mbarrier_init(&s.ds_ring.empty[stage], kWarps);",
            "ptx::mbarrier_init(&s.ds_ring.empty[stage], Tile::kConsumers);",
            FUSED,
        )
        + one("init pair", "4 * Tile::kConsumers", "Tile::kConsumers"),
    ),
    Mistake(
        REUSED,
        "`full` of dS expects half of the warps",
        one(
            "init_tiles",
            "ptx::mbarrier_init(&s.ds_ring.full[stage], Tile::kDsWarps);",
            "ptx::mbarrier_init(&s.ds_ring.full[stage], Tile::kDsWarps / 2);",
            FUSED,
        )
        + one("init pair", "Tile::kDsWarps", "Tile::kDsWarps / 2"),
    ),
    Mistake(
        REUSED,
        "all lanes release",
        one("rings", "threadIdx.x % 32 == 0", "true"),
    ),
    Mistake(
        REUSED,
        "all lanes arrive",
        one("warp_arrives", "threadIdx.x % 32 == 0", "true"),
    ),
    # --- no progress
    Mistake(
        PROGRESS,
        "`empty` expects all threads",
        one(
            "init_tiles",
            "init_ring(s.q_ring, kWarps);",
            "init_ring(s.q_ring, 32 * kWarps);",
        )
        + one(
            "queries",
            "init_ring(s.k_ring, 4 * Tile::kConsumers);",
            "init_ring(s.k_ring, 128 * Tile::kConsumers);",
        )
        + one("init persistent", "4 * Tile::kConsumers", "128 * Tile::kConsumers")
        + one("init pair", "4 * Tile::kConsumers", "128 * Tile::kConsumers"),
    ),
    Mistake(
        PROGRESS,
        "nobody releases Q",
        each((*SERIAL, "own_dk"), RELEASE_Q, "w.at.advance();")
        + one(
            "consumer",
            "ptx::mbarrier_arrive(&s.q_ring.empty[(at.stage + Tile::kStages - 1) % Tile::kStages]);",
            ";",
            NOT_PAIR,
        )
        + one("persistent", LAST_Q, ";")
        + one(
            "pair consumer", "ptx::mbarrier_arrive(&this->s.q_ring.empty[stage]);", ";"
        )
        + one("own_dv", "w.at.leave(s.q_ring);", ";"),
    ),
    Mistake(
        PROGRESS,
        "nobody releases dO",
        each((*SERIAL, *LOOPS, "own_dk"), LEAVE_DO, ";")
        + one("own_dv", "w.at.release(s.do_ring);", "w.at.advance();")
        + one("pair", PAIR_DV + NL + LEAVE_DO, PAIR_DV)
        + one("pair", PAIR_OWN_DV + NL + LEAVE_DO, PAIR_OWN_DV),
    ),
    Mistake(
        PROGRESS,
        "nobody releases K",
        one(
            "query consumer",
            "ptx::mbarrier_arrive(&s.k_ring.empty[(at.stage + Tile::kStages - 1) % Tile::kStages]);",
            ";",
        ),
    ),
    Mistake(
        PROGRESS,
        "nobody releases V",
        one("queries", "w.at.leave(s.v_ring);", ";"),
    ),
    Mistake(
        PROGRESS,
        "nobody releases dS",
        each((*SERIAL, "overlapped"), RELEASE_DS, "ds.advance();")
        + one("decoupled", "multiplied.release(s.ds_ring);", "multiplied.advance();")
        + each(("own_dv", "own_dk"), "w.ds.release(s.ds_ring);", "w.ds.advance();")
        + one(
            "persistent",
            "multiplied.release(s.ds_ring);\n        ",
            "multiplied.advance();",
        )
        + one(
            "persistent",
            "multiplied.release(s.ds_ring);" + NL + ADD_DQ,
            "multiplied.advance();" + ADD_DQ,
        )
        + one("pair", "round.leave(pair.received_ring);", ";")
        + one("pair", "round.release(s.ds_ring);", "round.advance();"),
    ),
    Mistake(
        PROGRESS,
        "nobody releases P",
        one("own_dk", "w.p.release(w.with_p.p_ring);", "w.p.advance();"),
    ),
    Mistake(
        PROGRESS,
        "nobody releases dQ",
        one("add_dq", "ptx::mbarrier_arrive(&s.dq_ring.empty[0]);", ";"),
    ),
    Mistake(
        PROGRESS,
        "nobody gives K and V up",
        one("persistent", "warp_arrives(memory.kv_empty);", ";"),
    ),
    Mistake(
        PROGRESS,
        "no zeros are stored before the first step",
        one("decoupled", "w.store_zeros(stored);", ";")
        + one("persistent", "w.store_zeros(stored);", ";")
        + one("pair", "w.store_zeros();", ";")
        + one("init pair", PASS_ON, ";"),
    ),
    Mistake(
        PROGRESS,
        "the other block hears nothing",
        one("exchange", ALLOW, ";")
        + one("exchange", SEND, ";")
        + one("exchange", THANK, ";"),
    ),
    Mistake(
        PROGRESS,
        "arrives in its own block",
        one("exchange", ALLOW, "ptx::mbarrier_arrive(&s.may_send);")
        + one("exchange", THANK, "ptx::mbarrier_arrive(&s.copied);"),
    ),
    Mistake(
        PROGRESS,
        "consumers do not hear of the exchange",
        one("exchange", PASS_ON, ";")
        + one("exchange", "ptx::mbarrier_arrive(&s.sent_ring.empty[0]);", ";"),
    ),
    Mistake(
        PROGRESS,
        "waits for the other block's dS before it sends its own",
        one("exchange", SEND + NL4 + LANDED, LANDED + SEND),
    ),
    Mistake(
        PROGRESS,
        "the producer does not say that there are no more tiles",
        one("produce tiles", "ptx::mbarrier_arrive(&s.tiles.kv_full);", ";")
        + one("produce tiles", "s.key_tile = -1;", ";"),
    ),
    Mistake(
        PROGRESS,
        "one warp leaves before the product",
        each(
            ONCE,
            KV_FULL,
            "if (threadIdx.x % 128 >= 96) return; ptx::mbarrier_wait(&s.kv_full, 0);",
        )
        + one(
            "queries",
            "ptx::mbarrier_wait(&s.q_full, 0);",
            "if (threadIdx.x % 128 >= 96) return; ptx::mbarrier_wait(&s.q_full, 0);",
        )
        + one(
            "persistent",
            KV_FULL_AGAIN,
            "if (threadIdx.x % 128 >= 96) return;" + KV_FULL_AGAIN,
        ),
    ),
    # --- descriptors
    Mistake(
        DESCRIPTOR,
        "the address is not divided by 16",
        one(
            "descriptor",
            "std::uint64_t(ptx::shared_address(s) / 16)",
            "std::uint64_t(ptx::shared_address(s))",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "rows are not swizzled",
        one("descriptor", "std::uint64_t(1) << 62", "std::uint64_t(0)"),
    ),
    Mistake(
        DESCRIPTOR,
        "another swizzle",
        one("descriptor", "std::uint64_t(1) << 62", "std::uint64_t(2) << 62"),
    ),
    Mistake(
        DESCRIPTOR,
        "the distance between rows, not between groups of 8",
        one(
            "descriptor",
            "std::uint64_t(8 * 128 / 16) << 32",
            "std::uint64_t(128 / 16) << 32",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "the two distances are exchanged",
        one(
            "descriptor",
            "std::uint64_t(panel_bytes / 16) << 16 |\n         std::uint64_t(8 * 128 / 16) << 32",
            "std::uint64_t(panel_bytes / 16) << 32 | std::uint64_t(8 * 128 / 16) << 16",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "the distance of Q's or dO's panels is that of a row",
        one(
            "consumer",
            "descriptor(shared.q[0], Tile::Br * 128)",
            "descriptor(shared.q[0], 128)",
            NOT_OWNERS,
        )
        + one(
            "consumer",
            "descriptor(shared.d_o[0], Tile::Br * 128)",
            "descriptor(shared.d_o[0], 128)",
            NOT_OWNERS,
        )
        + one(
            "own_dv",
            "descriptor(s.d_o[0], Tile::Br * 128)",
            "descriptor(s.d_o[0], 128)",
        )
        + one(
            "own_dk", "descriptor(s.q[0], Tile::Br * 128)", "descriptor(s.q[0], 128)"
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "the distance of K's panels is that of a row",
        one("owner", "Tile::Bc * 128", "128")
        + one(
            "query consumer",
            "descriptor(shared.k[0], Tile::Bc * 128)",
            "descriptor(shared.k[0], 128)",
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "the rows of another consumer",
        one("query consumer", "shared.q + 64 * 64 * index", "shared.q + 64 * index"),
    ),
    Mistake(
        DESCRIPTOR,
        "the keys of another consumer",
        one(
            "consumer",
            "shared.k + 64 * 64 * consumer",
            "shared.k + 64 * consumer",
            NOT_OWNERS,
        ),
        only_numbers=True,
    ),
    Mistake(
        DESCRIPTOR,
        "a step of 16 columns is 16 bytes",
        one("issue_scores", "step % 4 * 32", "step % 4 * 16")
        + one("descriptor", "step % 4 * 32", "step % 4 * 16", ("deterministic",)),
    ),
    Mistake(
        DESCRIPTOR,
        "a step of 16 columns is 64 bytes",
        one("issue_scores", "step % 4 * 32", "step % 4 * 64")
        + one("descriptor", "step % 4 * 32", "step % 4 * 64", ("deterministic",)),
    ),
    Mistake(
        DESCRIPTOR,
        "only K moves by 16 bytes",
        one(
            "issue_scores",
            "panel * Tile::Bc * 128 + in_panel",
            "panel * Tile::Bc * 128 + in_panel / 2",
        )
        + one(
            "descriptor",
            "panel * Tile::Bc * 128 + in_panel",
            "panel * Tile::Bc * 128 + in_panel / 2",
            ("deterministic",),
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "K's panels are half as far apart",
        one(
            "issue_scores",
            "panel * Tile::Bc * 128 + in_panel",
            "panel * Tile::Bc * 64 + in_panel",
            ("final",),
        )
        + one(
            "descriptor",
            "panel * Tile::Bc * 128 + in_panel",
            "panel * Tile::Bc * 64 + in_panel",
            ("deterministic",),
        ),
        "wide",
    ),
    # 64 of 128 rows further on are the other consumer's: rows of a box with another k, as a convolution may add them up.
    Mistake(
        DESCRIPTOR,
        "K's second panel is the other consumer's first one",
        one(
            "issue_scores",
            "panel * Tile::Bc * 128 + in_panel",
            "panel * Tile::Bc * 64 + in_panel",
            NOT_OWNERS,
        ),
        "wide",
        only_numbers=True,
    ),
    Mistake(
        DESCRIPTOR,
        "K's second panel is not used",
        one("issue_scores", "panel * Tile::Bc * 128 + in_panel", "in_panel")
        + one(
            "descriptor",
            "panel * Tile::Bc * 128 + in_panel",
            "in_panel",
            ("deterministic",),
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "Q's panels are half as far apart",
        one(
            "issue_scores",
            "panel * Tile::Br * 128 + in_panel",
            "panel * Tile::Br * 64 + in_panel",
        )
        + one(
            "descriptor",
            "panel * Tile::Br * 128 + in_panel",
            "panel * Tile::Br * 64 + in_panel",
            ("deterministic",),
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "Q's second panel is not used",
        one("issue_scores", "panel * Tile::Br * 128 + in_panel", "in_panel")
        + one(
            "descriptor",
            "panel * Tile::Br * 128 + in_panel",
            "in_panel",
            ("deterministic",),
        ),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "B moves by 8 rows instead of 16",
        one("issue_key_gradient", "step * 16 * 128", "step * 8 * 128")
        + one("descriptor", "step * 16 * 128", "step * 8 * 128", ("deterministic",)),
    ),
    Mistake(
        DESCRIPTOR,
        "K moves by 8 rows instead of 16 in dQ = dS K",
        one("issue_dq", "moved(k, step * 16 * 128)", "moved(k, step * 8 * 128)")
        + one("issue_more_dq", "moved(k, step * 16 * 128)", "moved(k, step * 8 * 128)"),
    ),
    Mistake(
        DESCRIPTOR,
        "B does not move",
        one("issue_key_gradient", "step * 16 * 128", "0")
        + one("descriptor", "step * 16 * 128", "0", ("deterministic",)),
    ),
    Mistake(
        DESCRIPTOR,
        "K does not move in dQ = dS K",
        one("issue_dq", "moved(k, step * 16 * 128)", "moved(k, 0)")
        + one("issue_more_dq", "moved(k, step * 16 * 128)", "moved(k, 0)"),
    ),
    Mistake(
        DESCRIPTOR,
        "dS does not move",
        one("issue_dq", "moved(ds, step * 16 * 128)", "moved(ds, 0)")
        + one("issue_more_dq", "moved(ds, step * 16 * 128)", "moved(ds, 0)"),
    ),
    Mistake(
        DESCRIPTOR,
        "B is not transposed",
        one(
            "issue_key_gradient",
            "ptx::wgmma<typename Tile::T, true, true>(r, a[step], moved(queries, step * 16 * 128));",
            "ptx::wgmma<typename Tile::T, true, false>(r, a[step], moved(queries, step * 16 * 128));",
        )
        + one(
            "issue_dq",
            "ptx::wgmma<T, true, true, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
            "ptx::wgmma<T, true, true, false>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
        )
        + one(
            "descriptor",
            "ptx::wgmma<typename Tile::T, true, true>(rO, rP[step], moved(v, step * 16 * 128));",
            "ptx::wgmma<typename Tile::T, true, false>(rO, rP[step], moved(v, step * 16 * 128));",
            ("deterministic",),
        )
        + one(
            "issue_more_dq",
            "ptx::wgmma<typename Tile::T, true, true, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
            "ptx::wgmma<typename Tile::T, true, true, false>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "dS is not transposed",
        one(
            "issue_dq",
            "ptx::wgmma<T, true, true, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
            "ptx::wgmma<T, true, false, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
        )
        + one(
            "issue_more_dq",
            "ptx::wgmma<typename Tile::T, true, true, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
            "ptx::wgmma<typename Tile::T, true, false, true>(r, moved(ds, step * 16 * 128), moved(k, step * 16 * 128));",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "stages are counted in elements",
        each(
            ("owner",),
            "at.stage * int(sizeof s.q[0])",
            "at.stage * int(sizeof s.q[0]) / 2",
        )
        + one(
            "consumer",
            "at.stage * int(sizeof s.q[0])",
            "at.stage * int(sizeof s.q[0]) / 2",
            NOT_OWNERS,
        )
        + one(
            "query consumer",
            "at.stage * int(sizeof s.k[0])",
            "at.stage * int(sizeof s.k[0]) / 2",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "stages of dS are counted in elements",
        one(
            "consumer",
            "stage * int(sizeof s.ds[0])",
            "stage * int(sizeof s.ds[0]) / 2",
            ALL[:5],
        )
        + one(
            "owner",
            "ds.stage * int(sizeof s.ds[0])",
            "ds.stage * int(sizeof s.ds[0]) / 2",
        )
        + one(
            "pair consumer",
            "int(pair.received - this->s.ds[0]) * int(sizeof(T))",
            "int(pair.received - this->s.ds[0])",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "the rank stays in the descriptor",
        one(
            "pair consumer",
            "this->first_q_summed = without_rank(this->first_q_summed);",
            ";",
        )
        + one(
            "pair consumer",
            "this->first_do_summed = without_rank(this->first_do_summed);",
            ";",
        ),
    ),
    Mistake(
        DESCRIPTOR,
        "panels are loaded to the wrong place",
        one("load_panels", "s + panel * kRows * 64", "s + panel * kRows * 32"),
        "wide",
    ),
    Mistake(
        DESCRIPTOR,
        "the columns of a panel are counted in bytes",
        one(
            "load_panels",
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
        each(SERIAL, MASK, ";")
        + one(
            "consumer",
            "if (walk.masked(a, keys)) mask<Tile>(rS, a, walk.first_query(), keys.first_key + warp_key);",
            ";",
        )
        + one(
            "own_dv",
            "if (walk.masked(w.a, keys)) mask<Tile>(rS, w.a, walk.first_query(), keys.first_key + w.warp_key);",
            ";",
        )
        + one(
            "query consumer",
            "a.visible_keys(query - int(threadIdx.x) % 32 / 4) < first_key + Tile::Bc",
            "false",
        ),
        only_numbers=True,
    ),
    Mistake(
        OTHER,
        "dQ is added to that of the step before",
        one(
            "issue_dq",
            "ptx::wgmma<T, false, true, true>(r, ds, k);",
            "ptx::wgmma<T, true, true, true>(r, ds, k);",
        ),
        only_numbers=True,
    ),
    Mistake(
        OTHER,
        "gradients are stored without the swizzle",
        one("store_pair", "n % 8 ^ lane / 4", "n % 8"),
        only_numbers=True,
    ),
    Mistake(
        OTHER,
        "the store reads panels at the wrong distance",
        one("store_rows", "rows + panel * kRows * 64", "rows + panel * 16 * 64"),
        "wide",
    ),
    # --- of two blocks
    Mistake(
        CLUSTER,
        "the exchange has a rank that is not in the cluster",
        one("exchange", "1 - rank", "1 + rank"),
    ),
    Mistake(
        CLUSTER,
        "dS and its barrier are in different blocks",
        one("exchange", SEND, SEND.replace("ptx::mapa(&s.landed, other)", "&s.landed"))
        + one(
            "exchange", SEND, SEND.replace("ptx::mapa(s.received, other)", "s.received")
        ),
    ),
    Mistake(
        CLUSTER,
        "sends dS to itself",
        one("exchange", SEND, SEND.replace("other", "rank"))
        + one("exchange", "1 - rank", "rank"),
        only_numbers=True,
    ),
    Mistake(
        CLUSTER,
        "nobody waits for the other block at the end",
        one(
            "pair",
            END_SYNC,
            ";",
            harmless="the thread that exchanges the tiles has waited for all that the other block does here",
        )
        + one(
            "pair file",
            COPIED,
            "PairWalk<Tile> next = walk; next.to_next_pair(); if (!next.done())"
            + COPIED,
            also=(END_SYNC, ";"),
        ),
    ),
    Mistake(
        CLUSTER,
        "only the producer arrives at the end",
        one("pair", "ptx::barrier_cluster_arrive();" + NL4, ";" + NL4),
    ),
    Mistake(
        CLUSTER,
        "takes its own tile first",
        one("pair walk", "1 - rank", "rank"),
        only_numbers=True,
    ),
    Mistake(
        CLUSTER,
        "loads the keys on the other side",
        one("produce pair", "(1 - 2 * rank)", "(2 * rank - 1)"),
        only_numbers=True,
    ),
    Mistake(
        CLUSTER,
        "the other block's dS is multiplied by its own keys",
        one("pair consumer", "int(pair.other_k - this->s.k) * int(sizeof(T))", "0"),
        only_numbers=True,
    ),
    Mistake(
        CLUSTER,
        "dQ is added to the other block's tile",
        one("pair walk", "(tile ^ 1) % 2", "tile % 2")
        + one("pair consumer", LAST_OWN, LAST_OWN.replace("rank;", "1 - rank;")),
        only_numbers=True,
    ),
    Mistake(
        CLUSTER,
        "the first dQ of a head is added to the same head",
        one("pair walk", "this->head - 1", "this->head"),
        only_numbers=True,
    ),
    # --- of blocks that stay
    Mistake(
        QUEUE,
        "the key tile is written after its announcement",
        one(
            "produce tiles",
            "s.key_tile = n;" + NL4 + "load_keys<Tile>(maps, s.tiles, keys);",
            "load_keys<Tile>(maps, s.tiles, keys); s.key_tile = n;",
        ),
    ),
    Mistake(
        QUEUE,
        "every block begins with the same key tile",
        one("produce tiles", "blockIdx.x", "0"),
    ),
    Mistake(
        QUEUE,
        "the tiles with which the blocks begin are taken again",
        one(
            "produce tiles",
            "gridDim.x + atomicAdd(counter, 1)",
            "atomicAdd(counter, 1)",
        ),
    ),
    Mistake(
        QUEUE,
        "the counter is not added to atomically",
        one("produce tiles", "atomicAdd(counter, 1)", "(*counter)++"),
    ),
    Mistake(
        QUEUE,
        "the counter is not set to 0",
        one(
            "launch persistent",
            "FA_CUDA_CHECK(cudaMemsetAsync(counter, 0, sizeof *counter, stream));",
            ";",
        ),
    ),
    Mistake(
        QUEUE,
        "one key tile too many",
        one("produce tiles", "n < tiles", "n <= tiles"),
    ),
    Mistake(
        QUEUE,
        "every second key tile is left out",
        one("produce tiles", "atomicAdd(counter, 1)", "atomicAdd(counter, 2)"),
        only_numbers=True,
    ),
    Mistake(
        QUEUE,
        "dQ is added to a null pointer",
        one("persistent", "sums = w.sums(walk);", ";"),
    ),
)

# What chapter 09's mistakes are called here, where the same one has another name.
INSTEAD = {
    "no wait for the scores": ("no wait for S", "no wait for dP"),
    "the wait for the scores leaves one group more in flight": (
        "the wait for S leaves one group more in flight",
        "the wait for dP leaves one group more in flight",
    ),
    "no wait for O": ("no wait for dV", "no wait for dQ", "no wait for dK"),
    "the wait for O leaves one group more in flight": (
        "the wait for dV leaves one group more in flight",
        "the wait for dQ leaves one group more in flight",
        "the wait for dK leaves one group more in flight",
    ),
    "O is rescaled before its wait": ("dQ is added before its wait",),
    "P is packed before the products that read it are done": (
        "P is packed after dV has been issued",
    ),
    "no commit after Q K^T": ("no commit after S", "no commit after dP"),
    "no commit after P V": ("no commit after dQ", "no commit after dK"),
    "no wgmma_fence before Q K^T": (
        "no wgmma_fence before S",
        "no wgmma_fence before dP",
    ),
    "no wgmma_fence before P V": (
        "no wgmma_fence before dV",
        "no wgmma_fence before dQ and dK",
    ),
    "waits for both products at once": ("waits for two products at once",),
    "K is released before the wait": (
        "Q is released before the wait",
        "K and V of a query tile are released before the wait",
    ),
    "V is released before the wait": (
        "dO is released before the wait",
        "dS is released before the wait",
    ),
    "K is released before all lanes have read it": (
        "a tile is released before all lanes have read it",
    ),
    "O overwrites Q before all warps have multiplied it": (
        "dK and dV overwrite K and V before all warps have multiplied them",
    ),
    "nobody waits until the store has read O": (
        "nobody waits until the store has read the gradient",
        "nobody waits until dQ has been read",
    ),
    "only the lane that copies executes the fence": (
        "only the lane that copies or arrives executes the fence",
    ),
    "Q's wait has the wrong parity": (
        "the wait for what is loaded once has the wrong parity",
    ),
    "announces half of Q": ("announces half of what is loaded once",),
    "the distance of V's panels is that of a row": (
        "the distance of Q's or dO's panels is that of a row",
        "the distance of K's panels is that of a row",
    ),
    "V moves by 8 rows instead of 16": (
        "B moves by 8 rows instead of 16",
        "K moves by 8 rows instead of 16 in dQ = dS K",
    ),
    "V does not move": (
        "B does not move",
        "K does not move in dQ = dS K",
        "dS does not move",
    ),
    "V is not transposed": ("B is not transposed", "dS is not transposed"),
    "Q is released before O is stored": (
        "K and V are given up before dK and dV are stored",
    ),
    "the query tile is written after its announcement": (
        "the key tile is written after its announcement",
    ),
    "O is not rescaled": ("dQ is added to that of the step before",),
    "O is stored without the swizzle": ("gradients are stored without the swizzle",),
}
# Why the others cannot be made.
NO_TURNS = "consumers do not take turns"
NOWHERE = {
    "the unused product reads where O is stored": "the unused product multiplies K, and is waited for before dK is stored",
    "hidden tiles are not released": "no consumer skips a tile",
    "a turn is not passed on": NO_TURNS,
    "a turn too few is taken": NO_TURNS,
    "nobody begins with the turns": NO_TURNS,
    "nobody takes the last turn": NO_TURNS,
    "a turn is for fewer threads": NO_TURNS,
    "nobody takes turns": NO_TURNS,
}
