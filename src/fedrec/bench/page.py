"""The benchmark's table as a section of a page."""

from __future__ import annotations

from typing import Any

COLUMNS = [
    "method",
    "loop",
    "plain",
    "compiled",
    "× plain",
    "CPU ms a round",
    "ms a round",
    "× bound",
    "peak MB, plain",
    "compiled",
]


def section(head: str, results: list[dict[str, Any]], skipped: dict[str, str]) -> str:
    return f"{head}\n\n{markdown(results)}\n\n{notes(results, skipped)}"


def markdown(results: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in results]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    plain, fused = row.get("plain", {}), row.get("fused", {})
    return [
        f"`{row['method']}`",
        number(row.get("loop", {}).get("clients_per_cpu_second")),
        _speed(plain),
        _speed(fused),
        number(fused.get("times_plain"), 1),
        number(1000 * (fused or plain)["cpu_seconds_per_round"], 1),
        number(1000 * (fused or plain)["seconds_per_round"], 1),
        number(row.get("roofline", {}).get("times_the_roofline"), 1),
        number(plain.get("peak_mb")),
        number(fused.get("peak_mb")),
    ]


def _speed(engine: dict[str, Any]) -> str:
    times = engine.get("times_the_loop")
    return number(engine.get("clients_per_cpu_second")) + (f" ({times:,.0f} ×)" if times else "")


def notes(results: list[dict[str, Any]], skipped: dict[str, str]) -> str:
    """What has no figure, and why: methods with the same reason in one line."""
    by_reason: dict[str, list[str]] = {}
    for row in results:
        for what, reason in row.get("without", {}).items():
            by_reason.setdefault(f"No {what}: {reason}", []).append(row["method"])
    for name, reason in skipped.items():
        by_reason.setdefault(f"Left out: {reason}", []).append(name)
    return "\n".join(f"- {reason} ({', '.join(names)})." for reason, names in by_reason.items())


def number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
