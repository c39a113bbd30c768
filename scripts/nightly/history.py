"""The files of culprit-nightly: one JSON file for each night, and the baselines of leaks that were accepted."""
import hashlib
import json
import re
import shutil

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
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unusable(f"{path}: cannot be read ({error})") from error


class History:
    """The folder of --history."""

    def __init__(self, folder):
        self.folder = folder

    def nights(self):
        """All nights, the oldest first."""
        nights = []
        for path in sorted(self.folder.glob("*.json")):
            night = read_json(path)
            if not isinstance(night, dict) or night.get("schema") != SCHEMA:
                raise Unusable(f"{path}: no night of this command; move it out of {self.folder}")
            nights.append(night)
        return sorted(nights, key=lambda night: night["date"])

    @staticmethod
    def name_of(date):
        return date.replace(":", "-")

    def night_folder(self, date):
        """Where the pages and dumps of a night are."""
        return self.folder / "nights" / self.name_of(date)

    def write(self, night):
        path = self.folder / (self.name_of(night["date"]) + ".json")
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
        return {leak["id"]: leak for leak in found["leaks"]}

    def accept(self, name, leaks):
        """Makes `leaks` the accepted ones. Comments of those that were accepted before stay."""
        before = self.accepted(name)
        lines = []
        for leak in sorted(leaks, key=lambda leak: leak["id"]):
            kept = {key: value for key, value in leak.items() if key != "state"}
            kept["comment"] = before.get(leak["id"], {}).get("comment") or leak.get("comment", "")
            lines.append("  " + json.dumps(kept))
        path = self.baseline(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f'{{"schema": "{BASELINE_SCHEMA}",\n "comment": {json.dumps("leaks of " + name)},\n "leaks": ['
        write_whole(path, text + ",".join("\n" + line for line in lines) + ("\n ]}\n" if lines else "]}\n"))
        return path
