"""The interface of a Python program to culprit, while the program runs under culprit (culprit run -- python ...).

    import culprit

    with culprit.mark("epoch 3"):        # allocations get the innermost open mark: culprit report --group-by mark
        train()
    culprit.mark("warm-up done")         # a moment: culprit report --since-mark "warm-up done"
    culprit.mark("asleep", snapshot=True)  # and what is live then: culprit diff DUMP --from "awake" --to "asleep"

    with culprit.check():                # a block that leaves memory behind raises culprit.LeakError with the report
        step()

    @culprit.no_growth(repeat=5)         # a function, a test for example, that needs more memory each time it is called
    def test_step(): ...                 # raises culprit.LeakError; a cache that comes once is none

    print(culprit.tensors())             # the variables that keep the live tensors and arrays

Without libculprit.so, when culprit.loaded() is False, all functions do nothing. The package needs the standard library
only, and imports no framework. (PYTEST_DONT_REWRITE: a program may import the package before pytest does.)
"""
from culprit._api import live_bytes, loaded, mark, snapshot, start, stop
from culprit._check import LeakError, NotKnownError, check
from culprit._growth import no_growth
from culprit._tensors import Keeper, Tensors, tensors


def load_ipython_extension(ipython: object) -> None:
    """%load_ext culprit"""
    from culprit import _magic

    _magic.load(ipython)


__all__ = ["Keeper", "LeakError", "NotKnownError", "Tensors", "check", "live_bytes", "loaded", "mark", "no_growth",
           "snapshot", "start", "stop", "tensors"]
__version__ = "0.2.0"
