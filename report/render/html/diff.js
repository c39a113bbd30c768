// The differences between two runs.
"use strict";

// The data of the page (report/render/html/render_diff_html.cpp) as the table uses it.
culprit.DiffModel = class extends culprit.Frames {
  constructor(data) {
    super(data);
    this.data = data;
    this.changes = data.changes.map((change, index) => {
      const was = change.old ? change.old.bytes : 0, now = change.new ? change.new.bytes : 0;
      return Object.assign(change, {
        list: "changes", index, anchor: change.id, was, now, difference: now - was,
        bytes: Math.abs(now - was), // the length of the bar
        side: change.new || change.old,
        // Without a stack (in a baseline) only the name of the place is known.
        where: this.frame((change.stack || change.old_stack || [])[0]) ||
          { name: change.where, file: "", line: 0, module: "" },
      });
    });
  }

  with(...kinds) {
    return this.changes.filter((one) => kinds.includes(one.change));
  }

  // A function that tells whether a change has all words of a search.
  finder(words) {
    return super.finder(words, (one) => this.text(one),
      (one) => [one.stack, one.old_stack].filter((stack) => stack !== undefined && stack !== null));
  }

  text(one) {
    if (one.text === undefined) {
      const parts = [one.id, one.change, one.api, one.kind, one.where.name, one.comment];
      for (const side of [one.old, one.new]) if (side) parts.push(side.cause);
      one.text = parts.filter(Boolean).join("\n").toLowerCase();
    }
    return one.text;
  }
};

culprit.changes = { new: "New", grown: "Grown", shrunk: "Shrunk", gone: "Gone", unchanged: "Unchanged" };

// "+1.25 GiB"
culprit.signedBytes = (bytes) => (bytes === 0 ? "±0" : (bytes > 0 ? "+" : "−") + culprit.bytes(Math.abs(bytes)));

culprit.ChangeTable = class extends culprit.Table {
  constructor(model) {
    const kinds = Object.keys(culprit.changes);
    const lists = kinds.map((kind) => ({ name: kind, title: culprit.changes[kind], items: model.with(kind) }));
    super(model,
      [{ name: "changes", title: "Changes", items: model.with(...kinds.slice(0, -1)) },
        ...lists.filter((list) => list.items.length > 0)], {
        bytes: { title: "Difference", value: (one) => one.difference, numeric: true },
        was: { title: "Was", value: (one) => one.was, numeric: true },
        now: { title: "Is now", value: (one) => one.now, numeric: true },
        where: { title: "Where", value: (one) => one.where.name },
        change: { title: "Change", value: (one) => kinds.indexOf(one.change) },
        cause: { title: "Cause", value: (one) => one.side.cause },
      }, { title: "What changed", label: "Changes", search: "Search functions, files, ids" });
  }

  filterChoices() {
    return [
      { name: "change", label: "Change", value: (one) => one.change, title: (key) => culprit.changes[key] },
      { name: "cause", label: "Cause", value: (one) => one.side.cause, title: culprit.causeTitle },
      { name: "kind", label: "Kind", value: (one) => one.kind },
      { name: "library", label: "Library", value: (one) => culprit.baseName(one.where.module) },
    ];
  }

  finder(words) {
    return this.model.finder(words);
  }

  statusText() {
    const leftOut = this.model.data.left_out;
    const rest = leftOut
      ? " · " + culprit.number(leftOut) + " with smaller differences are left out here; other formats have them"
      : "";
    if (this.list.items.length === 0) return "nothing changed" + rest;
    return this.shownText() + " · " + culprit.signedBytes(d3.sum(this.shown, (one) => one.difference)) + rest;
  }

  cells(one) {
    const { el } = culprit;
    const amount = (side) =>
      (side
        ? [culprit.bytes(side.bytes), el("span", { class: "quiet" }, "  " + culprit.number(side.count) + "×")]
        : "–");
    return [
      el("td", { class: "col-bytes" }, el("span", { class: "bytes" }, culprit.signedBytes(one.difference)),
        this.meter(one.bytes, "change-" + one.change)),
      el("td", { class: "col-was" }, amount(one.old)),
      el("td", { class: "col-now" }, amount(one.new)),
      culprit.whereCell(one.where, one.api),
      el("td", { class: "col-change" },
        el("span", { class: "badge" }, el("i", { class: "swatch change-" + one.change }), culprit.changes[one.change])),
      el("td", { class: "col-cause" },
        el("span", { class: "badge" }, el("i", { class: "swatch cause-" + one.side.cause }),
          culprit.causeTitle(one.side.cause))),
    ];
  }

  // The stacks of both sides, or one if they are equal.
  detail(one) {
    const { el, card, stack } = culprit;
    const text = (side) => culprit.bytes(side.bytes) + " in " + culprit.number(side.count) + "×, " +
      culprit.causeTitle(side.cause).toLowerCase();
    const none = (path) => el("p", { class: "quiet" }, culprit.baseName(path) + " has no stacks");
    const side = (name, label, amount, numbers, path) =>
      amount && card(name, label, text(amount), numbers ? stack(this.model, numbers, 0) : none(path));
    const data = this.model.data;
    const places = (numbers) =>
      this.model.stack(numbers).map((frame) => [frame.name, frame.file, frame.line, frame.module].join()).join("\n");
    const both = one.old && one.new && one.stack && one.old_stack && places(one.stack) === places(one.old_stack);
    return el("div", { class: "detail-body" },
      el("div", { class: "evidences" }, both
        ? card("allocated", "Allocated", text(one.old) + ", then " + text(one.new), stack(this.model, one.stack, 0))
        : [side("was", "Was", one.old, one.old_stack, data.old.path),
          side("allocated", "Is now", one.new, one.stack, data.new.path)]),
      culprit.facts([
        ["Call", one.api],
        ["Kind", one.kind],
        ["Comment", one.comment],
        ["Id", el("span", null, el("code", null, one.id), " ", culprit.copyLink(one.anchor))],
      ]));
  }
};

// The keepers of live memory in frameworks' caches that came, went or changed.
culprit.keeperChanges = function (keepers) {
  const { el, bytes } = culprit;
  if (keepers.length === 0) return null;
  const row = (one) => el("div", { class: "frame", "data-keeper": one.id },
    el("span", { class: "frame-name" }, el("span", { class: "breakdown-bytes" }, culprit.signedBytes(one.grown_bytes)),
      one.path),
    el("span", { class: "frame-place" },
      one.bytes_before === 0 ? "new" : one.bytes === 0 ? "gone" : bytes(one.bytes_before) + " → " + bytes(one.bytes)));
  return el("section", { class: "card", id: "keepers", "aria-label": "Kept in caches" },
    el("div", { class: "card-head" }, el("div", null, el("h2", null, "Kept in caches"),
      el("p", { class: "quiet" }, "Live memory of frameworks' caches, by what keeps it"))),
    el("div", { class: "stack" }, keepers.map(row)));
};

culprit.views.diff = function (data) {
  const { el, fill } = culprit;
  const model = new culprit.DiffModel(data);
  const subject = el("div", { class: "subject-lines" },
    el("span", { class: "command", title: data.old.path + "\n" + data.new.path },
      culprit.baseName(data.old.path) + " → " + culprit.baseName(data.new.path)),
    el("span", { class: "quiet facts-line" },
      data.old.source + " " + data.old.path + " · " + data.new.source + " " + data.new.path));
  const main = culprit.shell(subject,
    [["/", "search the list"], ["↓ ↑ or j k", "next and previous change, once one has the focus"],
    ["Enter", "open or close a change"], ["Esc", "close the change; leave a field"]]);
  const table = new culprit.ChangeTable(model);
  culprit.printing(table);
  const tiles = ["new", "grown", "shrunk", "gone"].map((kind) => {
    const items = model.with(kind);
    const open = () => {
      table.show(kind);
      table.element.scrollIntoView({ behavior: "smooth" });
    };
    const count = data.summary[kind];
    return culprit.tile(count > 0 ? kind : "none", culprit.number(count), culprit.changes[kind],
      count > 0 ? culprit.signedBytes(d3.sum(items, (one) => one.difference)) : "none", count > 0 ? open : null);
  });
  const total = data.new.leaked_bytes - data.old.leaked_bytes;
  const findings = data.findings.filter((one) => one.change !== "unchanged")
    .map((one) => (one.change === "new" ? "New: " : "Gone: ") + one.title + ": " + one.text);
  fill(main,
    culprit.notes([data.old, data.new].flatMap((side) =>
      side.not_known.map((reason) => "Not known: " + culprit.baseName(side.path) + ": " + reason)
        .concat(side.notes.map((note) => culprit.baseName(side.path) + ": " + note)))),
    el("section", { class: "summary", "aria-label": "Summary" }, el("div", { class: "tiles" },
      culprit.tile(total > 0 ? "leaked" : "clean", culprit.bytes(data.new.leaked_bytes),
        data.new.mark === undefined ? "Leaks now" : "Live at the end",
        total === 0 ? "as before" : culprit.signedBytes(total) + " since " + culprit.bytes(data.old.leaked_bytes)),
      tiles)),
    culprit.notes(findings.slice(0, 50)),
    culprit.keeperChanges(data.keepers),
    table.element);

  culprit.focusKeys({ "/": "#leak-search", j: "tr.row .row-open" });
  culprit.followAddress((id) => {
    const change = model.changes.find((one) => one.anchor === id);
    if (change) table.choose(change);
  });
};
