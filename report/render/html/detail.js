// The detail of a leak, a resource or a bad free: evidence and facts.
"use strict";

culprit.detail = (function () {
  const { el, card, stack } = culprit;

  function evidenceCards(model, evidence) {
    const times = evidence.count > 1 ? ", " + culprit.number(evidence.count) + " times" : "";
    const when = evidence.time_ns ? el("span", { class: "quiet" }, " at " + culprit.time(evidence.time_ns)) : null;
    const cards = [];
    const words = culprit.evidence[evidence.type];
    if (!words || !words.label) return cards;
    const title = [evidence.title + times, evidence.rethrown && ", rethrown",
      evidence.injected && " (injected by culprit)", when].filter(Boolean);
    cards.push(card(evidence.type, words.label, title,
      evidence.stack && evidence.stack.length > 0 && stack(model, evidence.stack, evidence.at)));
    if (evidence.caught_stack && evidence.caught_stack.length > 0)
      cards.push(card("caught", "Caught", evidence.ambiguous ? "here, or by another handler for the same type" : "here",
        stack(model, evidence.caught_stack, evidence.caught_at)));
    else if (evidence.uncaught) cards.push(card("caught", "Caught", "nowhere: the program was terminated"));
    return cards;
  }

  function threads(list) {
    const names = list.slice(0, 6).map((thread) =>
      thread.tid + (thread.name ? " “" + thread.name + "”" : "") + (thread.ended ? ", ended" : ""));
    if (list.length > 6) names.push("and " + (list.length - 6) + " more");
    return names.join(" · ");
  }

  // The share of each process of a job, the largest first.
  function spread(report, one) {
    const amounts = one.amounts.slice().sort((a, b) => b.bytes - a.bytes).slice(0, 6).map((amount) => {
      const names = amount.processes.slice(0, 8).map((index) => {
        const process = report.processes[index];
        return process.rank !== null ? String(process.rank) : process.pid + " on " + process.host;
      });
      const ranks = amount.processes.every((index) => report.processes[index].rank !== null);
      return culprit.bytes(amount.bytes) + " in " + (ranks ? "rank " : "process ") + names.join(", ") +
        (amount.processes.length > names.length
          ? " and " + culprit.number(amount.processes.length - names.length) + " more"
          : "");
    });
    if (one.amounts.length > amounts.length)
      amounts.push("and " + (one.amounts.length - amounts.length) + " other amounts");
    return culprit.number(one.processes) + " of " + culprit.plural(report.processes.length, "process", "processes") +
      ": " + amounts.join(" · ");
  }

  function group(model, one) {
    const allocated = one.first_ns === one.last_ns
      ? "at " + culprit.time(one.first_ns)
      : culprit.time(one.first_ns) + " to " + culprit.time(one.last_ns);
    const module = one.where && one.where.module;
    return el("div", { class: "detail-body" },
      one.hint && el("p", { class: "hint" }, el("strong", null, "Hint  "), one.hint),
      one.history && el("p", { class: "history" }, one.history),
      el("div", { class: "evidences" },
        card("allocated", "Allocated", [one.api, el("span", { class: "quiet" }, " " + allocated)],
          stack(model, one.stack, one.at),
          one.shortened && el("p", { class: "quiet" },
            "Callers and evidence are left out, so that this page stays below 25 MB. Other formats have them."),
          one.stack_merged && el("p", { class: "quiet" },
            "Several stacks in one: they found no room. Raise CULPRIT_MAX_DUMP."),
          one.stack_truncated && !one.stack_merged &&
            el("p", { class: "quiet" }, "Deeper than was recorded: raise CULPRIT_DEPTH.")),
        (one.evidence || []).map((evidence) => evidenceCards(model, evidence)).flat()),
      culprit.facts([
        ["Kind", one.kind + " · " + culprit.Model.device(one)],
        ["Driver call", one.driver_api],
        ["Calls", one.freed ? culprit.number(one.made) + " made, " + culprit.number(one.freed) + " freed" : null],
        ["Thread", one.threads && one.threads.length ? threads(one.threads) : null],
        ["Threads", one.thread_names && one.thread_names.slice(0, 6).map((name) =>
          "“" + name.name + "” in " + culprit.plural(name.processes, "process", "processes") +
            (name.ended ? ", " + culprit.number(name.ended) + " ended" : "")).join(" · ")],
        ["Spread", one.spread && spread(model.report, one.spread)],
        ["Baseline", one.baseline && one.baseline.state + (one.baseline.bytes === null ? "" :
          ", " + culprit.bytes(one.baseline.bytes) + " in " + culprit.number(one.baseline.count) + " there")],
        ["Marks", one.marks && one.marks.slice(0, 6).map((share) =>
          [share.mark, share.range].filter(Boolean).join(" / ") + " " + culprit.bytes(share.bytes)).join(" · ")],
        ["Module", module && module +
          (model.buildIds.get(module) ? " (build ID " + model.buildIds.get(module) + ")" : "")],
        ["Handles", one.handles.length
          ? one.handles.slice(0, 4).join(", ") + (one.count > Math.min(4, one.handles.length) ? ", …" : "")
          : null],
        ["Id", el("span", null, el("code", null, one.id), " ", culprit.copyLink(one.anchor))],
      ]));
  }

  function error(model, one) {
    const titles = { "double-free": "freed twice", "invalid-free": "freed without an allocation",
      "mismatched-free": "freed by the wrong function", "failed-free": "refused" };
    return el("div", { class: "detail-body" },
      el("div", { class: "evidences" },
        card("failed-free", "Called",
          [one.api + ": " + (titles[one.type] || one.type), el("span", { class: "quiet" }, " " + one.code_name)],
          stack(model, one.stack, one.at)),
        one.free_stack.length > 0 && card("caught", "Freed before", "here", stack(model, one.free_stack, null)),
        one.allocation_stack.length > 0 &&
          card("allocated", "Allocated", "here", stack(model, one.allocation_stack, null))),
      culprit.facts([
        ["Handle", one.handle],
        ["Size", one.bytes ? culprit.bytes(one.bytes) : null],
        ["Thread", one.thread ? threads([one.thread]) : null],
        ["First", "at " + culprit.time(one.first_ns)],
      ]));
  }

  return (model, one) => (one.list === "errors" ? error(model, one) : group(model, one));
})();
