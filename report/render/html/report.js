// The report of one or several processes.
"use strict";

culprit.views.report = function (data) {
  const { el, fill } = culprit;
  const reports = data.reports;
  // By leaked bytes; of processes without leaks, one with another finding or an unknown verdict.
  const badness = (report) => report.summary.leaked_bytes ||
    (report.summary.groups > 0 ? 0.9 : report.in_headline.length > 0 ? 0.8 : report.incomplete.length > 0 ? 0.7 : 0);
  const worst = reports.reduce((best, report, i) => (badness(report) > badness(reports[best]) ? i : best), 0);
  const subject = el("div", { class: "subject-lines" });
  const main = culprit.shell(subject,
    [["/", "search the list"], ["f", "find in the flame graph"],
      ["↓ ↑ or j k", "next and previous leak, once one has the focus"],
    ["Enter", "open or close a leak; zoom into a bar"], ["Esc", "close the leak; zoom out; leave a field"],
    ["arrows", "move in the flame graph"]]);
  let table = null, model = null, shown = -1;

  function endText(process) {
    if (process.ended === "exit") return "exit " + process.exit_status;
    return process.ended + (process.signal ? " by " + process.signal : "");
  }

  function describe(report) {
    const process = report.process;
    const device = report.devices.map((one) => "GPU " + one.ordinal + " " + one.name).slice(0, 2).join(", ") +
      (report.devices.length > 2 ? " …" : "");
    const began = process.start_realtime_ns ? new Date(process.start_realtime_ns / 1e6).toLocaleString() : "";
    const pick = reports.length > 1 &&
      el("select", { id: "process", "aria-label": "Process", onchange: (event) => show(Number(event.target.value)) },
      reports.map((one, i) => el("option", { value: i, selected: i === shown },
        culprit.baseName(one.process.exe) + " [" + one.process.pid + "]" +
          (one.process.rank !== null && one.process.rank !== undefined ? " rank " + one.process.rank : "") + " · " +
            (one.summary.groups > 0 ? [] : one.in_headline)
              .concat(culprit.bytes(one.summary.leaked_bytes)).join(", "))));
    const job = report.processes || [];
    const ranks = job.filter((one) => one.rank !== null).length;
    fill(subject,
      el("span", { class: "command", title: process.command.join(" ") }, process.command.join(" ") || process.exe),
      pick,
      el("span", { class: "quiet facts-line" },
        [...(job.length > 0 ? [culprit.plural(job.length, "process", "processes") +
          (ranks === job.length ? ", ranks of a job" : "")] : ["pid " + process.pid, process.host, endText(process)]),
          device, process.end_time_ns ? "ran " + culprit.time(process.end_time_ns) : "", began].filter(Boolean)
            .join(" · ")));
  }

  // Notes that qualify the results, shown above them.
  function notes(report) {
    const list = report.notes.slice();
    if (report.recording && report.recording.share) list.unshift("Recorded in part: " + report.recording.share);
    if (report.part) list.unshift("A part of the run: " + report.part);
    if (report.summary.not_searched) list.unshift("Not searched: " + report.summary.not_searched);
    list.unshift(...report.incomplete.map((reason) => "Not known: " + reason));
    if (report.summary.merged_stacks > 0)
      list.unshift(culprit.plural(report.summary.merged_stacks, "stack", "stacks") +
        " found no room and kept their innermost frames only: raise CULPRIT_MAX_DUMP.");
    for (const use of report.suppressed || [])
      list.push(culprit.bytes(use.bytes) + " in " + culprit.plural(use.allocations, "allocation", "allocations") +
        " hidden by “" + use.suppression + "” (" + use.file + ":" + use.line + ")");
    if (report.filtered && report.filtered.groups)
      list.push(culprit.bytes(report.filtered.bytes) + " in " +
        culprit.plural(report.filtered.groups, "group", "groups") + " left out by the filters that were given");
    list.push(...(report.trimmed || []));
    if (data.reports_left_out)
      list.push(culprit.plural(data.reports_left_out, "process is", "processes are") +
        " left out, so that this page stays below 25 MB. Other formats have them.");
    return culprit.notes(list);
  }

  // The processes of all reports, as render_html.cpp packs them.
  const job = (data.job ? data.job.processes : []).map(([report, process, rank, pid, host, leaked, peak]) =>
    ({ report, process, rank, pid, host: data.job.hosts[host], leaked, peak }));
  const verb = reports.every((one) => one.verb === reports[0].verb) ? reports[0].verb : "Leaks";

  // Shows the leaks of a process.
  function chooseProcess(one) {
    if (one.report >= reports.length) return;
    if (one.report !== shown) show(one.report);
    if (one.process === null) {
      table.element.scrollIntoView({ behavior: "smooth" });
      return;
    }
    table.narrow(culprit.Ranks.title(one), new Set(model.leaks.filter((group) =>
      group.spread && group.spread.amounts.some((amount) => amount.processes.includes(one.process)))), "of ");
  }

  function show(at) {
    shown = at;
    model = model && model.report === reports[at] ? model : new culprit.Model(reports[at], data.strict);
    describe(reports[at]);
    table = new culprit.LeakTable(model);
    culprit.printing(table);
    const open = (list) => {
      table.show(list);
      table.element.scrollIntoView({ behavior: "smooth" });
    };
    const choose = (group) => table.choose(group);
    const hasBytes = model.leaks.some((group) => group.bytes > 0);
    fill(main,
      notes(reports[at]),
      culprit.breakdowns.failures(reports[at]),
      culprit.notes(reports[at].failed_allocations),
      culprit.findings(reports[at].findings),
      culprit.tiles(model, open, choose),
      new culprit.Ranks(job, verb, chooseProcess).element,
      culprit.causeBar(model),
      hasBytes && new culprit.Flame(model, (name, groups) => table.narrow(name, groups)).element,
      new culprit.TimeLine(model, choose).element,
      culprit.breakdowns.peaks(reports[at]),
      culprit.breakdowns.balances(reports[at]),
      culprit.breakdowns.shared(reports[at]),
      table.element);
  }

  // "#7c1e0a44b2d9f310" opens the first leak with that id, in any process; "#7c1e0a44b2d9f310-2" the second one.
  function follow(anchor) {
    const here = (report) =>
      ["leaks", "library", "resources"].some((list) => report[list].some((group) => group.anchor === anchor));
    if (!here(reports[shown])) {
      const other = reports.findIndex(here);
      if (other < 0) return;
      show(other);
    }
    const group = model.all().find((one) => one.anchor === anchor);
    if (group) table.choose(group);
  }

  culprit.focusKeys({ "/": "#leak-search", f: "#flame-search", j: "tr.row .row-open" });
  show(worst);
  culprit.followAddress(follow);
};
