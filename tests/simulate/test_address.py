"""An address where no Ray answers is a sentence within seconds, whatever else is there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from fedrec.core.errors import FedrecError
from fedrec.simulate import onray


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
        yield made


def at(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


def answer(listening: socket.socket, words: bytes) -> threading.Thread:
    def speak() -> None:
        line, _ = listening.accept()
        with line:
            line.recv(100)
            line.sendall(words)

    thread = threading.Thread(target=speak)
    thread.start()
    return thread


def test_who_says_nothing_is_not_waited_for(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onray, "PATIENCE", 0.2)
    with pytest.raises(FedrecError, match=r"no Ray cluster answers at 127\.0\.0\.1:\d+ \(timed out\)"):
        onray._answers(at(listening))


def test_who_speaks_otherwise_is_no_ray(listening: socket.socket) -> None:
    thread = answer(listening, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(FedrecError, match="what is there does not speak like Ray"):
        onray._answers(at(listening))
    thread.join()


def test_who_answers_with_settings_is_asked_further(listening: socket.socket) -> None:
    thread = answer(listening, bytes(3) + onray.SETTINGS + bytes(5))
    onray._answers(at(listening))
    thread.join()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:port", ""])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(FedrecError, match="it is not HOST:PORT"):
        onray._answers(address)
