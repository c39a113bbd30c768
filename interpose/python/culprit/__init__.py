"""What a Python program can tell culprit, and ask it, while it runs under it (culprit run -- python ...).

    import culprit

    with culprit.mark("epoch 3"):        # allocations carry the innermost mark: culprit report --group-by mark
        train()
    culprit.mark("warm-up done")         # a moment: culprit report --since-mark "warm-up done"

    with culprit.check():                # a block that leaves memory behind raises culprit.LeakError with the report
        step()

Where libculprit.so is not loaded everything here does nothing; culprit.loaded() says so. Pure Python, nothing but the
standard library; no framework is imported.
"""
from culprit._api import live_bytes, loaded, mark, snapshot, start, stop
from culprit._check import LeakError, check

__all__ = ["LeakError", "check", "live_bytes", "loaded", "mark", "snapshot", "start", "stop"]
__version__ = "0.1.0"
