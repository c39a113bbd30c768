// The numbers at the top, and the first thing to look at.
"use strict";

// A number with its label; a click calls `open`, if given.
culprit.tile = function (name, value, label, detail, open) {
  const { el } = culprit;
  const inside = [el("span", { class: "tile-label" }, label), el("span", { class: "tile-value" }, value),
    el("span", { class: "tile-detail" }, detail)];
  if (!open) return el("div", { class: "tile tile-" + name, "data-tile": name }, inside);
  return el("button", { class: "tile tile-" + name, "data-tile": name, onclick: open }, inside);
};

// `open(list)` shows one of the lists below; `choose(group)` opens a leak.
culprit.tiles = function (model, open, choose) {
  const { el } = culprit;
  const report = model.report, summary = report.summary;

  const tile = (name, value, label, detail, list) =>
    culprit.tile(name, value, label, detail, list ? () => open(list) : null);

  // The device with the highest use.
  function peakTile() {
    let best = null;
    for (const device of report.devices) {
      const recorded = Math.max(device.time_line ? device.time_line.peak_bytes : 0, device.peak_live_bytes);
      const reading = device.memory.peak;
      const read = reading ? reading.total_bytes - reading.free_bytes : 0;
      const bytes = Math.max(recorded, read);
      if (bytes > 0 && (!best || bytes > best.bytes)) best = { bytes, recorded, device };
    }
    if (!best) return null;
    const reading = best.device.memory.first || best.device.memory.peak;
    const of = reading ? " of " + culprit.bytes(reading.total_bytes) : "";
    const detail = best.bytes === best.recorded
      ? "allocated on GPU " + best.device.ordinal + of
      : "in use on GPU " + best.device.ordinal + of + ", a reading of cuMemGetInfo; " + culprit.bytes(best.recorded) +
        " allocated by this process";
    return tile("peak", culprit.bytes(best.bytes), "At the peak", detail);
  }

  const leaked = summary.leaked_bytes > 0 || summary.groups > 0;
  const tiles = [
    ...(leaked
      ? report.totals_by_words.map((total) => tile(total.may_be_freed ? "live" : "leaked", culprit.bytes(total.bytes),
          total.verb,
          culprit.plural(total.allocations, "allocation", "allocations") + " in " +
            culprit.plural(total.groups, "group", "groups") +
            (summary.complete ? "" : "; not known what else"), "leaks"))
      : [report.in_headline.length > 0 &&
          tile("findings", culprit.number(report.in_headline.length),
            report.in_headline.length === 1 ? "Finding" : "Findings", report.in_headline.join(", "),
            summary.errors ? "errors" : null),
      summary.complete
        ? tile("clean", "Nothing", report.verb,
          culprit.plural(summary.allocations, "allocation", "allocations") + ", all accounted for")
        : tile("incomplete", "Not known", "Verdict", "no leak among the recorded allocations")]),
    peakTile(),
    model.cached.length > 0 && tile("cached", culprit.bytes(summary.cached_bytes), "Cached",
      "kept by " + (summary.caches.map((cache) => cache.pool).join(", ") || "an allocator") + ", not counted",
      "cached"),
    model.library.length > 0 && tile("library", culprit.bytes(summary.library_bytes), "Libraries' own",
      culprit.plural(summary.library_allocations, "allocation", "allocations") + ", not counted", "library"),
    tile("errors", culprit.number(summary.errors), "Bad frees", summary.errors ? "refused or wrong" : "none",
      summary.errors ? "errors" : null),
    tile("calls", culprit.number(summary.allocations), "Allocations made", culprit.number(summary.frees) + " freed"),
    summary.dropped > 0 &&
      tile("dropped", culprit.number(summary.dropped), "Not recorded", "this report is incomplete"),
  ];

  return el("section", { class: "summary", "aria-label": "Summary" },
    el("div", { class: "tiles" }, tiles), leaked && firstThing());

  // The largest leak, in a sentence, with the hint.
  function firstThing() {
    const group = model.leaks.reduce((best, one) => (!best || one.bytes > best.bytes ? one : best), null);
    if (!group) return null;
    const where = group.where ? group.where.name : "an unknown place";
    return el("div", { class: "first-thing" },
      el("div", null,
        el("p", { class: "first-title" }, "Start here: ", el("strong", null, culprit.bytes(group.bytes)),
          " (" + (culprit.percent(group.bytes, summary.leaked_bytes) || "0 %") + ") in ", el("code", null, where),
          culprit.Model.place(group.where) && el("span", { class: "quiet" }, "  " + culprit.Model.place(group.where))),
        group.hint && el("p", { class: "first-hint" }, group.hint)),
      el("button", { class: "button", id: "first", onclick: () => choose(group) }, "Open"));
  }
};

// Leaked bytes by cause as one bar, and its legend.
culprit.causeBar = function (model) {
  const { el } = culprit;
  const bytes = new Map();
  for (const group of model.leaks) bytes.set(group.cause, (bytes.get(group.cause) || 0) + group.bytes);
  const total = d3.sum(bytes.values());
  const parts = Object.keys(culprit.causes).filter((cause) => bytes.get(cause) > 0);
  if (total === 0 || parts.length < 2) return null;
  return el("section", { class: "causes", "aria-label": "Leaked bytes by cause" },
    el("div", { class: "cause-bar", "aria-hidden": "true" }, parts.map((cause) => el("span", {
      class: "cause-part cause-" + cause,
      style: "flex-grow:" + bytes.get(cause) / total,
    }))),
    el("div", { class: "legend" }, parts.map((cause) => el("span", { class: "legend-entry" },
      el("i", { class: "swatch cause-" + cause }), culprit.causeTitle(cause, model.mayBeFreed) + " ",
      el("strong", null, culprit.bytes(bytes.get(cause))), culprit.percent(bytes.get(cause), total)))));
};
