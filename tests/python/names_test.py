#!/usr/bin/env python3
"""Names of variables in the program's words where Python keeps them in tables of its own: names_test.py BUILD_FOLDER
SOURCE_FOLDER"""
import glob
import os
import unittest

from view_test import TENSOR, TORCH, Views, each_python

TEXT = TORCH + """
import enum, threading
def tensor(): return torch.empty(TENSOR)
local = threading.local()
local.buffer, local.deep = tensor(), {"a": [tensor()]}
class Own(threading.local):
    def __init__(self): self.cache = tensor()
own = Own()
class Settings: pass
settings = Settings()
settings.local = threading.local()
settings.local.cache = tensor()
ready, done = threading.Event(), threading.Event()
def work():
    local.buffer = tensor()
    ready.set()
    done.wait()
threading.Thread(target=work, daemon=True).start()
ready.wait()
running = threading.Event()
def serve(batch):
    running.set()
    done.wait()
server = threading.Thread(target=serve, args=(tensor(),), daemon=True)
server.start()
running.wait()
class Weights(enum.Enum):
    FIRST = tensor()
    OTHER = tensor()
class Level(enum.IntFlag):
    LOW = 1
Level.LOW.table = tensor()
"""


class Names(Views):
    @each_python
    def test_threads_and_enums(self, python):
        """Those of all threads, and each member once. A thread's argument is a variable of its function, too."""
        self.both_ways(python, TEXT)
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        rows = {row["path"]: row["bytes"] // TENSOR for row in self.keepers(dump)["kept"]}
        self.assertEqual(rows, {"`local.buffer`": 2, "`local.deep['a']`, a list of 1": 1, "`own.cache`": 1,
                                "`settings.local.cache`": 1, "`Weights.FIRST._value_`": 1,
                                "`Weights.OTHER._value_`": 1, "`Level.LOW.table`": 1,
                                "shared by `server`, `serve() line 26: batch` and `threading._active`: free all": 1})


if __name__ == "__main__":
    unittest.main(argv=["names_test.py"], verbosity=2)
