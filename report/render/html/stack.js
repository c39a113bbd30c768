// The parts of opened entries: stacks with their source lines, cards, lists of facts.
"use strict";

(function () {
  const { el } = culprit;
  const shownFrames = 8;

  function sourceBlock(model, frame) {
    const source = model.source(frame);
    if (!source) return null;
    // Focusable: a keyboard must be able to scroll long lines.
    return el("div", { class: "source", tabindex: 0, role: "group", "aria-label": "Source" },
      source.changed && el("p", { class: "source-note" },
        "The file was changed after this run: its lines may have moved."),
      el("pre", null, source.lines.map((line) =>
        el("span", { class: line.here ? "source-line here" : "source-line" },
          el("span", { class: "line-number" }, line.number), line.text + "\n"))));
  }

  function frameLine(model, frame, named) {
    const place = culprit.Frames.place(frame);
    const module = frame.module ? culprit.baseName(frame.module) : "";
    const about = [frame.file, frame.module && frame.module + "+" + culprit.hex(frame.offset)].filter(Boolean)
      .join("\n");
    const line = el("div", { class: named ? "frame named" : "frame", title: about },
      el("span", { class: "frame-name" }, frame.name, frame.inlined && el("i", { class: "tag" }, "inlined"),
        frame.python && el("i", { class: "tag" }, "Python"),
        frame.approximate && el("i", { class: "tag", title: "the nearest symbol before the address" }, "nearest")),
      el("span", { class: "frame-place" }, place,
        frame.file && frame.module !== model.program && el("span", { class: "quiet" }, module)));
    if (!model.source(frame)) return line;
    // The named frame's lines are open; a click closes or opens them.
    const details = el("details", { class: "frame-source", open: named }, el("summary", null, line),
      named ? sourceBlock(model, frame) : null);
    if (!named)
      details.addEventListener("toggle",
        () => { if (details.children.length === 1) details.append(sourceBlock(model, frame)); });
    return details;
  }

  // `at`: index of the stack's naming frame.
  culprit.stack = function (model, numbers, at) {
    const frames = model.stack(numbers);
    if (frames.length === 0) return el("p", { class: "quiet" }, "The stack was not recorded.");
    const lines = (from, to) => frames.slice(from, to).map((frame, i) => frameLine(model, frame, from + i === at));
    const first = Math.max(shownFrames, (at || 0) + 4);
    const box = el("div", { class: "stack" }, lines(0, first));
    if (frames.length > first) {
      const more = el("button",
        { class: "link-button more-frames", onclick: () => more.replaceWith(...lines(first, frames.length)) },
        culprit.plural(frames.length - first, "more caller", "more callers"));
      box.append(more);
    }
    return box;
  };

  culprit.card = function (kind, label, title, ...content) {
    return el("section", { class: "evidence evidence-" + kind },
      el("h3", null, el("span", { class: "evidence-label" }, label), el("span", null, title)), ...content);
  };

  culprit.facts = function (pairs) {
    return el("dl", { class: "facts" },
      pairs.filter(([, value]) => value).map(([name, value]) => [el("dt", null, name), el("dd", null, value)]).flat());
  };

  // Copies an address that opens the leak.
  culprit.copyLink = function (id) {
    const button = el("button", { class: "button small", onclick: () => {
      const link = location.href.replace(/#.*/, "") + "#" + id;
      const done = (text) => {
        button.textContent = text;
        setTimeout(() => { button.textContent = "Copy link"; }, 1500);
      };
      if (navigator.clipboard)
        navigator.clipboard.writeText(link).then(() => done("Copied"), () => done("Not allowed"));
      else done("Not allowed");
    } }, "Copy link");
    return button;
  };
})();
