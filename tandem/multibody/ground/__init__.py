"""Roads: height, slope and friction under any point, from files (configs/roads/*.toml).

`make_road` turns a road file into one vector of numbers, `surface` reads it inside kernels. What a file may say is in
`docs/roads.md`, why it is so in `docs/decisions/0013-roads.md`.
"""

from tandem.multibody.ground.make import make_road, road_from_sources, sources
from tandem.multibody.ground.summary import describe
from tandem.multibody.ground.surface import outside, surface

__all__ = ["describe", "make_road", "outside", "road_from_sources", "sources", "surface"]
