// The findings that have no section of their own: one function for all of them.
"use strict";

culprit.findings = function (list) {
  const { el } = culprit;
  if (list.length === 0) return null;
  const row = (label, frame) => {
    const where = frame.file ? culprit.baseName(frame.file) + ":" + frame.line : culprit.baseName(frame.module || "");
    return el("div", { class: "frame" },
      el("span", { class: "frame-name" }, el("span", { class: "breakdown-bytes" }, label), frame.function || where),
      el("span", { class: "frame-place" }, where));
  };
  const frames = (one) => one.stack.map((frame, i) => row(i === 0 ? one.label : "", frame));
  return el("section", { class: "card", id: "findings", "aria-label": "Findings" },
    el("div", { class: "card-head" }, el("div", null, el("h2", null, "Findings"),
      el("p", { class: "quiet" }, "Seen beside the leaks"))),
    list.map((one) => el("details", { class: "breakdown", "data-finding": one.finding },
      el("summary", null, el("strong", null, one.title), ": " + one.text),
      one.facts.map((fact) => el("p", null, fact)),
      one.hint && el("p", null, "Hint: " + one.hint),
      one.more && el("p", { class: "quiet" }, "and " + culprit.number(one.more) + " more of this kind"),
      one.places.length > 0 && el("div", { class: "stack" }, one.places.flatMap(frames)))));
};
