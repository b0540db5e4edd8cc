"""Made data with a known answer: `demo` to try things on, `scalable` for size, the others for tests."""

from fedrec.data.worlds.demo import demo, demo_world
from fedrec.data.worlds.drifting import drifting
from fedrec.data.worlds.scalable import scalable
from fedrec.data.worlds.two_orders import two_orders
from fedrec.data.worlds.two_tastes import two_tastes, two_tastes_world
from fedrec.data.worlds.world import Best, World

__all__ = [
    "Best",
    "World",
    "demo",
    "demo_world",
    "drifting",
    "scalable",
    "two_orders",
    "two_tastes",
    "two_tastes_world",
]
