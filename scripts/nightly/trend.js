// The nights of culprit-nightly (trend_page.py makes the data): the verdict of the last one, then its commands, the
// worst first.
"use strict";

// "22 Nov 2026, 02:00 UTC"
culprit.nightDate = (date) => d3.utcFormat("%-d %b %Y, %H:%M UTC")(new Date(date));
culprit.nightDay = (date) => d3.utcFormat("%-d %b %Y")(new Date(date));

(function () {
  const { el } = culprit;

  const verdict = (red) => el("span", { class: red ? "verdict red" : "verdict" }, red ? "▼ Red" : "✓ Green");

  // A table that may be wider than the page; a keyboard scrolls it.
  function wide(label, heads, rows) {
    return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label },
      el("table", null, el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col" }, head)))),
        el("tbody", null, rows.map((cells) => el("tr", null, cells)))));
  }

  function leaks(command) {
    if (command.leaks.length === 0) return null;
    const state = (leak) => {
      if (leak.state === "new") return el("span", { class: "verdict red" }, "new");
      if (leak.state === "grown")
        return el("span", { class: "verdict red" }, "grown" +
          (leak.was ? " from " + culprit.bytes(leak.was) : "") +
          (leak.was_count ? " in " + culprit.number(leak.was_count) + "×" : ""));
      return "accepted";
    };
    const rest = command.groups - command.leaks.length;
    return [wide("Leaks of " + command.name, ["Leaked", "State", "Where", "Cause", "Since", "Id"],
      command.leaks.map((leak) => [
        el("td", { class: "fixed" }, el("span", { class: "bytes" }, culprit.bytes(leak.bytes)), " ",
          el("span", { class: "quiet" }, culprit.number(leak.count) + "×")),
        el("td", { class: "fixed" }, state(leak)),
        el("td", null, el("span", { class: "night-where" }, leak.where), el("span", { class: "quiet" }, leak.api)),
        el("td", { class: "fixed" }, leak.cause.replaceAll("-", " ")),
        el("td", { class: "fixed" }, culprit.nightDay(leak.since)),
        el("td", null, el("code", null, leak.id)),
      ])), rest > 0 && el("p", { class: "quiet" }, "and " + culprit.number(rest) + " more; the night's page has them")];
  }

  function nights(command, dates) {
    const rows = command.nights.map((night, i) => [dates[i], night]).filter(([, night]) => night).reverse();
    return el("details", { class: "more" },
      el("summary", null,
        (rows.length === 1 ? "This night" : "All " + culprit.number(rows.length) + " nights") + " as a table"),
      wide("All nights of " + command.name, ["Night", "Verdict", "Leaked", "In words"], rows.map(([date, night]) => [
        el("td", { class: "fixed" },
          night.page ? el("a", { href: night.page }, culprit.nightDate(date)) : culprit.nightDate(date)),
        el("td", { class: "fixed" }, verdict(night.red)),
        el("td", { class: "fixed" }, night.bytes === null ? "–" : culprit.bytes(night.bytes)),
        el("td", null, night.words),
      ])));
  }

  function card(command, dates) {
    const good = command.reasons.length === 0;
    const counts = [command.errors > 0 && culprit.plural(command.errors, "bad free", "bad frees"),
      !command.unknown && culprit.bytes(command.bytes) + " leaked in " +
        culprit.plural(command.groups, "group", "groups"),
      command.gone > 0 && command.gone + " gone", command.seconds + " s"].filter(Boolean);
    return el("section", { class: command.red ? "card night-command red" : "card night-command",
      "aria-label": command.name, "data-command": command.name },
      el("div", { class: "card-head" }, el("h2", null, command.name), verdict(command.red)),
      el("p", { class: "reasons" }, good ? null : el("strong", null, command.reasons.join(", ") + " · "),
        counts.join(" · ")),
      el("p", { class: "quiet command-line" }, el("code", null, command.command)),
      el("ul", { class: "links" },
        command.page && el("li", null, el("a", { href: command.page }, "page of this night")),
        command.dumps.map((dump) => el("li", null, el("a", { href: dump.address }, dump.name)))),
      command.output.length > 0 && el("details", { class: "more", open: command.failed },
        el("summary", null, "Last lines of its output"),
        el("pre", { class: "output", tabindex: 0, role: "region", "aria-label": "Output of " + command.name },
          command.output.join("\n"))),
      new culprit.NightChart(command, dates).element,
      leaks(command),
      nights(command, dates));
  }

  culprit.views.trend = function (data) {
    const dates = data.nights.map((night) => night.date);
    const main = culprit.shell(el("div", { class: "subject-lines" },
      el("strong", null, data.title),
      el("span", { class: "quiet facts-line" },
        [culprit.nightDate(data.date), data.host, data.revision].filter(Boolean).join(" · "))),
      [["← →", "the night before, the next one, in a chart that has the focus"], ["Enter", "open the night's page"]]);
    // Failures first, because they may have no data. Then by new leaks, then by all leaks.
    const worst = (command) => [command.red ? 1 : 0, command.failed ? 1 : 0,
      d3.sum(command.leaks, (leak) => (leak.state === "known" ? 0 : leak.bytes)), command.bytes];
    const commands = [...data.commands].sort((a, b) => {
      const left = worst(a), right = worst(b);
      const at = left.findIndex((value, i) => value !== right[i]);
      return at < 0 ? 0 : right[at] - left[at];
    });
    const red = commands.filter((command) => command.red);
    let since = data.nights.length - 1;
    while (since > 0 && data.nights[since - 1].red === data.nights[since].red) since -= 1;
    const row = data.nights.length - since;
    const tile = (name, count, label, detail) =>
      culprit.tile(count > 0 ? name : "none", culprit.number(count), label, detail);
    const failed = commands.filter((command) => command.failed);
    // Each red command has one reason here, the worst, so that the numbers add up.
    const grew = red.filter((command) => !command.failed && command.new + command.grown > 0);
    const others = red.filter((command) => !command.failed && command.new + command.grown === 0);
    const why = [failed.length > 0 && failed.length + " failed",
      grew.length > 0 && grew.length + " with new leaks or grown ones",
      others.length > 0 && others.length + " for another reason"].filter(Boolean).join(", ");
    const sum = (state, what) => d3.sum(commands, (command) => command.sums[state][what]);
    const states = ["new", "grown", "known"];
    const leakTile = (name, state, label, detail) =>
      tile(name, sum(state, "count"), label, culprit.bytes(sum(state, "bytes")) + " · " + detail);
    const count = d3.sum(states, (state) => sum(state, "count"));
    const unlisted = sum("unlisted", "bytes");
    const bytes = d3.sum(states, (state) => sum(state, "bytes")) + unlisted;
    culprit.fill(main,
      el("section", { class: "summary", "aria-label": "Verdict" }, el("div", { class: "tiles" },
        culprit.tile(red.length > 0 ? "leaked" : "clean", red.length > 0 ? "Red" : "Green", "Tonight",
          (red.length > 0 ? red.length + " of " : "all ") + culprit.plural(commands.length, "command", "commands") +
            (why ? ": " + why : "") + (row > 1 ? "; for " + row + " nights" : "")),
        tile("dropped", failed.length, "Failed", failed.length > 0
          ? failed.map((command) => command.name).join(", ")
          : "each command ended with 0 and was recorded"),
        leakTile("new", "new", "New leaks", "never accepted"),
        leakTile("grown", "grown", "Grown leaks", "since they were accepted"),
        leakTile("accepted", "known", "Accepted leaks", "as they were"),
        culprit.tile("total", culprit.number(count), "All leaks",
          culprit.bytes(bytes) + " · new, grown and accepted ones" +
            (unlisted > 0 ? "; " + culprit.bytes(unlisted) + " of them are in no list" : "")))),
      culprit.notes(data.missing.map((name) => name + " was not run; the night before it was")),
      commands.map((command) => card(command, dates)));
  };
})();
