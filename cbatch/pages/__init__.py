"""Reports to look at: pictures, and one HTML file that holds them. Reads what runs left on disk; knows no engine.

A directory becomes a `Play`, a `Sweep` or a `Comparison` (`read`), these become `Picture`s and `Table`s (a module a
subject), and these a page (`page`). The only layer that imports matplotlib.
"""

from cbatch.pages.report import write_report

__all__ = ["write_report"]
