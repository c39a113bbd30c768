"""The files of culprit-nightly: one JSON file for each night, and the baselines of leaks that were accepted."""
import datetime
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile

SCHEMA = "culprit.night/1"
BASELINE_SCHEMA = "culprit.baseline/1"


class Unusable(Exception):
    """A file cannot be read or written, or the build failed."""


def file_name(name):
    """A name for the files of a command: the command's own, where it has no characters that paths give a meaning."""
    plain = re.sub(r"[^A-Za-z0-9._+-]", "_", name)[:80]
    if plain == name and not plain.startswith("."):
        return plain
    return plain.lstrip(".") + "-" + hashlib.sha256(name.encode()).hexdigest()[:8]


def write_whole(path, text):
    """Writes under another name first, so that a reader never finds half a file."""
    descriptor, temporary = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_whole(path):
    """The text of a regular file. A FIFO or a device would block for ever; OSError instead."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file")
        return file.read()


def read_json(path):
    try:
        return json.loads(read_whole(path))
    except (OSError, ValueError) as error:
        raise Unusable(f"{path}: cannot be read ({error})") from error


# The members that a night needs, and each of its commands and leaks. What later versions added may be missing.
NIGHT_MEMBERS = {"date": str, "host": str, "revision": str, "commands": list}
COMMAND_MEMBERS = {"name": str, "command": str, "exit_code": (int, str), "seconds": (int, float), "leaks": list}
KNOWN_MEMBERS = {"new": int, "grown": int, "gone": int, "processes": int, "leaked_bytes": int,
                 "leaked_allocations": int, "cached_bytes": int, "errors": int}
LEAK_MEMBERS = {"id": str, "bytes": int, "count": int, "api": str, "where": str, "cause": str}


def check_members(path, what, value, members):
    """Raises Unusable when a member is missing or of another type."""
    if not isinstance(value, dict):
        raise Unusable(f"{path}: {what} is no object")
    for name, kind in members.items():
        if not isinstance(value.get(name), kind) or isinstance(value[name], bool):
            raise Unusable(f"{path}: {what} has no usable member \"{name}\"")


def number_of(night):
    """Of the night in its history, counted from 1; 0: an older version wrote it."""
    number = night.get("number")
    return number if isinstance(number, int) else 0


def check_night(path, night):
    check_members(path, "the night", night, NIGHT_MEMBERS)
    for result in night["commands"]:
        check_members(path, "a command", result, COMMAND_MEMBERS)
        if not result.get("unknown"):
            check_members(path, f"the command {result['name']}", result, KNOWN_MEMBERS)
        for leak in result["leaks"]:
            check_members(path, f"a leak of {result['name']}", leak, LEAK_MEMBERS)


class History:
    """The folder of --history."""

    def __init__(self, folder):
        self.folder = folder

    def nights(self):
        """All nights, in the order in which they ran: a clock that was set back changes nothing."""
        nights = []
        for path in sorted(self.folder.glob("*.json")):
            night = read_json(path)
            if not isinstance(night, dict) or night.get("schema") != SCHEMA:
                raise Unusable(f"{path}: no night of this command; move it out of {self.folder}")
            check_night(path, night)
            nights.append(night)
        return sorted(nights, key=lambda night: (number_of(night), night["date"]))

    @staticmethod
    def name_of(date):
        return date.replace(":", "-")

    def free_date(self, now):
        """The date of a new night: `now`, or the first moment after it that no night has."""
        while True:
            date = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            if not self.night_folder(date).exists() and not self.file_of(date).exists():
                return date
            now += datetime.timedelta(milliseconds=1)

    def file_of(self, date):
        return self.folder / (self.name_of(date) + ".json")

    def night_folder(self, date):
        """Where the pages and dumps of a night are."""
        return self.folder / "nights" / self.name_of(date)

    def write(self, night):
        path = self.file_of(night["date"])
        write_whole(path, json.dumps(night, indent=1) + "\n")
        return path

    def remove_files(self, nights):
        """Removes the pages and dumps of these nights; their results stay."""
        for night in nights:
            shutil.rmtree(self.night_folder(night["date"]), ignore_errors=True)

    def has_files(self, night):
        return self.night_folder(night["date"]).is_dir()

    def baseline(self, name):
        """The path of the accepted leaks of a command, a baseline of culprit; it need not exist."""
        return self.folder / "accepted" / (file_name(name) + ".json")

    def accepted(self, name):
        """The accepted leaks of a command by id."""
        path = self.baseline(name)
        if not path.exists():
            return {}
        found = read_json(path)
        if not isinstance(found, dict) or found.get("schema") != BASELINE_SCHEMA:
            raise Unusable(f"{path}: no baseline of culprit")
        if not isinstance(found.get("leaks"), list):
            raise Unusable(f"{path}: the baseline has no usable member \"leaks\"")
        for leak in found["leaks"]:
            check_members(path, "a leak", leak, {"id": str, "bytes": int})
        return {leak["id"]: leak for leak in found["leaks"]}

    def accept(self, name, leaks):
        """Makes `leaks` the accepted ones. Comments of those that were accepted before stay."""
        before = self.accepted(name)
        lines = []
        for leak in sorted(leaks, key=lambda leak: leak["id"]):
            kept = {key: value for key, value in leak.items() if key not in ("state", "was")}
            kept["comment"] = before.get(leak["id"], {}).get("comment") or leak.get("comment", "")
            lines.append("  " + json.dumps(kept))
        path = self.baseline(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f'{{"schema": "{BASELINE_SCHEMA}",\n "comment": {json.dumps("leaks of " + name)},\n "leaks": ['
        write_whole(path, text + ",".join("\n" + line for line in lines) + ("\n ]}\n" if lines else "]}\n"))
        return path
