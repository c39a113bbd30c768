#!/usr/bin/env python3
"""Gets pinned files: scripts/fetch.py LIST FOLDER

Each line of LIST is `SHA256 PLACE...`: the hash of a file and where it is. A place is a path in Debian's archive
("pool/...") or a URL; the last part of the first place is the file's name in FOLDER. A file that is there with the
right hash is not fetched again, so a packager without a network puts the files there before. The environment variable
CULPRIT_DOWNLOADS names another folder that has them. The paths of the files are printed. Exit code 1: a file cannot
be had, or has another hash.
"""
import hashlib
import os
import pathlib
import shutil
import sys
import time
import urllib.error
import urllib.request

# The newest first. Debian moves releases out of support to the second; the third keeps every file for ever.
DEBIAN = ["http://deb.debian.org/debian/", "http://archive.debian.org/debian/",
          "https://snapshot.debian.org/archive/debian/20250520T000000Z/"]
ATTEMPTS = 3


def addresses(place):
    return [place] if "://" in place else [mirror + place for mirror in DEBIAN]


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def download(address, path):
    """Raises OSError."""
    part = path.with_name(path.name + ".part")
    with urllib.request.urlopen(address, timeout=60) as source, open(part, "wb") as file:
        shutil.copyfileobj(source, file)
    part.replace(path)


def fetch(wanted, places, folder):
    """The path of the file; SystemExit when it cannot be had."""
    path = folder / places[0].rpartition("/")[2]
    brought = os.environ.get("CULPRIT_DOWNLOADS")
    for present in [path] + ([pathlib.Path(brought) / path.name] if brought else []):
        if present.is_file() and hash_of(present) == wanted:
            return present
    problems = []
    for address in [address for place in places for address in addresses(place)]:
        for attempt in range(ATTEMPTS):
            try:
                download(address, path)
            except urllib.error.HTTPError as error:
                problems.append(f"{address}: {error}")
                break  # the same answer would come again
            except OSError as error:
                problems.append(f"{address}: {error}")
                time.sleep(attempt)
                continue
            if hash_of(path) == wanted:
                return path
            problems.append(f"{address}: SHA-256 {hash_of(path)}, expected {wanted}")
            path.unlink()
            break
    sys.exit("\n".join(["fetch.py: cannot get " + path.name, *problems,
                        f"Without a network: put the file into {folder}, or name its folder by CULPRIT_DOWNLOADS."]))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for line in pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words:
            print(fetch(words[0], words[1:], folder).resolve())


if __name__ == "__main__":
    main()
