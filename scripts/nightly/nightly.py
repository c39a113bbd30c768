"""culprit-nightly: runs commands under culprit, keeps their reports, and compares them with the accepted leaks."""
import argparse
import datetime
import json
import os
import pathlib
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import trend_page
from history import SCHEMA, History, Unusable, file_name, number_of, read_whole
from printable import printable

ABOUT = """\
Builds, runs commands under culprit, keeps a page and the dumps of each, and writes a trend page of all nights.
`culprit-nightly accept` makes leaks known that stay."""
FILES = """\
FILE has a line "NAME: COMMAND LINE" for each command. Empty lines and lines that begin with # are skipped.

DIR gets
  index.html             the trend page
  DATE.json              what was found in a night (schema culprit.night/1)
  nights/DATE/NAME/      the report of a command as a page, and its dumps
  accepted/NAME.json     the accepted leaks of a command: a baseline of culprit, which `culprit-nightly accept` writes

A night is green when each command ended with 0, everything was recorded, and no leak is new or has grown since it was
accepted. A command that fails every night is red every night.

exit codes:
  0  green
  1  red
  2  wrong usage
  3  a file cannot be read or written, or the build failed"""
ACCEPT_ABOUT = """\
Accepts the leaks that the last night found: the nights that follow are compared with them. The last night is the one
that ran last, whatever the clock said. Exit code 1: of a command not everything was recorded, and its leaks are not
accepted."""
# The meaning of exit statuses of culprit report, besides 0 (no new leak) and 1 (new leaks).
GATE_REASONS = {3: "its report could not be made", 4: "not known: not everything was recorded"}


def parse_run(arguments):
    parser = argparse.ArgumentParser(prog="culprit-nightly", description=ABOUT, epilog=FILES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", required=True, type=pathlib.Path, metavar="FILE", help="the commands to run")
    parser.add_argument("--history", required=True, type=pathlib.Path, metavar="DIR", help="folder of the nights")
    parser.add_argument("--build", default="", metavar="COMMAND", help="builds the programs first")
    parser.add_argument("--culprit", default="", metavar="PATH",
                        help="the command culprit (default: the one beside this command, else from PATH)")
    parser.add_argument("--timeout", type=float, default=3600, metavar="SECONDS",
                        help="time limit of a command (default 3600)")
    parser.add_argument("--keep", type=int, default=0, metavar="NIGHTS",
                        help="remove pages and dumps of all but the last NIGHTS nights (default: none)")
    parser.add_argument("--title", default="GPU memory leaks, night by night", help="title of the trend page")
    options = parser.parse_args(arguments)
    if options.timeout <= 0:
        parser.error("--timeout: more than 0 seconds are needed")
    if options.keep < 0:
        parser.error("--keep: a number of nights is needed")
    return options


def parse_accept(arguments):
    parser = argparse.ArgumentParser(prog="culprit-nightly accept", description=ACCEPT_ABOUT)
    parser.add_argument("--history", required=True, type=pathlib.Path, metavar="DIR", help="folder of the nights")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only leaks of this command (repeatable; default: of all)")
    parser.add_argument("--leak", action="append", default=[], metavar="ID",
                        help="only the leak with this id, and those that were accepted before (repeatable)")
    return parser.parse_args(arguments)


def read_commands(path):
    """The (name, command line) pairs of the file, in its order."""
    try:
        lines = read_whole(path).splitlines()
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from error
    commands = []
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, command = (part.strip() for part in line.partition(":"))
        if not colon or not name or not command:
            raise Unusable(f"{path}:{number}: 'NAME: COMMAND' is needed")
        if name in dict(commands):
            raise Unusable(f"{path}:{number}: there is a command called {name} already")
        commands.append((name, command))
    if not commands:
        raise Unusable(f"{path}: no command in it; write lines like 'NAME: COMMAND'")
    return commands


def find_culprit(given):
    """The path of culprit. It lies in bin/ and this file in share/culprit/nightly/, in the build and installed."""
    beside = pathlib.Path(__file__).resolve().parents[3] / "bin" / "culprit"
    found = shutil.which(given) if given else str(beside) if beside.exists() else shutil.which("culprit")
    if not found:
        raise Unusable(f"{given or 'culprit'}: no such command; name it with --culprit PATH")
    return os.path.abspath(found)


def read_proc(pid, name):
    try:
        return pathlib.Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""


def processes_of(root, mark):
    """The pids below `root`, and those with `mark` in their environment: children that left the session, too."""
    parents = {}
    for entry in os.listdir("/proc"):
        fields = read_proc(entry, "stat").rpartition(b")")[2].split() if entry.isdigit() else []
        if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
            parents[int(entry)] = int(fields[1])
    found = {pid for pid in parents if mark in read_proc(pid, "environ").split(b"\0")}
    below = {root}
    while below:
        found |= below
        below = {pid for pid, parent in parents.items() if parent in below} - found
    return (found & parents.keys()) - {os.getpid()}


def kill_all(root, mark):
    """Ends the processes of a command; until there is none, because they may start others meanwhile."""
    end = time.monotonic() + 10
    while (living := processes_of(root, mark)) and time.monotonic() < end:
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.02)


def run_limited(command, timeout):
    """The exit status and the last lines of output. At the time limit the command and its children are killed, and the
    status is 'timeout'."""
    mark = f"CULPRIT_NIGHTLY={secrets.token_hex(16)}"
    name, _, value = mark.partition("=")
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                              start_new_session=True, env={**os.environ, name: value}) as process:
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                kill_all(process.pid, mark.encode())
                process.wait()
                status = "timeout"
        output.seek(max(0, output.seek(0, os.SEEK_END) - 2000))
        return status, output.read().decode("utf-8", "replace").splitlines()[-20:]


def compared(report):
    """By id, how the leaks compare with the baseline: 'state' (new, grown or known), and what it has of the leak. The
    entries of one leak all have the same."""
    return {leak["id"]: leak["baseline"] for process in report.get("reports", [report])
            for leak in process.get("leaks", []) if "baseline" in leak}


def counts_of(report, states):
    """Sums of all processes, and how many leaks are new, grown or gone since the baseline."""
    processes = report.get("reports", [report])
    total = {state: list(states.values()).count(state) for state in ("new", "grown")}
    total["gone"] = len({leak for process in processes for leak in process.get("baseline", {}).get("gone", [])})
    # A merged report of a job has a list of its processes.
    total["processes"] = sum(len(process.get("processes", [process])) for process in processes)
    for name in ("leaked_bytes", "leaked_allocations", "cached_bytes", "errors"):
        total[name] = sum(one["summary"][name] for one in processes)
    return total


class Runner:
    """Runs commands and judges what was found."""

    def __init__(self, culprit, history, date, timeout):
        self.culprit = culprit
        self.history = history
        self.folder = history.night_folder(date)
        self.timeout = timeout

    def run(self, name, line):
        """The result of one command, as the night's file has it."""
        folder = self.folder / file_name(name)
        folder.mkdir(parents=True)
        page = folder / "report.html"
        # In the pattern of --out a percent sign begins a conversion, unless it is doubled.
        pattern = str(folder.absolute()).replace("%", "%%") + "/%n.%p.dump"
        command = [self.culprit, "run", "--out", pattern, "--output", str(page)]
        start = time.monotonic()
        status, output = run_limited([*command, "--", "sh", "-c", line], self.timeout)
        result = {"name": name, "command": line, "exit_code": status, "seconds": round(time.monotonic() - start, 1)}
        dumps = sorted(str(path) for path in folder.glob("*.dump"))
        reasons = [] if status == 0 else [status_text(status, self.timeout)]
        found, gate, problem = self.judge(name, folder if dumps else None, output)
        if dumps and not page.exists():
            run_limited([self.culprit, "report", str(folder), "--output", str(page)], self.timeout)
        result.update(found)
        # A report of a command that failed says only that, where everything was recorded.
        if gate not in (0, 1) and not (gate == 4 and reasons and found.get("complete")):
            reasons.append(problem)
        # The gate decides; the counts say why.
        reasons += [f"{found[state]} {state}" for state in ("new", "grown") if found.get(state)]
        if gate == 1 and not reasons:
            reasons.append("new leaks")
        result.update(gate=gate, verdict="red" if reasons else "green", reasons=reasons)
        if reasons and output:
            result["output"] = output
        result["page"] = self.link(page) if page.exists() else None
        result["dumps"] = [self.link(pathlib.Path(dump)) for dump in dumps]
        return result

    def judge(self, name, folder, said):
        """The report's content, the exit status of the gate (None: nothing was judged), and in words why the status
        is neither 0 nor 1. `folder`: with the dumps, and what the run knew of its processes; None: it has no dumps.
        `said`: the output of the command."""
        nothing = {"unknown": True, "leaks": []}
        if folder is None:
            return nothing, None, "nothing was recorded" + said_in(said)
        with tempfile.TemporaryDirectory() as work:
            report, leaks, none = (os.path.join(work, one) for one in ("report", "leaks", "none"))
            baseline = self.history.baseline(name)
            self.history.accepted(name)
            if not baseline.exists():
                baseline = none
                pathlib.Path(none).write_text('{"schema": "culprit.baseline/1", "leaks": []}', encoding="utf-8")
            gate, output = run_limited(
                [self.culprit, "report", "--format", "json", "--output", report, "--write-baseline", leaks,
                 "--baseline", str(baseline), "--fail-on", "new", str(folder)], self.timeout)
            problem = GATE_REASONS.get(gate, "the report: " + status_text(gate, self.timeout)) + said_in(output)
            try:
                with open(report, encoding="utf-8") as file:
                    found = json.load(file)
                with open(leaks, encoding="utf-8") as file:
                    listed = json.load(file)["leaks"]
            except (OSError, ValueError, KeyError, TypeError):
                return nothing, gate, problem if gate not in (0, 1) else "there is no report"
        before = compared(found)
        states = {leak: one["state"] for leak, one in before.items()}
        for leak in listed:
            known = before.get(leak["id"], {})
            leak["state"] = known.get("state", "known")
            leak["comment"] = known.get("comment", "")
            if leak["state"] == "grown":
                leak["was"] = {"bytes": known["bytes"], "count": known["count"]}
        processes = found.get("reports", [found])
        sentences = [sentence for process in processes for sentence in process["summary"]["not_known"]]
        if gate == 4 and sentences and not said_in(output):
            problem += f" ({sentences[0]})"
        complete = not sentences
        return {**counts_of(found, states), "leaks": listed, "complete": complete}, gate, problem

    def link(self, path):
        """From the trend page."""
        return os.path.relpath(path, self.history.folder)


def shell_path(path):
    """A file as a word of a command. A leading dash would begin an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def status_text(status, timeout):
    if status == "timeout":
        return f"killed after {timeout:g} s"
    if status < 0:
        try:
            return "killed by " + signal.Signals(-status).name
        except ValueError:
            return f"killed by signal {-status}"
    return f"exit status {status}"


def said_in(output):
    """' (...)' with the messages of culprit in an output; '' without any."""
    said = " ".join(line.removeprefix("culprit: ").removeprefix("warning: ") for line in output
                    if line.startswith("culprit: "))
    return f" ({said})" if said else ""


def revision():
    """The commit of the working directory; empty outside of a repository."""
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def say(text):
    print(f"culprit-nightly: {printable(text)}", flush=True)


def run_night(arguments):
    options = parse_run(arguments)
    commands = read_commands(options.commands)
    culprit = find_culprit(options.culprit)
    options.history.mkdir(parents=True, exist_ok=True)
    history = History(options.history)
    nights = history.nights()
    if options.build:
        say(f"building: {options.build}")
        if subprocess.run(options.build, shell=True, stdin=subprocess.DEVNULL, check=False).returncode != 0:
            raise Unusable(f"the build failed: {options.build}")
    date = history.free_date(datetime.datetime.now(datetime.timezone.utc))
    number = max((number_of(night) for night in nights), default=0) + 1
    night = {"schema": SCHEMA, "number": number, "date": date, "host": os.uname().nodename, "revision": revision(),
             "commands": []}
    runner = Runner(culprit, history, date, options.timeout)
    for name, line in commands:
        result = runner.run(name, line)
        night["commands"].append(result)
        say(f"{name}: {result['verdict'].upper()}: {trend_page.in_words(result)}")
    path = history.write(night)
    nights.append(night)
    if options.keep:
        history.remove_files(nights[:-options.keep])
    page = options.history / "index.html"
    trend_page.write(page, history, nights, options.title)
    red = [result["name"] for result in night["commands"] if result["verdict"] != "green"]
    if any(result.get("new") or result.get("grown") for result in night["commands"]):
        say(f"leaks that stay are accepted with: culprit-nightly accept --history {shell_path(options.history)}")
    say(f"{'RED: ' + ', '.join(red) if red else 'GREEN'}; {shell_path(path)}, {shell_path(page)}")
    return 1 if red else 0


def accept(arguments):
    options = parse_accept(arguments)
    history = History(options.history)
    nights = history.nights()
    if not nights:
        raise Unusable(f"{options.history}: there is no night in it yet")
    results = {result["name"]: result for result in nights[-1]["commands"]}
    for name in options.only:
        if name not in results:
            raise Unusable(f"{name}: the last night has no such command; it has: {', '.join(results)}")
    chosen = [result for name, result in results.items() if not options.only or name in options.only]
    known = {leak["id"] for result in chosen for leak in result["leaks"]}
    for leak in options.leak:
        if leak not in known:
            raise Unusable(f"{leak}: the last night has no such leak")
    refused = False
    for result in chosen:
        name = result["name"]
        if result.get("unknown"):
            say(f"{name}: nothing is known of the last night, so nothing is accepted")
            refused = True
            continue
        if not result.get("complete", result.get("gate") != 4) and not options.leak:
            say(f"{name}: not everything was recorded in the last night, so its leaks replace no others; "
                "--leak ID accepts one of them")
            refused = True
            continue
        leaks = {leak["id"]: leak for leak in result["leaks"] if not options.leak or leak["id"] in options.leak}
        if options.leak and not leaks:
            continue
        # A command that failed may have ended before it came to the leaks that it had.
        if options.leak or result["exit_code"] != 0:
            leaks = {**history.accepted(name), **leaks}
        path = history.accept(name, leaks.values())
        say(f"{name}: {trend_page.plural(len(leaks), 'leak')} accepted, {shell_path(path)}")
    return 1 if refused else 0


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["accept"]:
            sys.exit(accept(sys.argv[2:]))
        sys.exit(run_night(sys.argv[1:]))
    except (Unusable, OSError) as trouble:
        print(f"culprit-nightly: {trouble}", file=sys.stderr)
        sys.exit(3)
