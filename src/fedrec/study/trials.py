"""The trials of a search in one small file: it can go on elsewhere, and everyone can see what was looked at.

The first line says what is searched, and each other one has a trial: its settings, how its validation figure went, and
what it came to. Test items are in none of it: a search never ranks them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import exists, write
from fedrec.runs.folder import writing

DIGITS = 7  # of a figure on the way
ENDED = ("COMPLETE", "PRUNED", "FAIL")


class TrialLedger:
    """What was tried so far, by any process on any machine."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, json.loads(json.dumps(about, sort_keys=True))
        self.rows: list[dict[str, Any]] = []
        self.ranges: dict[str, str] = {}  # of Optuna's parameters
        if not exists(path):
            return
        try:
            heading, *self.rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            before, self.ranges = heading["about"], heading["ranges"]
            assert all(row["state"] in ENDED for row in self.rows)
        except OSError as error:
            raise FedrecError(f"cannot read the ledger {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AssertionError):
            raise FedrecError(
                f"{path} is no ledger of a search, or damaged: choose another --ledger"
            ) from None
        other = sorted(n for n in {*before, *self.about} if before.get(n) != self.about.get(n))
        if other:
            raise FedrecError(
                f"{path} has the trials of another search, with another {other[0]}: choose another --ledger"
            )

    def into(self, study: Any) -> None:
        """A study that has no trials begins with those that are known."""
        import optuna

        if study.get_trials(deepcopy=False):
            return
        ranges = {n: optuna.distributions.json_to_distribution(text) for n, text in self.ranges.items()}
        for row in self.rows:
            known = {name: row[name] for name in ("round", "error") if row.get(name) is not None}
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState[row["state"]],
                    value=row["value"],
                    params=row["parameters"],
                    distributions={name: ranges[name] for name in row["parameters"]},
                    user_attrs={"settings": json.dumps(row["settings"]), **known},
                    intermediate_values={int(at): value for at, value in row["curve"].items()},
                )
            )

    def note(self, trials: list[Any]) -> None:
        """Write those that have ended, in their order."""
        import optuna

        rows = []
        for trial in trials:
            if trial.state.name not in ENDED:
                continue
            row = {"state": trial.state.name, "value": trial.value, "round": trial.user_attrs.get("round")}
            row |= {"error": trial.user_attrs["error"]} if "error" in trial.user_attrs else {}
            row |= {"settings": json.loads(trial.user_attrs["settings"]), "parameters": trial.params}
            curve = {at: float(f"{v:.{DIGITS}g}") for at, v in trial.intermediate_values.items()}
            rows.append({**row, "curve": curve})
        if len(rows) == len(self.rows):
            return
        self.rows = rows
        self.ranges = {
            name: optuna.distributions.distribution_to_json(range)
            for trial in trials
            for name, range in trial.distributions.items()
        }
        heading = {"about": self.about, "ranges": self.ranges}
        lines = [json.dumps(each, separators=(",", ":")) for each in (heading, *rows)]
        with writing(self.path.parent):
            write(self.path, "\n".join(lines) + "\n")
