"""What the loops of the frameworks share: how a step is timed. In rounds of its own; or (--turns N) once for each line
on standard input, see measure.h; or (--switched N) like this, but with culprit's recording off in one turn and on in
the other."""
import ctypes
import statistics
import sys
import time


def turns(option):
    """So many lines are to come; each of them is a turn."""
    for turn in range(int(sys.argv[sys.argv.index(option) + 1])):
        if not sys.stdin.readline():
            sys.exit(f"{option}: a line on standard input is a turn, and there is none any more")
        yield turn


def run(name, step, synchronize, steps):
    """Prints name=NS, nanoseconds of a step: the median over rounds of so many steps, or those of each turn, which has
    a quarter as many. With recording switched it prints off=NS and on=NS, one each turn."""
    def timed(count):
        synchronize()
        begin = time.perf_counter_ns()
        for _ in range(count):
            step()
        synchronize()
        return (time.perf_counter_ns() - begin) / count

    def timed_turn():
        few = steps // 4
        timed(few // 5)  # others had their turns since the last one, or recording was switched
        return timed(few)

    timed(steps)
    if "--turns" in sys.argv:
        for _ in turns("--turns"):
            print(f"{name}={timed_turn():.1f}", flush=True)
    elif "--switched" in sys.argv:
        library = ctypes.CDLL(None)
        if not hasattr(library, "culprit_api_stop"):
            sys.exit("--switched: libculprit.so is not loaded")
        switch = {"off": library.culprit_api_stop, "on": library.culprit_api_start}
        for turn in turns("--switched"):
            way = ("off", "on", "on", "off")[turn % 4]
            switch[way]()
            print(f"{way}={timed_turn():.1f}", flush=True)
    else:
        print(f"{name}={statistics.median(timed(steps) for _ in range(15)):.1f}")
