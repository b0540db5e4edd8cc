"""Sections of a page that commands write, each between two marks: what people write around them stays."""

from __future__ import annotations

from pathlib import Path

from fedrec.core.errors import FedrecError
from fedrec.core.files import exists, write


def check_page(page: Path, name: str) -> None:
    """Said before hours are spent: a page that cannot be written, or whose marks are broken."""
    _read(page, name)


def put(page: Path, name: str, section: str) -> None:
    """In place of what it said before; at the end of a page that has no such section, or of a new one."""
    text = _read(page, name)
    begin, end = _marks(name)
    section = f"{begin}\n{section.strip()}\n{end}"
    if begin not in text:
        write(page, f"{text.rstrip()}\n\n{section}\n".lstrip())
        return
    before, after = text[: text.index(begin)], text[text.index(end) + len(end) :]
    write(page, before + section + after)


def _read(page: Path, name: str) -> str:
    if not exists(page.parent):
        raise FedrecError(f"there is no folder {page.parent} for the page {page.name}: make it first")
    if not exists(page):
        return ""
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise FedrecError(f"{page} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    begin, end = _marks(name)
    counts = (text.count(begin), text.count(end))
    if counts not in ((0, 0), (1, 1)) or text.find(end) < text.find(begin):
        raise FedrecError(f"{page} has a broken place for the section: write '{begin}' and '{end}' once each")
    return text


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- begin {name} -->", f"<!-- end {name} -->"
