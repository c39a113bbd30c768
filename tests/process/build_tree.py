"""The trees that a test gets as its first two arguments, SOURCE and BUILD, and how it starts programs of the build."""
import os
import pathlib
import sys

SOURCE, BUILD = (pathlib.Path(argument) for argument in sys.argv[1:3])
del sys.argv[1:3]
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "simcuda"), "NO_COLOR": "1", "CULPRIT_CACHE": "off"}
ENVIRONMENT.pop("CULPRIT_OUT", None)


def subject(name):
    return str(BUILD / "subjects" / name)
