"""Writes the trend page of scripts/nightly.sh: the bytes that each command leaked in each night. The page is one file
without scripts and without references to other files."""
import html

STYLE = """
:root { --ink: #1c2430; --paper: #fbfcfd; --card: #fff; --line: #dfe4ea; --dim: #667084; --bad: #c4314b;
  --good: #1d7f4f; --bar: #4f74d9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --paper: #12161c; --card: #1a2028; --line: #2c3440;
  --dim: #93a0b2; --bad: #ff7d90; --good: #5fd39a; --bar: #86a6ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 60rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 0; } p { margin: .2rem 0; }
.dim { color: var(--dim); font-size: .9rem; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem;
  margin-top: 1rem; }
code { font: .85rem ui-monospace, monospace; overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: 120px; margin: .6rem 0; } svg rect { fill: var(--bar); }
svg rect.worse { fill: var(--bad); } svg rect.unknown { fill: var(--line); }
svg text { fill: var(--dim); font-size: 11px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td, th { text-align: left; padding: .25rem .5rem .25rem 0;
  border-top: 1px solid var(--line); vertical-align: top; }
td:first-child { white-space: nowrap; }
"""
MOST_NIGHTS = 60
MOST_LEAKS = 20


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
    """'leaked 1.25 GiB in 2 groups, 1 new; exit code 3'."""
    if result.get("unknown"):
        text = "no report"
    else:
        text = f"leaked {size(result['leaked_bytes'])} in {plural(len(result['leaks']), 'group')}"
        changes = [f"{result[what]} {what}" for what in ("new", "grown", "gone") if result[what]]
        text += "".join(", " + change for change in changes)
        if result["errors"]:
            text += f", {plural(result['errors'], 'bad free')}"
    if result["exit_code"] == "timeout":
        return text + "; killed after its time"
    return text + (f"; exit code {result['exit_code']}" if result["exit_code"] != 0 else "")


def chart(results):
    """Bars of the leaked bytes; `results`: (date, result or None) for each night."""
    width, height = 600, 100
    most = max([result["leaked_bytes"] for _, result in results if result and not result.get("unknown")], default=0)
    step = width / len(results)
    parts = [f'<svg viewBox="0 0 {width} {height + 20}" preserveAspectRatio="none" role="img">']
    for number, (date, result) in enumerate(results):
        if result is None:
            continue
        unknown = result.get("unknown", False)
        bar = height if unknown else max(1, round(height * result["leaked_bytes"] / most)) if most else 1
        worse = not unknown and result["new"] + result["grown"] > 0
        kind = "unknown" if unknown else "worse" if worse else "known"
        parts.append(f'<rect class="{kind}" x="{number * step + step * .1:.1f}" y="{height - bar}" '
                     f'width="{step * .8:.1f}" height="{bar}"><title>{html.escape(date)}: '
                     f"{html.escape(in_words(result))}</title></rect>")
    parts.append(f'<text x="0" y="{height + 15}">{html.escape(results[0][0][:10])}</text>'
                 f'<text x="{width}" y="{height + 15}" text-anchor="end">{html.escape(results[-1][0][:10])}</text>'
                 "</svg>")
    return "".join(parts)


def leaks_table(result, before):
    known = {leak["id"]: leak["bytes"] for leak in (before or {}).get("leaks", [])}
    rows = []
    for leak in sorted(result["leaks"], key=lambda leak: -leak["bytes"])[:MOST_LEAKS]:
        mark = ""
        if before is not None and leak["id"] not in known:
            mark = ' <span class="bad">new</span>'
        elif before is not None and leak["bytes"] > known[leak["id"]]:
            mark = f' <span class="bad">grown from {size(known[leak["id"]])}</span>'
        rows.append(f"<tr><td>{size(leak['bytes'])}{mark}</td><td>{leak['count']}x</td>"
                    f"<td>{html.escape(leak['api'])}</td>"
                    f"<td>{html.escape(leak['where'])}</td><td>{html.escape(leak['cause'])}</td>"
                    f"<td><code>{html.escape(leak['id'])}</code></td></tr>")
    if not rows:
        return ""
    rest = len(result["leaks"]) - len(rows)
    return ("<table><tr><th>leaked</th><th>calls</th><th>API</th><th>where</th><th>cause</th><th>id</th></tr>" +
            "".join(rows) + "</table>" + (f"<p class=dim>and {plural(rest, 'group')} more</p>" if rest else ""))


def section(name, nights):
    results = [(night["date"], next((one for one in night["commands"] if one["name"] == name), None))
               for night in nights]
    here = [result for _, result in results if result]
    last, before = here[-1], here[-2] if len(here) > 1 else None
    fine = not last.get("unknown") and last["exit_code"] == 0 and last["new"] + last["grown"] == 0
    return (f"<section><h2>{html.escape(name)}</h2>"
            f"<p class={'good' if fine else 'bad'}>{html.escape(in_words(last))}</p>"
            f"<p class=dim><code>{html.escape(last['command'])}</code> · {last['seconds']} s</p>"
            f"{chart(results[-MOST_NIGHTS:])}{leaks_table(last, before)}</section>")


def page(nights, title):
    """The page of these nights, the oldest first; there is at least one."""
    last = nights[-1]
    about = [last["date"][:16].replace("T", " ") + " UTC", last["host"], last["revision"], plural(len(nights), "night")]
    names = [result["name"] for result in last["commands"]]
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{html.escape(title)}</title><style>{STYLE}</style><h1>{html.escape(title)}</h1>"
            f"<p class=dim>{html.escape(' · '.join(part for part in about if part))}; "
            f"red bars: nights with new or grown leaks</p>{''.join(section(name, nights) for name in names)}</html>\n")
