"""What the loops of the frameworks share: a step is timed, in rounds of its own or (--turns N) once for each line on standard input, see measure.h."""
import statistics
import sys
import time


def run(name, step, synchronize, steps):
    """Prints name=NS, nanoseconds of a step: the median over rounds of so many steps, or those of each turn, which has a quarter as many."""
    def timed(count):
        synchronize()
        begin = time.perf_counter_ns()
        for _ in range(count):
            step()
        synchronize()
        return (time.perf_counter_ns() - begin) / count

    timed(steps)
    if "--turns" not in sys.argv:
        print(f"{name}={statistics.median(timed(steps) for _ in range(15)):.1f}")
        return
    few = steps // 4
    for _ in range(int(sys.argv[sys.argv.index("--turns") + 1])):
        if not sys.stdin.readline():
            sys.exit("--turns: a line on standard input is a turn, and there is none any more")
        timed(few // 5)  # others had their turns since the last one
        print(f"{name}={timed(few):.1f}", flush=True)
