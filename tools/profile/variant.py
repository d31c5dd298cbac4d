"""A variant in a profile: its predicted, counted and measured values, and what follows from them."""

from dataclasses import dataclass, field

from . import ncu, sectors


@dataclass
class Variant:
    """A variant of the chapter and what is known about it. Unknown values are None."""

    name: str
    predicted_bytes: int | None = None
    simulator: dict | None = None  # sectors.simulated()
    measured: dict | None = None  # ncu.combine()
    kernels: list[ncu.Launch] = field(default_factory=list)
    refused: str | None = None  # why it refuses this problem
    failed: str | None = None
    defects: int = 0  # found by the simulator

    def as_data(self) -> dict:
        """The variant as --json writes it."""
        data = {"name": self.name}
        for name in ("predicted_bytes", "simulator", "measured", "refused", "failed"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        if (difference := difference_of(self)) is not None:
            data["difference"] = difference
        if self.kernels:
            data["kernels"] = [
                {"name": k.kernel, "grid": k.grid, "block": k.block} | {"measured": ncu.combine([k])}
                for k in self.kernels
            ]
        return data


def total_sectors(counters: dict | None, prefix: str, atomics: int | None = None):
    """Loads plus stores plus twice the atomics, as in the formulas. None if one of them is unknown.

    @param atomics  the number of atomics, if their counter is missing
    """
    if counters is None:
        return None
    atomics = counters.get(f"{prefix}atomic_sectors", atomics)
    parts = [counters.get(f"{prefix}{kind}_sectors") for kind in ("read", "write")]
    if None in parts or atomics is None:
        return None
    return sum(parts) + 2 * atomics


def no_atomics(variant: Variant) -> int | None:
    """0 if another source shows that the variant has none."""
    for counters in (variant.simulator, variant.measured):
        if counters and counters.get("atomic_sectors") == 0:
            return 0
    return None


def l1_sectors(variant: Variant) -> int | None:
    """What loads, stores and atomics request, and what the copy engine brings and fetches."""
    requested = total_sectors(variant.measured, "", no_atomics(variant))
    if requested is None:
        return None
    copied = ("landed_sectors", "copied_out_sectors")
    return requested + sum(variant.measured.get(name, 0) for name in copied)


def l2_sectors(variant: Variant) -> int | None:
    return total_sectors(variant.measured, "l2_", no_atomics(variant))


def dram_bytes(variant: Variant) -> int | None:
    return both(variant.measured, "dram_{}_bytes", ("read", "write"))


def both(counters: dict | None, name: str, kinds=("load", "store")):
    """The sum of two counters."""
    parts = [(counters or {}).get(name.format(kind)) for kind in kinds]
    return None if None in parts else sum(parts)


def difference_of(variant: Variant) -> float | None:
    """The excess of the L1's sectors over the simulator's count, as a fraction."""
    if variant.name in sectors.OF_CUBLAS:
        return None  # the count is only a lower bound
    counted, seen = total_sectors(variant.simulator, ""), l1_sectors(variant)
    return None if not counted or seen is None else seen / counted - 1


def per_request(counters: dict | None, kind: str) -> float | None:
    counts = [(counters or {}).get(f"{kind}_{what}") for what in ("sectors", "requests")]
    return counts[0] / counts[1] if None not in counts and counts[1] else None
