"""The rows of the benchmark: the programs of each row, its sides, and its goal."""
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import machine

sys.path.append(str(Path(__file__).resolve().parents[1] / "gpu"))
import stray_jobs  # noqa: E402; from tests/gpu

# In the order of the table's columns.
SIDES = {"nothing": "without", "culprit": "culprit", "nostacks": "culprit without stacks",
         "cupti": "empty CUPTI callback", "sanitizer": "compute-sanitizer",
         "nsys": "Nsight Systems", "history": "PyTorch's history"}
OURS = ("nothing", "culprit", "nostacks")
SLOW = ("sanitizer", "nsys")
MIB = 2**20
HERE = Path(__file__).resolve().parent
# Of the job that is reported and merged: 0.7 MiB each.
RANKS_OF_JOB = int(os.environ.get("BENCH_RANKS", "1024"))
MERGED = {}  # the first result of a folder
STRAY_ROWS = {"synchronize() before set_device": "synchronize", "zeros(1).cuda() before set_device": "zeros",
              "torch.load of cuda:0 before set_device": "load"}


class Missing(Exception):
    """The side cannot be measured here; the text says why."""


class Failed(Exception):
    """The side ought to have worked."""


@dataclass
class Row:
    name: str
    title: str
    goal: dict = None
    unit: str = "ns"
    key: str = ""  # the name of the printed value; by default the row's name

    def __post_init__(self):
        self.key = self.key or self.name


@dataclass
class Measurement:
    """One run of sample(runner, side) gives a value to each of its rows."""
    name: str
    rows: list
    sides: tuple
    sample: object
    most: dict = field(default_factory=dict)  # repetitions of a side, where fewer than asked for do
    # So many times the repetitions of the two sides that the goals compare, or of all that take turns: a process
    # differs from the next one of the same program by a hundredth or two, because its memory lies elsewhere.
    times: int = 1
    # Turns of each row in one repetition, for a sample() that is a Program, and for sides that are not slow.
    turns: int = 0
    # Number of processors that all sides of a repetition share: those that count fastest at that moment. 0: all.
    pinned: int = 0

    def repeats(self, side, repeat):
        if side in OURS[:2]:
            repeat *= self.times
        return min(repeat, self.most.get(side, 2 if side in SLOW else repeat))


@dataclass
class Program:
    """A sample() that runs one program; command(runner, side) gives its words."""
    command: object
    option: str = "--turns"  # by which it takes turns

    def __call__(self, runner, side):
        # Slow tools get fewer calls: their figures are far from any noise.
        slower = ["--scale", "0.1", "--rounds", "3"] if side in SLOW else []
        return runner.run([*self.command(runner, side), *slower], side, timeout=90)

    def in_turns(self, runner, sides, turns):
        """What Runner.in_turns() returns."""
        commands, missing = {}, {}
        for side in sides:
            try:
                commands[side] = [*self.command(runner, side), self.option, str(turns)]
            except Missing as reason:
                missing[side] = reason
        samples, problems = runner.in_turns(commands)
        return samples, {**missing, **problems}


@dataclass
class Switched:
    """A sample() that runs one program under the library, with recording off (the side "nothing") and on in turn: what
    sides in processes of their own differ by, because their memory lies elsewhere, is the same in both."""
    command: object
    key: str

    def in_turns(self, runner, sides, turns):
        samples, problems = Program(self.command, "--switched").in_turns(runner, ["culprit"], 2 * turns)
        if problems:
            return {}, dict.fromkeys(sides, problems["culprit"])
        values = samples["culprit"]
        ways = {"nothing": "off", "culprit": "on"}
        return {side: {self.key: values[ways[side]]} if ways[side] in values else {} for side in sides}, {}


def on_gpu(runner):
    """NVIDIA's own static runtime where the toolkit was there to link it, else the shared one that the machine has."""
    try:
        return runner.program("bench_runtime_nvstatic")
    except Missing:
        return runner.program("bench_runtime")


def gpu_rows(rows, *options):
    return Program(lambda runner, side: [on_gpu(runner), rows, *options])


def calls_simulated(runner, side):
    return runner.run([runner.program("bench_runtime"), "malloc,launch,memcpy,event,stream"], side, simulated=True)


def free_calls(rows):
    return lambda runner, side: runner.run([runner.program("bench_driver"), rows, "--threads", "2"], side,
                                           simulated=True, SIMCUDA_FREE_CALLS="1")


def short_threads(runner, side):
    return runner.run([runner.program("short_threads"), "3000"], side, simulated=True)


def instructions_of(program, row, name):
    """Instructions of a pair: the difference of two runs with different numbers of pairs."""
    def sample(runner, side):
        few, many = 2000, 12000
        command = [runner.tool("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null",
                   runner.program(program), row, "--calls"]
        counts = [runner.run([*command, str(count)], side, simulated=True, SIMCUDA_FREE_CALLS="1")
                  for count in (few, many)]
        return {name: (counts[1]["instructions"] - counts[0]["instructions"]) / (many - few)}
    return sample


def python_frames(runner, side):
    """The cost of one more Python frame for a pair whose stack is known."""
    program = [sys.executable, "-S", str(HERE / "python_frames.py"), runner.program("python_pairs.so")]
    return {"python-frame": runner.run(program, side, simulated=True, SIMCUDA_FREE_CALLS="1")["python_frame"]}


def python_frame_instructions(runner, side):
    """The difference of two runs with the same calls below few and below many frames."""
    calls, added_frames = 20000, 30
    command = [runner.tool("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-S",
               str(HERE / "python_frames.py"), runner.program("python_pairs.so")]
    counts = [runner.run([*command, frames, str(calls)], side, simulated=True, SIMCUDA_FREE_CALLS="1")
              for frames in ("few", "many")]
    return {"python-frame-instructions": (counts[1]["instructions"] - counts[0]["instructions"]) / calls / added_frames}


def empty_tests(runner, side):
    """500 tests that do nothing, with pytest alone and with its plugin, which starts pytest again."""
    pythons = sys.executable, "/usr/bin/python3"
    python = next((python for python in pythons if machine.has_module("pytest", python)), "")
    package = HERE.parents[1] / "interpose/python_package"
    if not python or not package.is_dir():
        raise Missing("not installed")
    tests = runner.work / "test_empty.py"
    tests.write_text("".join(f"def test_{number}(): pass\n" for number in range(500)), encoding="utf-8")
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "culprit.pytest_plugin",
               *(["--culprit"] if side == "culprit" else []), str(tests)]
    run = runner.run(command, "nothing", simulated=True, PYTHONPATH=str(package),
                     CULPRIT_COMMAND=str(runner.tree / "bin/culprit"))
    return {"pytest": run["cpu_ns"]}


def start(simulated):
    def sample(runner, side):
        def wall(program, row):
            return runner.run([program, row], side, simulated, BENCH_CUPTI_NO_CALLS="1", SIMCUDA_THREADS="3")["wall_ns"]
        runtime = runner.program("bench_runtime") if simulated else on_gpu(runner)
        return {"start-first": wall(runtime, "first"), "start-beside": wall(runtime, "beside"),
                "start-init": wall(runner.program("bench_driver"), "init")}
    return sample


def start_of_run(simulated):
    """The process with one cudaFree(0), alone and as the command of `culprit run`."""
    def sample(runner, side):
        return {"start-run": under_run(runner, side, simulated, "first")["wall_ns"]}
    return sample


def under_run(runner, side, simulated, row):
    """One row of the runtime's program, alone or as the command of `culprit run`."""
    program = [runner.program("bench_runtime") if simulated else on_gpu(runner), row]
    command = [str(runner.tree / "bin/culprit"), "run", "--", *program] if side == "culprit" else program
    # The symbols of the first run serve the next ones.
    return runner.run(command, "nothing", simulated, SIMCUDA_THREADS="3", CULPRIT_CACHE=str(runner.work / "cache"))


def beside_neighbour(simulated):
    """Calls and a start while another process takes and gives back memory of the same GPU: `culprit run` answers the
    questions about it."""
    def sample(runner, side):
        with runner.beside("neighbour", "churn", simulated=simulated):
            calls = under_run(runner, side, simulated, "malloc,launch,stream")
            started = under_run(runner, side, simulated, "first")
        return {"shared-start": started["wall_ns"],
                **{f"shared-{name}": calls[name] for name in ("malloc", "launch", "stream")}}
    return sample


def stray_job(way):
    """A whole job of two ranks, of which one has a context on a GPU that it does not use."""
    def sample(runner, side):
        if not machine.has_module("torch"):
            raise Missing("not installed")
        if machine.gpu_count() < 2:
            raise Missing("fewer than two GPUs")
        folder = runner.work / "stray"
        script = folder / "train.py"
        if not folder.is_dir():
            folder.mkdir()
            stray_jobs.save_checkpoint(folder)
        script.write_text(stray_jobs.script_of(way, folder), encoding="utf-8")
        program = [sys.executable, *stray_jobs.launcher_of(way), str(script)]
        command = [str(runner.tree / "bin/culprit"), "run", "--", *program] if side == "culprit" else program
        return {f"stray-{STRAY_ROWS[way]}": runner.run(command, "nothing")["wall_ns"]}
    return sample


def start_without_cuda(runner, _):
    command = [runner.program("start_up"), "1000", runner.program("empty_library.so"),
               str(runner.tree / "lib/libculprit.so")]
    return {"start-no-cuda": runner.run(command, "nothing")["start_added"]}


def throws(simulated):
    def sample(runner, side):
        program = runner.program("bench_runtime") if simulated else on_gpu(runner)
        return {"throw": runner.run([program, "throw"], side, simulated)["throw"],
                "throw-live": runner.run([program, "throw", "--live", "1000"], side, simulated)["throw"]}
    return sample


def memory(runner, side):
    """Private memory of the target and its dump, with nothing live and with a million allocations."""
    live = 1000000
    program = runner.program("bench_driver")
    totals = []
    for count in (0, live):
        values = runner.run([program, "live", "--live", str(count)], side, simulated=True, SIMCUDA_FREE_CALLS="1")
        totals.append(values["live_anon"] + values["dump_bytes"])
    return {"memory-each": (totals[1] - totals[0]) / live, "memory-base": totals[0]}


def attach_stop(runner, _):
    """The stops of threads by an attach and a detach; culprit is not preloaded."""
    values = runner.run([runner.program("attach_stop"), str(runner.tree / "bin/culprit"),
                         str(runner.tree / "lib/libculprit.so"), "200", "4"], "nothing", simulated=True)
    return {"attach-stop": values["attach_stop"], "detach-stop": values["detach_stop"],
            "attach-gib": values["attach_gib"]}


def report(form):
    def sample(runner, side):
        """`culprit report` on a big dump; the output, hundreds of megabytes, is not kept. Without a format: as text."""
        folder = runner.work / "big_report"
        if not folder.is_dir():
            folder.mkdir()
            runner.run([runner.program("big_report"), str(folder)], "nothing")
        command = [str(runner.tree / "bin/culprit"), "report", "--format", "text" if side == "nothing" else form,
                   "--no-cache", "-o", "/dev/null", *(["--all"] if form == "markdown" else []),
                   str(folder / "big.dump")]
        run = runner.run(command, "report")
        return {f"report-{form}": run["wall_ns"], f"report-{form}-cpu": run["cpu_ns"],
                f"report-{form}-memory": run["peak_bytes"]}
    return sample


def report_again(runner, side):
    """A small report of big libraries; culprit: with the symbols that an earlier one looked up."""
    folder = runner.work / "report_again"
    cache = {"CULPRIT_CACHE": str(folder / "cache")}
    command = [str(runner.tree / "bin/culprit"), "report", "-o", "/dev/null", str(folder / "big.dump")]
    if not folder.is_dir():
        folder.mkdir()
        runner.run([runner.program("big_report"), str(folder), "20000", "2000"], "nothing")
        runner.run(command, "report", **cache)
    run = runner.run([*command, *(["--no-cache"] if side == "nothing" else [])], "report", **cache)
    return {"report-again": run["wall_ns"], "report-again-cpu": run["cpu_ns"], "report-again-memory": run["peak_bytes"]}


def job_folder(runner):
    """The dumps of a job, made once."""
    folder = runner.work / "job"
    if not folder.is_dir():
        folder.mkdir()
        runner.run([runner.program("many_dumps"), str(folder), str(RANKS_OF_JOB)], "nothing", timeout=600)
    return folder


def report_of_job(runner, _):
    folder = job_folder(runner)
    run = runner.run([str(runner.tree / "bin/culprit"), "report", "--no-cache", "-o", "/dev/null", str(folder)],
                     "report", timeout=600)
    return {"report-job": run["wall_ns"], "report-job-cpu": run["cpu_ns"], "report-job-memory": run["peak_bytes"]}


def merge_on(ranks):
    def sample(runner, _):
        """`culprit merge` as that many ranks of one thread each. The shell stands for a launcher."""
        if ranks > len(os.sched_getaffinity(0)):
            raise Missing("fewer processors than ranks")
        folder = job_folder(runner)
        output = runner.work / "merged.json"
        ranks_of_shell = f"for rank in $(seq {ranks}); do PMI_RANK=$((rank - 1)) \"$@\" & all=\"$all $!\"; done; " \
                         "for one in $all; do wait $one || exit 1; done"
        command = ["sh", "-c", ranks_of_shell, "sh", str(runner.tree / "bin/culprit"), "merge", str(folder), "-o",
                   str(output), "--no-cache", "--jobs", "1"]
        run = runner.run(command, "report", timeout=600, PMI_SIZE=str(ranks), CULPRIT_MPI="off")
        merged = output.read_bytes()
        if MERGED.setdefault(folder, merged) != merged:
            raise Failed("the result differs from that of fewer ranks")
        return {f"merge-{ranks}": run["wall_ns"], f"merge-{ranks}-cpu": run["cpu_ns"]}
    return sample


def merges_of_job():
    return [Measurement(f"merge on {ranks}", [
        Row(f"merge-{ranks}", f"merge of {RANKS_OF_JOB:,} dumps of 10,000 live each" if ranks == 1
            else f"the same by {ranks} ranks"),
        Row(f"merge-{ranks}-cpu", "its processor time")], ("culprit",), merge_on(ranks), {"culprit": 3})
            for ranks in (1, 2, 4, 8, 16)]


def reports_against_text():
    """Every other format takes at most three times the time of text, and half as much memory again."""
    titles = {"json": "JSON", "html": "a page", "markdown": "Markdown, --all", "sarif": "SARIF", "junit": "JUnit",
              "folded": "folded stacks", "pprof": "a profile for pprof"}
    return [Measurement(f"report as {form}", [
        Row(f"report-{form}", f"the same as {title}; without: as text", {"ratio": 3}),
        Row(f"report-{form}-cpu", "its processor time"),
        Row(f"report-{form}-memory", "its memory", {"ratio": 1.5}, "bytes")],
                        ("nothing", "culprit"), report(form), {"nothing": 3, "culprit": 3})
            for form, title in titles.items()]


def micro(runner, _):
    return runner.run([runner.program("bench_micro")], "nothing")


def framework(name, title, sides, pinned, turns, times):
    """The loop of a framework: the sides in processes of their own, and recording switched on and off in one."""
    def command(runner, side):
        if not machine.has_module(name):
            raise Missing("not installed")
        return [sys.executable, str(HERE / f"{name}_loop.py"), *(["--history"] if side == "history" else [])]
    switched = f"{name}-switched"
    return [Measurement(name, [Row(name, title, {"ratio": 1.01})], sides, Program(command), turns=turns, times=times,
                        pinned=pinned),
            Measurement(switched, [Row(switched, "recording off and on in one process", {"ratio": 1.01})],
                        ("nothing", "culprit"), Switched(command, switched), turns=turns * times, pinned=pinned)]


def measurements(quick):
    """Everything that is measured; with `quick` what needs no GPU."""
    everything = (*OURS, "cupti", *SLOW)
    equal = {"ratio": 1.02}  # "1.00x within noise"
    common = [
        Measurement("free calls", [
            Row("free1", "pair, driver's calls free", {"plus": 100}, key="async"),
            Row("free64", "the same from 64 stacks in turn", key="async64")],
                    OURS, free_calls("async,async64"), pinned=1),
        Measurement("free calls on two threads", [
            Row("free2", "the same, 2 threads, each", key="asyncN"),
            Row("scaling", "2 threads against 1", {"most": 1.15, "ratio": 1.15}, "times", "asyncN_against_1")],
                    OURS, free_calls("asyncN")),
        Measurement("short threads", [
            Row("short-thread", "thread with one pair, processor time", {"plus": 100e3}, key="short_thread"),
            Row("short-thread-keeps", "thread with one allocation, processor time", {"plus": 100e3},
                key="short_thread_keeps")],
                    ("nothing", "culprit"), short_threads, {"nothing": 3, "culprit": 3}),
        Measurement("attach", [
            Row("attach-stop", "attach to 200 threads and 4 GiB: longest stop of a thread", {"most": 5e6}),
            Row("detach-stop", "the same of the detach", {"most": 5e6}),
            Row("attach-gib", "time of the attach for each GiB", {"most": 1.5e9})],
                    ("culprit",), attach_stop, {"culprit": 3}),
        Measurement("instructions", [Row("instructions", "instructions of a pair", None, "instructions")], OURS,
                    instructions_of("bench_driver", "async", "instructions"), dict.fromkeys(OURS, 1)),
        Measurement("instructions of events",
                    [Row("event-instructions", "instructions of an event, create + destroy", None, "instructions")],
                    OURS, instructions_of("bench_runtime", "event", "event-instructions"), dict.fromkeys(OURS, 1)),
        Measurement("instructions of launches",
                    [Row("launch-instructions", "instructions of a kernel launch", None, "instructions")],
                    OURS[:2], instructions_of("bench_runtime", "launch", "launch-instructions"),
                    dict.fromkeys(OURS[:2], 1)),
        Measurement("instructions of streams",
                    [Row("stream-instructions", "instructions of a stream, create + destroy", None, "instructions")],
                    OURS, instructions_of("bench_runtime", "stream", "stream-instructions"), dict.fromkeys(OURS, 1)),
        Measurement("python frames", [Row("python-frame", "a Python frame of a known stack", {"most": 20})],
                    ("nothing", "culprit"), python_frames),
        Measurement("python frames' instructions", [
            Row("python-frame-instructions", "its instructions", None, "instructions")],
                    ("nothing", "culprit"), python_frame_instructions, {"nothing": 1, "culprit": 1}),
        Measurement("pytest", [Row("pytest", "pytest with 500 empty tests, processor time", {"ratio": 1.5})],
                    ("nothing", "culprit"), empty_tests, times=2),
        Measurement("start without CUDA", [
            Row("start-no-cuda", "process without CUDA, more than an empty library", {"most": 50e3})],
                    ("culprit",), start_without_cuda, {"culprit": 3}),
        Measurement("memory", [
            Row("memory-each", "memory for each live allocation", {"plus": 80}, "bytes"),
            Row("memory-base", "memory with nothing live", {"plus": 64 * MIB}, "bytes")],
                    ("nothing", "culprit"), memory, {"nothing": 2, "culprit": 2}),
        Measurement("report", [
            Row("report-text", "report: 1,000,000 live, 100,000 stacks, big libraries", {"most": 3e9}),
            Row("report-text-cpu", "its processor time"),
            Row("report-text-memory", "its memory", {"most": 1.5 * 2**30}, "bytes")],
                    ("culprit",), report("text"), {"culprit": 3}),
        *reports_against_text(),
        Measurement("report of a job", [
            Row("report-job", f"report of {RANKS_OF_JOB:,} dumps of 10,000 live each", {"most": 5e9}),
            Row("report-job-cpu", "its processor time"), Row("report-job-memory", "its memory", None, "bytes")],
                    ("culprit",), report_of_job, {"culprit": 3}),
        *merges_of_job(),
        Measurement("report again", [
            Row("report-again", "a report of 1.1 GiB of libraries, symbols from the cache; without: --no-cache"),
            Row("report-again-cpu", "its processor time"),
            Row("report-again-memory", "its memory", None, "bytes")],
                    ("nothing", "culprit"), report_again, {"nothing": 5, "culprit": 5}),
        Measurement("micro", [
            Row("micro_live_empty", "live table: add, take, retire"),
            Row("micro_live_full", "the same beside 1,000,000 live"),
            Row("micro_memo", "stack memo, 32 frames"), Row("micro_intern", "stack table, a known stack of 32 frames"),
            Row("micro_clock", "clock")], ("culprit",), micro),
    ]
    starts = [Row("start-first", "process with one cudaFree(0)", {"plus": 2e6}),
              Row("start-beside", "the same in a program that has threads", {"plus": 2e6}),
              Row("start-init", "process with one cuInit", {"plus": 2e6})]
    run_start = [Row("start-run", "the first of them under `culprit run`", {"plus": 10e6})]
    shared = [Row("shared-start", "the same beside a process that takes and gives back memory", {"plus": 10e6}),
              Row("shared-malloc", "cudaMalloc + cudaFree there", {"ratio": 1.05}),
              Row("shared-launch", "kernel launch there", {"ratio": 1.02}),
              Row("shared-stream", "stream create + destroy there", {"ratio": 1.10})]
    throwing = [Row("throw", "throw + catch, nothing live", {"ratio": 1.05}),
                Row("throw-live", "throw + catch, 1,000 live", {"ratio": 1.5})]
    if quick:
        simulated = [Row("malloc", "cudaMalloc + cudaFree, simulated"), Row("launch", "kernel launch, simulated"),
                     Row("memcpy", "cudaMemcpyAsync, simulated"), Row("event", "event create + destroy, simulated"),
                     Row("stream", "stream create + destroy, simulated")]
        return [*common, Measurement("calls", simulated, OURS, calls_simulated),
                Measurement("start", starts, OURS, start(True)),
                Measurement("start of run", run_start, OURS[:2], start_of_run(True)),
                Measurement("beside a neighbour", shared, OURS[:2], beside_neighbour(True)),
                Measurement("exceptions", throwing, OURS, throws(True))]
    return [
        Measurement("pairs", [
            Row("async", "cudaMallocAsync + cudaFreeAsync, 4 KiB", {"ratio": 1.20}),
            Row("event", "event create + destroy", {"ratio": 1.15}),
            Row("async64", "the first from 64 stacks in turn", {"ratio": 1.20}),
            Row("large", "the first of 64 MiB, one stack", {"ratio": 1.20})],
                    everything, gpu_rows("async,event,async64,large"), turns=10, times=3, pinned=1),
        # Fewer calls than the program would make: a round of these lasts long enough.
        Measurement("threads", [
            Row("async16", "the first on 16 threads, each", {"ratio": 1.25}, key="asyncN")],
                    everything, gpu_rows("asyncN", "--scale", "0.1"), turns=30),
        Measurement("calls", [
            Row("malloc", "cudaMalloc + cudaFree", equal), Row("launch", "kernel launch", equal),
            Row("memcpy", "cudaMemcpyAsync, 4 KiB", equal),
            Row("stream", "stream create + destroy", {"ratio": 1.05})],
                    everything, gpu_rows("malloc,launch,memcpy,stream"), turns=10, times=3, pinned=1),
        Measurement("start", starts, (*OURS, "cupti", "sanitizer"), start(False), times=8),
        Measurement("start of run", run_start, OURS[:2], start_of_run(False), times=8),
        Measurement("beside a neighbour", shared, OURS[:2], beside_neighbour(False), times=8, pinned=2),
        Measurement("exceptions", throwing, OURS, throws(False), dict.fromkeys(OURS, 3), pinned=1),
        *[Measurement(f"stray context, {name}", [Row(f"stray-{name}", f"training on two GPUs, {way}")], OURS[:2],
                      stray_job(way), dict.fromkeys(OURS[:2], 3)) for way, name in STRAY_ROWS.items()],
        # Two processors: it has a thread of its own for the gradients.
        *framework("torch", "PyTorch training loop", ("nothing", "culprit", "cupti", "history"), pinned=2, turns=40,
                   times=2),
        *framework("cupy", "CuPy loop without pool", ("nothing", "culprit", "cupti"), pinned=1, turns=20, times=5),
        *framework("numba", "Numba loop", ("nothing", "culprit", "cupti"), pinned=1, turns=20, times=5),
        *common,
    ]
