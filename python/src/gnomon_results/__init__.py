"""Results of Gnomon's runs as data frames.

    import gnomon_results
    results = gnomon_results.open("a.data", "b.data")
    results.transfers.filter("done", "in_window")
"""

from ._open import open
from ._results import Error, Results

__all__ = ["Error", "Results", "open"]
