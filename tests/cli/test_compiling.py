"""What a person is told while kernels compile."""

from __future__ import annotations

import numba as nb

from fedrec.cli.compiling import told


def test_told_while_it_compiles() -> None:
    @nb.njit
    def inner(x: float) -> float:
        return x + 1

    @nb.njit
    def outer(x: float) -> float:
        return 2 * inner(x)

    names: list[str] = []
    with told(names.append):
        assert outer(1.0) == 4.0
        assert outer(2.0) == 6.0  # compiled already
    assert names == ["outer", "inner", "outer", ""]
