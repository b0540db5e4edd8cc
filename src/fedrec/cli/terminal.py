"""Words for people: one console that takes text as it is, lines that fit, and any terminal's letters.

Nothing here reads markup, so that ``[x]`` in a path or a title stays what it is; typer reads it in help.
"""

from __future__ import annotations

import codecs
import json
import sys
import textwrap
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PLAIN = "fedrec-plain"  # how a terminal that lacks a letter shows it
SIMILAR = {"×": "x", "·": "-", "–": "-", "—": "-", "’": "'", "“": '"', "”": '"'}


def any_letter(name: str = PLAIN) -> None:
    """Let stdout and stderr show what their encoding lacks by something similar, instead of failing."""
    codecs.register_error(name, _similar)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=name)


def _similar(error: UnicodeError) -> tuple[str | bytes, int]:
    """One letter for each, so that tables stay aligned; the bytes of a path's undecodable letters as they are."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letter = error.object[error.start]
    if 0xDC80 <= ord(letter) <= 0xDCFF:
        return bytes([ord(letter) - 0xDC00]), error.start + 1
    name = unicodedata.name(letter, "")
    greek = name.split()[-1][0] if name.startswith("GREEK SMALL LETTER") else ""  # alpha: a
    found = SIMILAR.get(letter) or greek.lower() or unicodedata.normalize("NFKD", letter)[0]
    return found if found.isascii() else "?", error.start + 1


def escape(text: str) -> str:
    """Text as it is where it is read as markup, which is in the help of options alone."""
    return text.replace("[", "\\[")


def console(stderr: bool = False) -> Console:
    """Where tables go: no markup, no guessing at numbers and paths."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(text: str, style: str | None = None) -> None:
    """Lines on stdout that fit its width; a word that is longer, such as a path, stays whole."""
    shown = console()
    for line in text.split("\n"):
        shown.print(_wrapped(line, shown.width), style=style, soft_wrap=True)


def complain(sentence: str) -> None:
    """A sentence on stderr: one line, for scripts; where a person looks on, lines that fit."""
    if sys.stderr.isatty():
        sentence = _wrapped(sentence, console(stderr=True).width)
    print(sentence, file=sys.stderr, flush=True)  # as this stream is set: typer's echo has its own way


def say_facts(facts: Mapping[str, str]) -> None:
    """Names and values in two columns."""
    shown = console()
    wide = max(map(len, facts))
    for name, value in facts.items():
        text = _wrapped(value, max(shown.width - wide - 2, 20)).replace("\n", "\n" + " " * (wide + 2))
        shown.print(f"{name:<{wide}}  {text}", soft_wrap=True)


def say_json(facts: Any, default: Any = None) -> None:
    """One JSON object on stdout; letters that its encoding may lack are escaped."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(facts, ensure_ascii=not unicode, default=default), flush=True)


def _wrapped(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False, drop_whitespace=True)
