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
from fedrec.study.ledger import by_one, in_a_folder

DIGITS = 7  # of a figure on the way
ENDED = ("COMPLETE", "PRUNED", "FAIL")


class TrialLedger:
    """What was tried so far, by any process on any machine."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, json.loads(json.dumps(about, sort_keys=True))
        in_a_folder(path)
        self.rows, self.ranges = self._read()

    def _read(self) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Trials, and the ranges of Optuna's parameters."""
        path = self.path
        if not exists(path):
            return [], {}
        try:
            heading, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            before, ranges = heading["about"], heading["ranges"]
            assert all(row["state"] in ENDED for row in rows)
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
        return rows, ranges

    def into(self, study: Any) -> None:
        """A study gets the trials that it does not have."""
        import optuna

        there = [trial.params for trial in study.get_trials(deepcopy=False)]
        ranges = {n: optuna.distributions.json_to_distribution(text) for n, text in self.ranges.items()}
        for row in self.rows:
            if row["parameters"] in there:
                continue
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
        """Write those that have ended, in their order, after what others have written."""
        import optuna

        rows: list[dict[str, Any]] = []
        for trial in trials:
            if trial.state.name not in ENDED:
                continue
            row = {"state": trial.state.name, "value": trial.value, "round": trial.user_attrs.get("round")}
            row |= {"error": trial.user_attrs["error"]} if "error" in trial.user_attrs else {}
            row |= {"settings": json.loads(trial.user_attrs["settings"]), "parameters": trial.params}
            curve = {at: float(f"{v:.{DIGITS}g}") for at, v in trial.intermediate_values.items()}
            rows.append({**row, "curve": curve})
        found = {
            name: optuna.distributions.distribution_to_json(range)
            for trial in trials
            for name, range in trial.distributions.items()
        }
        with by_one(self.path):
            before, ranges = self._read()
            mine = [row["parameters"] for row in rows]
            self.rows = [row for row in before if row["parameters"] not in mine] + rows
            self.ranges = {**ranges, **found}
            if self.rows == before:
                return
            heading = {"about": self.about, "ranges": self.ranges}
            lines = [json.dumps(each, separators=(",", ":")) for each in (heading, *self.rows)]
            with writing(self.path.parent):
                write(self.path, "\n".join(lines) + "\n")
