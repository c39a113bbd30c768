"""From samples to the benchmark's tables: medians, spreads, ratios against the side "nothing", goals. No measuring
here.

A result is {"row": name, "title": ..., "unit": "ns"|"s"|"bytes"|..., "goal": {...} or None, "sides": {side: {"samples":
[...]} or
{"missing": why} or {"failed": why}}}. Goals: {"ratio": r} and {"plus": n} compare the side culprit with nothing,
{"most": n} looks at culprit's own median; with several of them one that holds is enough.
"""
import statistics

BASE, OURS = "nothing", "culprit"
SCALES = {"ns": [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")],
          "bytes": [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")],
          "instructions": [(1, "instructions")], "times": [(1, "x")]}


def quantity(value, unit):
    """A value with three digits and a readable unit: 1234.5 ns is "1.23 us"."""
    sign, value = ("-", -value) if value < 0 else ("", value)
    factor, name = next(((f, n) for f, n in SCALES[unit] if value >= f), SCALES[unit][-1])
    value /= factor
    return f"{sign}{value:.0f} {name}" if value >= 100 or value == 0 else f"{sign}{value:.3g} {name}"


def summarize(result):
    """Adds median, min, max, low and high (the spread), ratio and added (against the side nothing) to each side that
    has samples; then the verdict.

    Ratio and difference are medians over pairs of runs that followed each other: a host that is half as fast for some
    seconds disturbs one pair and not the comparison."""
    sides = result["sides"]
    for side in sides.values():
        if side.get("samples"):
            side["median"] = statistics.median(side["samples"])
            side["min"], side["max"] = min(side["samples"]), max(side["samples"])
            side["low"], side["high"] = spread(side["samples"])
    base = sides.get(BASE, {}).get("samples")
    for name, side in sides.items():
        if name != BASE and base and "median" in side:
            pairs = list(zip(base, side["samples"]))
            side["ratio"] = statistics.median(ours / nothing for nothing, ours in pairs) if min(base) > 0 else None
            side["added"] = statistics.median(ours - nothing for nothing, ours in pairs)
    result["holds"] = holds(result)
    return result


def spread(samples):
    """From where to where they go: all of a few, the middle four fifths of many."""
    if len(samples) < 20:
        return min(samples), max(samples)
    tenths = statistics.quantiles(samples, n=10)
    return tenths[0], tenths[-1]


def holds(result):
    """True or False when the goal can be judged, else None."""
    goal, ours = result.get("goal"), result["sides"].get(OURS, {})
    if not goal or "median" not in ours:
        return None
    judged = []
    if "most" in goal:
        judged.append(ours["median"] <= goal["most"])
    if "plus" in goal and "added" in ours:
        judged.append(ours["added"] <= goal["plus"])
    if "ratio" in goal and ours.get("ratio") is not None:
        judged.append(ours["ratio"] <= goal["ratio"])
    return any(judged) if judged else None


def goal_text(result):
    goal, unit = result.get("goal"), result["unit"]
    if not goal:
        return ""
    texts = []
    if "ratio" in goal:
        texts.append(f"{goal['ratio']:.2f}x")
    if "plus" in goal:
        texts.append(f"+{quantity(goal['plus'], unit)}")
    if "most" in goal:
        texts.append(quantity(goal["most"], unit))
    return "at most " + " or ".join(texts)


def side_text(result, name):
    """One cell of the table."""
    side, unit = result["sides"].get(name), result["unit"]
    if side is None:
        return ""
    if "failed" in side:
        return "failed"
    if "median" not in side:
        return side.get("missing", "not measured")
    text = quantity(side["median"], unit)
    if len(side["samples"]) > 1:
        text += f" ({quantity(side['low'], unit)} to {quantity(side['high'], unit)})"
    if side.get("ratio") is not None:
        text += f" {side['ratio']:.2f}x"
    return text


def columns(results, titles):
    """The sides that any row has, in the order of `titles`."""
    return [name for name in titles if any(name in result["sides"] for result in results)]


def table(results, titles):
    """The table as text: rows of cells, padded."""
    names = columns(results, titles)
    lines = [["", *(titles[name] for name in names), "goal", ""]]
    for result in results:
        verdict = {True: "holds", False: "MISSED", None: ""}[result["holds"]]
        lines.append([result["title"], *(side_text(result, name) for name in names), goal_text(result), verdict])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def markdown(results, titles, machine):
    """The table for tests/bench/FIGURES.md: ratios where there is a side to compare with, else the value itself."""
    names = [name for name in columns(results, titles) if name != BASE]
    lines = [f"Measured with `scripts/bench.sh` on {machine}.", "",
             "| | without | " + " | ".join(titles[name] for name in names) + " | goal |",
             "| --- " * (len(names) + 3) + "|"]
    for result in results:
        cells = [short_text(result, name) for name in [BASE, *names]]
        lines.append(f"| {result['title']} | " + " | ".join(cells) + f" | {goal_text(result)} |")
    return "\n".join(lines)


def short_text(result, name):
    side = result["sides"].get(name)
    if side is None:
        return ""
    if "median" not in side:
        return "failed" if "failed" in side else side.get("missing", "")
    if "plus" in (result.get("goal") or {}) and "added" in side:
        return ("" if side["added"] < 0 else "+") + quantity(side["added"], result["unit"])
    return quantity(side["median"], result["unit"]) if side.get("ratio") is None else f"{side['ratio']:.2f}x"
