"""Made data with a known answer: `demo` to try things on, `two_tastes` for tests, `scalable` for size."""

from fedrec.data.worlds.demo import demo, demo_world
from fedrec.data.worlds.world import World

__all__ = ["World", "demo", "demo_world"]
