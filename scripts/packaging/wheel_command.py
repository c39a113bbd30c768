"""The commands of the wheel, culprit and culprit-nightly, which lie inside the package; for the wheel only."""
import os
import sys

_BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "bin")


def culprit():
    os.execv(os.path.join(_BIN, "culprit"), ["culprit", *sys.argv[1:]])


def culprit_nightly():
    os.execv(os.path.join(_BIN, "culprit-nightly"), ["culprit-nightly", *sys.argv[1:]])
