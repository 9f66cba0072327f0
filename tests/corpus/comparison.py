"""How far what a job trained is from what Keras trained in one process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EQUAL = 1e-4
"""Of weights and losses, as a share of their norm."""
METRICS = 1e-2
"""An example at the border of two classes may be counted for the other."""

FIGURES = ("weights", "losses", "metrics", "values", "last_loss")
Numbers = np.ndarray[Any, np.dtype[np.float64]]
Observed = Mapping[str, Numbers]


@dataclass(frozen=True)
class Deviation:
    """Norms of differences over norms; `last_loss` of the losses of each training's last epoch alone."""

    weights: float
    losses: float
    metrics: float
    values: float
    last_loss: float
    missing: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        within = self.weights <= EQUAL and self.losses <= EQUAL
        return within and self.metrics <= METRICS and self.values <= METRICS and not self.missing

    @property
    def described(self) -> str:
        parts = [f"{name} {getattr(self, name):.0e}" for name in FIGURES]
        return ", ".join([*parts, *(f"no {key}" for key in self.missing)])

    def within(self, band: float) -> bool:
        return self.last_loss <= band and not self.missing


def load(path: Path) -> Observed:
    """Read what observe.py wrote."""
    with np.load(path) as archive:
        return {key: archive[key] for key in archive.files}


def deviation(found: Observed, wanted: Observed) -> Deviation:
    """Compare everything that the plain program has; what the other has beside it does not count."""
    found, wanted = _numbered(found), _numbered(wanted)
    wanted = {key: value for key, value in wanted.items() if not key.startswith("steps|")}
    missing = tuple(key for key in wanted if key not in found or found[key].shape != wanted[key].shape)

    def share(chosen: Callable[[str], bool], part: slice = slice(None)) -> float:
        keys = [key for key in wanted if chosen(key) and key not in missing]
        return max((_share(found[key][part], wanted[key][part]) for key in keys), default=0.0)

    def whole(kind: str) -> float:
        keys = [key for key in wanted if key.startswith(kind) and key not in missing]
        parts = [np.concatenate([np.ravel(each[key]) for key in keys] or [np.zeros(0)]) for each in (found, wanted)]
        return _share(*parts)

    def is_loss(key: str) -> bool:
        return key.startswith("history|") and "loss" in key

    return Deviation(
        weights=max(whole("trained|"), whole("state|")),
        losses=share(is_loss),
        metrics=share(lambda key: key.startswith("history|") and not is_loss(key)),
        values=share(lambda key: key.startswith("value|")),
        last_loss=share(is_loss, slice(-1, None)),
        missing=missing,
    )


def worst(deviations: list[Deviation]) -> Deviation:
    """Return the largest of each number."""
    largest = {name: max(getattr(each, name) for each in deviations) for name in FIGURES}
    return Deviation(**largest, missing=tuple(key for each in deviations for key in each.missing))


def _share(found: Numbers, wanted: Numbers) -> float:
    norm = float(np.linalg.norm(wanted))
    difference = float(np.linalg.norm(found - wanted))
    share = difference / norm if norm else difference
    return share if np.isfinite(share) else float("inf")


def _numbered(observed: Observed) -> dict[str, Numbers]:
    """Name trainings by their order, as they may have other names in the other form."""
    names = list(dict.fromkeys(key.split("|")[1] for key in observed if key.startswith("history|")))
    numbers = {name: str(number) for number, name in enumerate(names)}
    keys = {key: key.split("|") for key in observed}
    return {
        f"history|{numbers[parts[1]]}|{parts[2]}" if parts[0] == "history" else key: observed[key]
        for key, parts in keys.items()
    }
