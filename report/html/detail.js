// What a leak, a resource or a bad free opens to: evidence, stacks, source lines.
"use strict";

// One line that says what a piece of evidence is.
culprit.evidenceTitle = function (evidence) {
  switch (evidence.type) {
    case "exception":
      if (evidence.forced) return "thread unwound by pthread_exit or cancellation";
      return (evidence.exception || "exception of unknown type") + (evidence.what ? " “" + evidence.what + "”" : "");
    case "error-return": return evidence.api + " failed: " + evidence.code_name;
    case "failed-free": return (evidence.api || "a free") + " refused: " + evidence.code_name;
    case "context-teardown": return evidence.api + " ended its context";
    case "held": return evidence.symbol ? evidence.symbol + " in " + culprit.baseName(evidence.module) : "a global of " + culprit.baseName(evidence.module);
    case "thread-ended": return "thread " + evidence.tid + (evidence.name ? " “" + evidence.name + "”" : "") + " ended";
    default: return evidence.type;
  }
};

culprit.detail = (function () {
  const { el } = culprit;
  const shownFrames = 8;

  function sourceBlock(model, frame) {
    const source = model.source(frame);
    if (!source) return null;
    return el("div", { class: "source" },
      source.changed && el("p", { class: "source-note" }, "The file was changed after this run: its lines may have moved."),
      el("pre", null, source.lines.map((line) =>
        el("span", { class: line.here ? "source-line here" : "source-line" }, el("span", { class: "line-number" }, line.number), line.text + "\n"))));
  }

  function frameLine(model, frame, named) {
    const place = culprit.Model.place(frame);
    const module = frame.module ? culprit.baseName(frame.module) : "";
    const about = [frame.file, frame.module && frame.module + "+" + culprit.hex(frame.offset)].filter(Boolean).join("\n");
    const line = el("div", { class: named ? "frame named" : "frame", title: about },
      el("span", { class: "frame-name" }, frame.name, frame.inlined && el("i", { class: "tag" }, "inlined"), frame.python && el("i", { class: "tag" }, "Python"),
        frame.approximate && el("i", { class: "tag", title: "the nearest symbol before the address" }, "nearest")),
      el("span", { class: "frame-place" }, place, frame.file && frame.module !== model.report.process.exe && el("span", { class: "quiet" }, module)));
    if (!model.source(frame)) return line;
    // The named frame's lines are open; a click closes or opens them.
    const details = el("details", { class: "frame-source", open: named }, el("summary", null, line), named ? sourceBlock(model, frame) : null);
    if (!named) details.addEventListener("toggle", () => { if (details.children.length === 1) details.append(sourceBlock(model, frame)); });
    return details;
  }

  // `at`: which of the frames gives the stack its name.
  function stack(model, numbers, at) {
    const frames = model.stack(numbers);
    if (frames.length === 0) return el("p", { class: "quiet" }, "The stack was not recorded.");
    const lines = (from, to) => frames.slice(from, to).map((frame, i) => frameLine(model, frame, from + i === at));
    const first = Math.max(shownFrames, (at || 0) + 4);
    const box = el("div", { class: "stack" }, lines(0, first));
    if (frames.length > first) {
      const more = el("button", { class: "link-button more-frames", onclick: () => more.replaceWith(...lines(first, frames.length)) },
        culprit.plural(frames.length - first, "more caller", "more callers"));
      box.append(more);
    }
    return box;
  }

  function card(kind, label, title, ...content) {
    return el("section", { class: "evidence evidence-" + kind },
      el("h4", null, el("span", { class: "evidence-label" }, label), el("span", null, title)), ...content);
  }

  const labels = { exception: "Thrown", "error-return": "Failed", "failed-free": "Refused", "context-teardown": "Ended by", held: "Held by" };

  function evidenceCards(model, evidence) {
    const times = evidence.count > 1 ? ", " + culprit.number(evidence.count) + " times" : "";
    const when = evidence.time_ns ? el("span", { class: "quiet" }, " at " + culprit.time(evidence.time_ns)) : null;
    const cards = [];
    if (evidence.type === "vmm" || evidence.type === "thread-ended") return cards;
    const title = [culprit.evidenceTitle(evidence) + times, evidence.rethrown && ", rethrown", evidence.injected && " (injected by culprit)", when].filter(Boolean);
    cards.push(card(evidence.type, labels[evidence.type] || evidence.type, title,
      evidence.stack && evidence.stack.length > 0 && stack(model, evidence.stack, evidence.at)));
    if (evidence.caught_stack && evidence.caught_stack.length > 0)
      cards.push(card("caught", "Caught", evidence.ambiguous ? "here, or by another handler for the same type" : "here", stack(model, evidence.caught_stack, evidence.caught_at)));
    else if (evidence.uncaught) cards.push(card("caught", "Caught", "nowhere: the program was terminated"));
    return cards;
  }

  function facts(pairs) {
    return el("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat());
  }

  function threads(list) {
    const names = list.slice(0, 6).map((thread) => thread.tid + (thread.name ? " “" + thread.name + "”" : "") + (thread.ended ? ", ended" : ""));
    if (list.length > 6) names.push("and " + (list.length - 6) + " more");
    return names.join(" · ");
  }

  function copyLink(group) {
    const button = el("button", { class: "button small", onclick: () => {
      const link = location.href.replace(/#.*/, "") + "#" + group.id;
      const done = (text) => { button.textContent = text; setTimeout(() => { button.textContent = "Copy link"; }, 1500); };
      if (navigator.clipboard) navigator.clipboard.writeText(link).then(() => done("Copied"), () => done("Not allowed"));
      else done("Not allowed");
    } }, "Copy link");
    return button;
  }

  function group(model, one) {
    const allocated = one.first_ns === one.last_ns ? "at " + culprit.time(one.first_ns) : culprit.time(one.first_ns) + " to " + culprit.time(one.last_ns);
    const module = one.where && one.where.module;
    return el("div", { class: "detail-body" },
      one.hint && el("p", { class: "hint" }, el("strong", null, "Hint  "), one.hint),
      one.history && el("p", { class: "history" }, one.history),
      el("div", { class: "evidences" },
        card("allocated", "Allocated", [one.api, el("span", { class: "quiet" }, " " + allocated)], stack(model, one.stack, one.at),
          one.stack_truncated && el("p", { class: "quiet" }, "Deeper than was recorded: raise CULPRIT_DEPTH.")),
        (one.evidence || []).map((evidence) => evidenceCards(model, evidence)).flat()),
      facts([
        ["Kind", one.kind + " · " + culprit.Model.device(one)],
        ["Driver call", one.driver_api],
        ["Calls", one.freed ? culprit.number(one.made) + " made, " + culprit.number(one.freed) + " freed" : null],
        ["Thread", one.threads && one.threads.length ? threads(one.threads) : null],
        ["Baseline", one.baseline && one.baseline.state],
        ["Marks", one.marks && one.marks.slice(0, 6).map((share) =>
          [share.mark, share.range].filter(Boolean).join(" / ") + " " + culprit.bytes(share.bytes)).join(" · ")],
        ["Module", module && module + (model.buildIds.get(module) ? " (build ID " + model.buildIds.get(module) + ")" : "")],
        ["Handles", one.handles.length ? one.handles.slice(0, 4).join(", ") + (one.count > Math.min(4, one.handles.length) ? ", …" : "") : null],
        ["Id", el("span", null, el("code", null, one.id), " ", copyLink(one))],
      ]));
  }

  function error(model, one) {
    const titles = { "double-free": "freed twice", "invalid-free": "freed what nobody allocated", "mismatched-free": "freed by the wrong function", "failed-free": "refused" };
    return el("div", { class: "detail-body" },
      el("div", { class: "evidences" },
        card("failed-free", "Called", [one.api + ": " + (titles[one.type] || one.type), el("span", { class: "quiet" }, " " + one.code_name)], stack(model, one.stack, one.at)),
        one.free_stack.length > 0 && card("caught", "Freed before", "here", stack(model, one.free_stack, null)),
        one.allocation_stack.length > 0 && card("allocated", "Allocated", "here", stack(model, one.allocation_stack, null))),
      facts([
        ["Handle", one.handle],
        ["Size", one.bytes ? culprit.bytes(one.bytes) : null],
        ["Thread", one.thread ? threads([one.thread]) : null],
        ["First", "at " + culprit.time(one.first_ns)],
      ]));
  }

  return (model, one) => (one.list === "errors" ? error(model, one) : group(model, one));
})();
