// The holders of memory at one moment: at a failure with out of memory, and at the highest use.
"use strict";

culprit.breakdowns = (function () {
  const { el } = culprit;
  const most = 100; // shown breakdowns of one kind; a job of a thousand ranks has more

  const place = (frame) =>
    (frame.file ? culprit.baseName(frame.file) + ":" + frame.line : frame.module ? culprit.baseName(frame.module) : "");
  const named = (stack) => (stack.length > 0 ? stack[0].function || place(stack[0]) : "(stack not recorded)");

  // "rank 3: " in a merged report.
  function whose(report, breakdown) {
    const process = report.processes && report.processes[breakdown.process];
    if (!process) return "";
    return process.rank !== null
      ? "rank " + process.rank + ": "
      : "process " + process.pid + " on " + process.host + ": ";
  }

  function title(report, breakdown) {
    const gpu = breakdown.device === null ? "the GPU" : "GPU " + breakdown.device;
    const own = culprit.bytes(breakdown.live_bytes) + " by this process";
    if (breakdown.reason === "peak")
      return [whose(report, breakdown), el("strong", null, culprit.bytes(breakdown.live_bytes)),
        " on " + gpu + " in " + culprit.plural(breakdown.live_allocations, "allocation", "allocations")];
    const memory = breakdown.memory &&
      culprit.bytes(breakdown.memory.total_bytes - breakdown.memory.free_bytes) + " of " +
        culprit.bytes(breakdown.memory.total_bytes) + " of " + gpu + " in use, ";
    return [whose(report, breakdown), breakdown.api + (breakdown.asked_bytes > 0 ? " asked for " : " failed"),
      breakdown.asked_bytes > 0 && el("strong", null, culprit.bytes(breakdown.asked_bytes)),
      breakdown.stack.length > 0 && " in " + named(breakdown.stack) + " " + place(breakdown.stack[0]),
      breakdown.times > 1 && ", the last of " + culprit.number(breakdown.times) + " times",
      "; " + (memory || "") + own];
  }

  function line(bytes, count, name, where) {
    return el("div", { class: "frame" },
      el("span", { class: "frame-name" },
        el("span", { class: "breakdown-bytes" }, typeof bytes === "number" ? culprit.bytes(bytes) : bytes),
        el("span", { class: "breakdown-count" }, count === "" ? "" : culprit.number(count) + "×"), name),
      el("span", { class: "frame-place" }, where));
  }

  // The explanation of a failure.
  function explained(report, breakdown) {
    return (report.out_of_memory || []).find((one) =>
      one.process === breakdown.process && one.device === breakdown.device && one.time_ns === breakdown.time_ns);
  }

  // A line that held memory, and the places that call it.
  function holder(one) {
    const where = one.file ? culprit.baseName(one.file) + ":" + one.line : "";
    const name = one.function || where || one.held_by || "(line not recorded)";
    return [line(one.bytes, one.count || "", name,
        [where, one.held_by && "held by " + one.held_by, one.api || one.what, one.kind, one.pool].filter(Boolean)
          .join(" · ")),
      ...(one.callers || []).slice(0, 2).map((caller) =>
        line("", caller.count, "called from " + (caller.function || ""),
          [caller.file && culprit.baseName(caller.file) + ":" + caller.line, culprit.bytes(caller.bytes)]
            .filter(Boolean).join(" · ")))];
  }

  function idle(one) {
    const words = (reason) => culprit.bytes(reason.bytes) + " " + reason.why.replace(/-/g, " ") +
      (reason.largest_bytes > 0 ? ", the largest of " + culprit.bytes(reason.largest_bytes) : "");
    return line(one.bytes, "", "idle: " + (one.pool || one.what.replace(/-/g, " ")),
      (one.reasons || []).map(words).join(" · "));
  }

  // The processes that NVML charged with memory; nothing where it was not asked.
  function others(one, breakdown) {
    if (!one.nvml) return null;
    if (one.nvml.problem) return line("", "", "other processes: not known", one.nvml.problem);
    const when = culprit.time(one.nvml.time_ns - breakdown.time_ns) + " after the failure" +
      (one.nvml.after_end ? " and after the end of this process" : "");
    const rows = one.other_processes.map((other) =>
      line(other.bytes === null ? "" : other.bytes, "", "process " + other.pid + (other.name ? " " + other.name : ""),
        "NVML, " + when + (one.nvml.foreign_pids ? "; a number of another PID namespace" : "")));
    return rows.length > 0 ? rows : line("", "", "no other process", "NVML, " + when);
  }

  function failure(report, breakdown, open) {
    const one = explained(report, breakdown);
    if (!one) return box(report, breakdown, open);
    return el("details", { class: "breakdown", open },
      el("summary", null, title(report, breakdown),
        el("span", { class: "quiet" }, " at " + culprit.time(breakdown.time_ns))),
      breakdown.failed && el("p", null, breakdown.failed),
      el("p", null, one.would_fit.text),
      el("div", { class: "stack" }, one.lines.flatMap(holder), one.idle.map(idle), others(one, breakdown),
        one.other_bytes > 0 && line(one.other_bytes, "", "other places", "")));
  }

  function box(report, breakdown, open) {
    const others = breakdown.others;
    return el("details", { class: "breakdown", open },
      el("summary", null, title(report, breakdown),
        el("span", { class: "quiet" }, " at " + culprit.time(breakdown.time_ns))),
      breakdown.failed && el("p", null, breakdown.failed),
      el("div", { class: "stack" },
        breakdown.stacks.map((one) =>
          line(one.bytes, one.count, named(one.stack),
            [one.stack.length > 0 && place(one.stack[0]), one.api, one.kind].filter(Boolean).join(" · "))),
        others.stacks > 0 && line(others.bytes, others.count,
          culprit.plural(others.stacks, "other stack", "other stacks"), "")));
  }

  function section(report, id, heading, about, breakdowns, opened, show) {
    if (breakdowns.length === 0) return null;
    const rest = breakdowns.length - most;
    return el("section", { class: "card", id, "aria-label": heading },
      el("div", { class: "card-head" }, el("div", null, el("h2", null, heading), el("p", { class: "quiet" }, about))),
      breakdowns.slice(0, most).map((breakdown, i) => show(report, breakdown, i < opened)),
      rest > 0 && el("p", { class: "quiet" }, "and " + culprit.number(rest) + " more; other formats have them"));
  }

  // The failures, which a reader must see first.
  function failures(report) {
    return section(report, "out-of-memory", "Out of memory", "Memory that the program had when an allocation failed",
      (report.pictures || []).filter((one) => one.reason === "out-of-memory"), 1, failure);
  }

  function peaks(report) {
    return section(report, "peaks", "At the peak",
      "The holders of the memory when use was highest, although it may be freed since; approximate",
      (report.pictures || []).filter((one) => one.reason === "peak").sort((a, b) => b.live_bytes - a.live_bytes),
      0, box);
  }

  const moments = { exit: "at exit", peak: "at the peak", "out-of-memory": "when memory ran out" };

  // The known part of the use of the memory for executable graphs.
  function used(item) {
    if (item.live === undefined) return "";
    if (item.in_use_at_most_bytes === 0) return "none is live: all of it is idle";
    const live = culprit.plural(item.live, "live executable", "live executables");
    return item.in_use_at_least_bytes === item.in_use_at_most_bytes
      ? "all of it is in use by " + live
      : "at least " + culprit.bytes(item.in_use_at_least_bytes) + " is in use by " + live;
  }

  // The largest other processes of a device, or how the driver's own memory counts.
  function besides(one, item) {
    if (item.what === "no-process") return "managed memory, and the driver's own";
    if (item.what !== "other-processes") return used(item);
    return culprit.number(one.other_processes_count) + ": " + one.other_processes.map((process) =>
      (process.name || "") + " (" + process.pid + ")" +
      (process.bytes === null ? "" : " " + culprit.bytes(process.bytes)))
      .join(", ");
  }

  // The parts of a balance, and under each the calls that took most for it.
  function balance(report, one, open) {
    const calls = (what) => (report.bills || [])
      .filter((charge) => charge.what === what && charge.device === one.device && charge.process === one.process &&
        !charge.ended && charge.bytes > 0)
      .slice(0, 4);
    const signed = (bytes) => (bytes < 0 ? "-" + culprit.bytes(-bytes) : culprit.bytes(bytes));
    return el("details", { class: "breakdown", open },
      el("summary", null, whose(report, one), "GPU " + one.device + " " + (moments[one.moment] || one.moment) + ": ",
        el("strong", null, culprit.bytes(one.in_use_bytes)), " in use of " + culprit.bytes(one.total_bytes)),
      el("div", { class: "stack" }, one.items.flatMap((item) => [
        line(signed(item.bytes), "", item.what === "rest" ? "rest (not known)" : item.what.replace(/-/g, " "),
          item.what === "contexts" && one.others_included ? "with what other processes had then" : besides(one, item)),
        ...calls(item.what).map((charge) =>
          line("", charge.count, named(charge.stack), [charge.stack.length > 0 && place(charge.stack[0]), charge.api,
            culprit.bytes(charge.bytes), charge.made && culprit.number(charge.made) + " made, " +
            culprit.number(charge.most_live) + " at once, " + culprit.number(charge.live) + " live"]
            .filter(Boolean).join(" · "))),
      ]),
      one.not_known && one.not_known.length > 0 && line("", "", "not known beside other processes",
        [one.not_known.join(", ").replace(/-/g, " "), one.problem].filter(Boolean).join(" · "))));
  }

  // The use of each part of the memory in use.
  function balances(report) {
    const list = report.balances || [];
    if (list.length === 0) return null;
    return el("section", { class: "card", id: "balances", "aria-label": "Balance" },
      el("div", { class: "card-head" }, el("div", null, el("h2", null, "Balance"),
        el("p", { class: "quiet" }, "The purposes of the memory in use, and the calls that made the driver take it"))),
      list.slice(0, most).map((one) => balance(report, one, false)),
      list.length > most &&
        el("p", { class: "quiet" }, "and " + culprit.number(list.length - most) + " more; other formats have them"));
  }

  // Memory of one process that another one maps; what stays comes first.
  function shared(report) {
    const list = report.shared || [];
    if (list.length === 0) return null;
    const step = (label, stack) => stack && stack.length > 0 &&
      line(label, "", named(stack), place(stack[0]));
    const rest = list.length - most;
    return el("section", { class: "card", id: "shared", "aria-label": "Shared memory" },
      el("div", { class: "card-head" }, el("div", null, el("h2", null, "Shared memory"),
        el("p", { class: "quiet" }, "Memory of one process that another one maps: it comes back when both let it go"))),
      list.slice(0, most).map((one) => el("details", { class: "breakdown" },
        el("summary", null, one.state === "stays" ? el("strong", null, one.text) : one.text),
        el("div", { class: "stack" },
          step("allocated", one.exporter && one.exporter.allocation_stack),
          step("exported", one.exporter && one.exporter.stack),
          step("freed", one.exporter && one.exporter.free_stack),
          step("opened", one.importer.stack)))),
      rest > 0 && el("p", { class: "quiet" }, "and " + culprit.number(rest) + " more; other formats have them"));
  }

  return { failures, peaks, balances, shared };
})();
