"""One line of JSON per round, flushed as it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedrec.core.files import write


class History:
    """The rounds of a run so far; mirrored to a file where there is one."""

    def __init__(self, path: Path | None = None, lines: list[dict[str, Any]] | None = None) -> None:
        self.path = path
        self.lines = lines or []
        self._file = path.open("a", encoding="utf-8") if path else None

    def append(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self._file:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file:
            self._file.close()


def read_history(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a torn last one (a killed run) is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def cut_history(path: Path, rounds: int) -> list[dict[str, Any]]:
    """Keep the first ``rounds`` rounds, in the file too, and return them."""
    lines = [line for line in read_history(path) if line["round"] <= rounds]
    write(path, "".join(json.dumps(line) + "\n" for line in lines))
    return lines
