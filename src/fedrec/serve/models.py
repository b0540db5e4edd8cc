"""Central yardsticks as plain arrays in a file, so that a run is opened without fitting it again. No pickle."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from fedrec.core.errors import FedrecError
from fedrec.core.factors import Factors
from fedrec.core.files import replacing
from fedrec.core.scorer import Scorer
from fedrec.data.split import Split
from fedrec.methods.central.itemitem import ItemItem, training_matrix
from fedrec.methods.central.markov import Chain
from fedrec.methods.central.popularity import SameForAll


def save_model(path: Path, scorer: Scorer) -> bool:
    """Write a fitted yardstick; False where it is not made of arrays (the negative counter draws anew)."""
    arrays = _arrays(scorer)
    if arrays:
        with replacing(path) as file:
            np.savez(file, **arrays)
    return bool(arrays)


def load_model(path: Path, split: Split) -> Scorer:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return _scorer(stored, split)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise FedrecError(
            f"{path} is damaged: remove it, and the yardstick is fitted again when it is needed"
        ) from None


def _arrays(scorer: Scorer) -> dict[str, Any]:
    if isinstance(scorer, SameForAll):
        return {"scores": scorer.scores}
    if isinstance(scorer, Factors):
        names = ("users", "items", "user_bias", "item_bias")
        return {name: getattr(scorer, name) for name in names}
    if isinstance(scorer, ItemItem) and issparse(scorer.weights):
        w = scorer.weights.tocsr()
        return {"data": w.data, "indices": w.indices, "indptr": w.indptr, "shape": np.array(w.shape)}
    arrays = {"weights": scorer.weights} if isinstance(scorer, ItemItem) else {}
    if isinstance(scorer, Chain):
        arrays |= {"decay": np.float64(scorer.decay), "window": np.int64(scorer.window)}
    return arrays


def _scorer(stored: Any, split: Split) -> Scorer:
    if "scores" in stored:
        return SameForAll(stored["scores"])
    if "users" in stored:
        return Factors(*(stored[name] for name in ("users", "items", "user_bias", "item_bias")))
    if "data" in stored:
        parts = (stored["data"], stored["indices"], stored["indptr"])
        return ItemItem(training_matrix(split), csr_matrix(parts, shape=tuple(stored["shape"])))
    if "window" in stored:
        return Chain.of(split.train, stored["weights"], float(stored["decay"]), int(stored["window"]))
    return ItemItem(training_matrix(split), stored["weights"])
