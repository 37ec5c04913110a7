"""Where the driver's jobs come from: read ahead as fast as they can be (`LookAhead`), or released at their times.

jobs -> LookAhead -> driver                   a job arrives when it has been read
jobs -> LookAhead -> PacedArrivals -> driver  at its arrival time, on a real clock
jobs -> Arrivals -> driver                    the same on a virtual clock, where nobody is late
jobs -> LookAhead -> Quarantine -> driver     rows that may have killed an earlier worker first, a few at a time
"""

from cbatch.feed.arrivals import Arrivals
from cbatch.feed.feed import Feed
from cbatch.feed.look_ahead import WINDOW, LookAhead
from cbatch.feed.paced import PacedArrivals
from cbatch.feed.quarantine import CRASHED, Quarantine, Watcher

__all__ = ["CRASHED", "WINDOW", "Arrivals", "Feed", "LookAhead", "PacedArrivals", "Quarantine", "Watcher"]
