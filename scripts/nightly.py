"""What scripts/nightly.sh does: see there."""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import trend_page

SCHEMA = "culprit.night/1"


class Unusable(Exception):
    """Something that cannot be read, built or written."""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="nightly.sh", description="Runs commands under culprit and keeps a history.")
    parser.add_argument("--commands", required=True, type=pathlib.Path,
                        help="file with a line 'NAME: COMMAND' for each")
    parser.add_argument("--history", required=True, type=pathlib.Path, help="folder of the nights and of index.html")
    parser.add_argument("--build", default="", help="command that builds what is run")
    parser.add_argument("--culprit", default="", help="the culprit command (default: the one in PATH, or this tree's)")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds that a command may take (default 3600)")
    parser.add_argument("--title", default="GPU memory leaks, night by night", help="of the page")
    options = parser.parse_args(arguments)
    if options.timeout <= 0:
        parser.error("--timeout: more than 0 seconds are needed")
    return options


def read_commands(path):
    """The (name, command line) pairs of the file, in its order."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
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
    if given:
        found = shutil.which(given)
    else:
        own = pathlib.Path(__file__).resolve().parent.parent / "build" / "bin" / "culprit"
        found = shutil.which("culprit") or (str(own) if own.exists() else None)
    if not found:
        raise Unusable(f"{given or 'culprit'}: no such command; name it with --culprit PATH")
    return os.path.abspath(found)


def read_nights(folder):
    """All nights of the history, the oldest first."""
    nights = []
    for path in sorted(folder.glob("*.json")):
        try:
            night = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Unusable(f"{path}: cannot be read ({error}); move it out of {folder}") from error
        if not isinstance(night, dict) or night.get("schema") != SCHEMA:
            raise Unusable(f"{path}: no night of this script; move it out of {folder}")
        nights.append(night)
    return sorted(nights, key=lambda night: night["date"])


def run_limited(command, timeout):
    """The exit code and the last lines of output; 'timeout' for one that had to be killed, with all its children."""
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                              start_new_session=True) as process:
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = "timeout"
        output.seek(max(0, output.seek(0, os.SEEK_END) - 2000))
        return code, output.read().decode("utf-8", "replace").splitlines()[-20:]


def counts_of(report):
    """How many leaks of these processes are new, grown or gone since the baseline."""
    processes = report.get("reports", [report])
    total = {"new": 0, "grown": 0, "gone": 0}
    for process in processes:
        baseline = process.get("baseline", {})
        total["new"] += baseline.get("new", 0)
        total["grown"] += baseline.get("grown", 0)
        total["gone"] += len(baseline.get("gone", []))
    # A merged report of a job has a list of its processes.
    total["processes"] = sum(len(process.get("processes", [process])) for process in processes)
    for name in ("leaked_bytes", "leaked_allocations", "cached_bytes", "errors"):
        total[name] = sum(one["summary"][name] for one in processes)
    return total


def run_command(culprit, name, line, before, timeout):
    """Runs one command; `before`: what the last night says of it, or None."""
    with tempfile.TemporaryDirectory() as work:
        paths = {key: os.path.join(work, key) for key in ("report", "baseline", "leaks")}
        command = [culprit, "run", "--format", "json", "--output", paths["report"], "--write-baseline", paths["leaks"]]
        if before is not None:
            with open(paths["baseline"], "w", encoding="utf-8") as file:
                json.dump({"schema": "culprit.baseline/1", "leaks": before["leaks"]}, file)
            command += ["--baseline", paths["baseline"]]
        start = time.monotonic()
        code, output = run_limited([*command, "--", "sh", "-c", line], timeout)
        result = {"name": name, "command": line, "exit_code": code, "seconds": round(time.monotonic() - start, 1)}
        if code != 0:
            result["output"] = output
        try:
            with open(paths["report"], encoding="utf-8") as file:
                report = json.load(file)
            with open(paths["leaks"], encoding="utf-8") as file:
                result["leaks"] = json.load(file)["leaks"]
        except (OSError, ValueError):
            # Nothing is known of this night, so the next one is compared with the last known state.
            return {**result, "unknown": True, "leaks": before["leaks"] if before is not None else []}
    return {**result, **counts_of(report)}


def is_worse(result, before):
    failed = result["exit_code"] != 0 and (before is None or before["exit_code"] == 0)
    return failed or result.get("new", 0) + result.get("grown", 0) > 0


def revision():
    """The commit of the working directory; empty when it is in no repository."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def write_night(folder, night):
    """Whole or not at all: the next nights need it."""
    path = folder / (night["date"].replace(":", "-") + ".json")
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(night, indent=1) + "\n", encoding="utf-8")
    temporary.rename(path)
    return path


def main(arguments):
    options = parse_arguments(arguments)
    commands = read_commands(options.commands)
    culprit = find_culprit(options.culprit)
    options.history.mkdir(parents=True, exist_ok=True)
    nights = read_nights(options.history)
    if options.build:
        print(f"nightly.sh: building: {options.build}", flush=True)
        if subprocess.run(options.build, shell=True, stdin=subprocess.DEVNULL, check=False).returncode != 0:
            raise Unusable(f"the build failed: {options.build}")
    last = {result["name"]: result for night in nights for result in night["commands"]}
    # Fine enough for two runs in one night.
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    night = {"schema": SCHEMA, "date": date, "host": os.uname().nodename, "revision": revision(), "commands": []}
    worse = False
    for name, line in commands:
        result = run_command(culprit, name, line, last.get(name), options.timeout)
        night["commands"].append(result)
        worse = worse or is_worse(result, last.get(name))
        print(f"nightly.sh: {name}: {trend_page.in_words(result)}", flush=True)
    path = write_night(options.history, night)
    page = options.history / "index.html"
    page.write_text(trend_page.page([*nights, night], options.title), encoding="utf-8")
    print(f"nightly.sh: {shlex.quote(str(path))}, {shlex.quote(str(page))}")
    return 1 if worse else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Unusable, OSError) as problem:
        print(f"nightly.sh: {problem}", file=sys.stderr)
        sys.exit(3)
