"""Writes the trend page of culprit-nightly: the verdict of the last night, and the bytes that each command leaked in
each night. The page is one file that refers only to the pages and dumps beside it. It is put together as the pages of
culprit are (report/render/html/html_page.cpp), from the same style and scripts; trend.js draws it."""
import html
import json
import pathlib
import re
import urllib.parse

from history import write_whole
from printable import printable_strings

PARTS = pathlib.Path(__file__).resolve().parent
MOST_NIGHTS = 400  # in the page; older ones are in the history
MOST_LEAKS = 200  # of one command


def size(count):
    """'1.25 GiB', as culprit writes it."""
    units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    if count < 1024:
        return f"{count} B"
    value = count / 1024
    while value >= 1023.5 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {units[0]}"


def plural(count, one):
    return f"{count} {one}" + ("" if count == 1 else "s")


def in_words(result):
    """'exit status 3, 1 new; 1 bad free, leaked 1.25 GiB in 2 groups, 1 gone': the reasons to be red come first."""
    if result.get("unknown"):
        text = "no report"
    else:
        text = f"leaked {size(result['leaked_bytes'])} in {plural(len(result['leaks']), 'group')}"
        if result["gone"]:
            text += f", {result['gone']} gone"
        if result["errors"]:
            text = f"{plural(result['errors'], 'bad free')}, {text}"
    return "; ".join(([", ".join(reasons_of(result))] if reasons_of(result) else []) + [text])


def reasons_of(result):
    """Why the result is red. Nights of older versions have no reasons in their files."""
    if "reasons" in result:
        return result["reasons"]
    reasons = []
    if result["exit_code"] != 0:
        reasons.append(f"exit status {result['exit_code']}")
    if result.get("unknown"):
        reasons.append("nothing was recorded")
    return reasons + [f"{result[state]} {state}" for state in ("new", "grown") if result.get(state)]


def is_red(result):
    return result.get("verdict", "red" if reasons_of(result) else "green") != "green"


def address(path):
    """A path as a relative address."""
    return urllib.parse.quote(path) if path else None


def is_same(one, other):
    """Whether these are one leak. Those of older versions, whose ids follow another rule, are known by their place."""
    if ("id_rule" in one) == ("id_rule" in other):
        return one["id"] == other["id"]
    return all(one.get(key) == other.get(key) for key in ("where", "api", "kind"))


def since(leak, nights):
    """The date of the first of the last nights that had this leak without interruption. `nights`: (date, result or
    None) of the command, the newest last. Nights of which nothing is known interrupt nothing."""
    first = nights[-1][0]
    for date, result in reversed(nights):
        if result is None or result.get("unknown"):
            continue
        if not any(is_same(one, leak) for one in result["leaks"]):
            break
        first = date
    return first


def sums_by_state(leaks, leaked_bytes):
    """The number and the bytes of the new, grown and accepted leaks, of all of them, and what the list of leaks lacks:
    parts that add up."""
    sums = {state: {"count": 0, "bytes": 0} for state in ("new", "grown", "known")}
    for leak in leaks:
        of = sums[leak["state"] if leak["state"] in sums else "known"]
        of["count"] += 1
        of["bytes"] += leak["bytes"]
    listed = sum(of["bytes"] for of in sums.values())
    sums["unlisted"] = {"count": 0, "bytes": max(0, leaked_bytes - listed)}
    return sums


def command_data(name, history, nights, with_files):
    """The data that the page shows of a command that ran in the last night."""
    results = [(night["date"], next((one for one in night["commands"] if one["name"] == name), None))
               for night in nights]
    last = results[-1][1]
    accepted = history.accepted(name)
    leaks = []
    for leak in last["leaks"]:
        state = leak.get("state", "known")
        # An older version kept what the leak had among the accepted leaks alone.
        was = leak.get("was") or accepted.get(leak["id"], {}) if state == "grown" else {}
        leaks.append({**{key: leak[key] for key in ("id", "bytes", "count", "api", "where", "cause")}, "state": state,
                      "since": since(leak, results),
                      "was": was.get("bytes"), "was_count": was.get("count")})
    leaks.sort(key=lambda leak: (leak["state"] == "known", -leak["bytes"], leak["id"]))

    def point(date, result):
        if result is None:
            return None
        return {"bytes": None if result.get("unknown") else result["leaked_bytes"], "red": is_red(result),
                "words": in_words(result),
                "page": address(result.get("page")) if date in with_files else None}

    return {"name": name, "command": last["command"], "seconds": last["seconds"], "red": is_red(last),
            "failed": last["exit_code"] != 0 or bool(last.get("unknown")), "unknown": bool(last.get("unknown")),
            "bytes": last.get("leaked_bytes", 0), "new": last.get("new", 0), "grown": last.get("grown", 0),
            "gone": last.get("gone", 0), "errors": last.get("errors", 0), "reasons": reasons_of(last),
            "output": last.get("output", []), "page": address(last.get("page")),
            "dumps": [{"name": pathlib.PurePath(dump).name, "address": address(dump)}
                      for dump in last.get("dumps", [])],
            "sums": sums_by_state(leaks, last.get("leaked_bytes", 0)),
            "groups": len(leaks), "leaks": leaks[:MOST_LEAKS],
            "nights": [point(date, result) for date, result in results]}


def page_data(history, nights, title):
    nights_shown = nights[-MOST_NIGHTS:]
    last = nights_shown[-1]
    with_files = {night["date"] for night in nights_shown if history.has_files(night)}
    names = [result["name"] for result in last["commands"]]
    before = nights_shown[-2]["commands"] if len(nights_shown) > 1 else []
    missing = [result["name"] for result in before if result["name"] not in names]
    return {"view": "trend", "title": title, "date": last["date"], "host": last["host"], "revision": last["revision"],
            "nights": [{"date": night["date"], "red": any(is_red(one) for one in night["commands"])}
                       for night in nights_shown],
            "missing": missing,
            "commands": [command_data(name, history, nights_shown, with_files) for name in names]}


def page(data):
    """The page with this data."""
    data = printable_strings(data)

    def part(found):
        name = found[1]
        if name == "title":
            return html.escape(data["title"])
        if name == "data":
            # In a <script> element "</script>" and "<!--" have a meaning, even inside a string.
            return json.dumps(data).replace("<", "\\u003c")
        return (PARTS / name).read_text(encoding="utf-8")

    template = (PARTS / "trend.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{([^}]+)\}\}", part, template)


def write(path, history, nights, title):
    """Writes the page of these nights, the oldest first; there is at least one."""
    write_whole(path, page(page_data(history, nights, title)))
