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

  // As report/model/folded_stack.h: Python's frames first; glue code of libraries apart, and beside Python's frames all
  // native ones without a source line.
  function foldedStack(frames, at) {
    const hasPython = frames.some((frame) => frame.python);
    const isFolded = (frame, i) =>
      i !== at && !frame.python && (frame.plumbing !== "" || (hasPython && !frame.file));
    const folded = frames.filter(isFolded);
    const rest = frames.filter((frame, i) => !isFolded(frame, i));
    if (rest.length === 0) return { shown: frames, folded: [] };
    return { shown: [...rest.filter((frame) => frame.python), ...rest.filter((frame) => !frame.python)], folded };
  }

  // `at`: index of the stack's naming frame.
  culprit.stack = function (model, numbers, at) {
    const frames = model.stack(numbers);
    if (frames.length === 0) return el("p", { class: "quiet" }, "The stack was not recorded.");
    const { shown, folded } = foldedStack(frames, at);
    const lines = (from, to) =>
      shown.slice(from, to).map((frame) => frameLine(model, frame, frame === frames[at]));
    const first = Math.max(shownFrames, shown.indexOf(frames[at]) + 4);
    const box = el("div", { class: "stack" }, lines(0, first));
    if (shown.length > first) {
      const more = el("button",
        { class: "link-button more-frames", onclick: () => more.replaceWith(...lines(first, shown.length)) },
        culprit.plural(shown.length - first, "more caller", "more callers"));
      box.append(more);
    }
    if (folded.length !== 0) {
      const names = [...new Set(folded.map((frame) => frame.plumbing || culprit.baseName(frame.module).split(".")[0]))]
        .filter(Boolean);
      box.append(el("details", { class: "folded-frames" },
        el("summary", null, culprit.plural(folded.length, "native frame", "native frames") +
          (names.length === 0 ? "" : " of " + names.slice(0, 4).join(", ") + (names.length > 4 ? ", ..." : ""))),
        folded.map((frame) => frameLine(model, frame, false))));
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
