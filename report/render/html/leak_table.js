// The lists of leaks, cached and library memory, resources and bad frees.
"use strict";

culprit.LeakTable = class extends culprit.Table {
  constructor(model) {
    super(model, [
      { name: "leaks", title: model.listTitle(), items: model.leaks },
      { name: "cached", title: "Cached", items: model.cached },
      { name: "library", title: "Libraries' own", items: model.library },
      { name: "resources", title: "Resources", items: model.resources },
      { name: "errors", title: "Bad frees", items: model.errors },
    ].filter((list) => list.items.length > 0 || list.name === "leaks"), {
      bytes: { title: "Bytes", value: (one) => one.bytes, numeric: true },
      count: { title: "Count", value: (one) => one.count, numeric: true },
      where: { title: "Where", value: (one) => (one.where ? one.where.name : "") },
      cause: { title: "Cause", value: (one) => one.cause || one.type },
      device: { title: "On", value: (one) => culprit.Model.device(one) },
      time: { title: "First", value: (one) => one.first_ns },
    }, { title: "What", label: "Leaks", search: "Search functions, files, threads, ids" });
  }

  filterChoices() {
    return [
      { name: "cause", label: this.list.name === "errors" ? "Type" : "Cause", value: (one) => one.cause || one.type,
        title: (key) => culprit.causeTitle(key, this.model.mayBeFreed) },
      { name: "device", label: "On", value: culprit.Model.device },
      { name: "kind", label: "Kind", value: (one) => one.kind },
      { name: "library", label: "Library", value: culprit.Model.library },
    ];
  }

  finder(words) {
    return this.model.finder(words);
  }

  statusText() {
    const what = this.list.name === "resources" || this.list.name === "errors"
      ? ""
      : " · " + culprit.bytes(d3.sum(this.shown, (one) => one.bytes));
    const leftOut = this.model.report[this.list.name + "_left_out"];
    const shortened = this.model.report[this.list.name + "_shortened"];
    const complete = this.model.report.incomplete.length === 0;
    const none = complete ? "nothing leaked" : "no leak among the recorded allocations";
    return (this.list.items.length === 0 ? none : this.shownText() + what) +
      (leftOut
        ? " · " + culprit.number(leftOut.groups) + " smaller ones (" + culprit.bytes(leftOut.bytes) +
          ") are left out here; other formats have them"
        : "") +
      (shortened
        ? " · " + culprit.number(shortened) + " small ones without callers and evidence: this page stays below 25 MB"
        : "");
  }

  // Bad frees have stacks that a reader of paper needs, too; of what is not counted the places suffice.
  printedLists() {
    return super.printedLists().concat(this.lists.filter((list) => list !== this.list && list.items.length > 0)
      .map((list) => ({ title: list.title, status: culprit.plural(list.items.length, "group", "groups"),
        items: this.ordered(list), detailed: list.name === "errors" || list.name === "leaks" })));
  }

  cells(one) {
    const { el } = culprit;
    const cause = one.cause || one.type;
    const state = one.baseline && one.baseline.state !== "known" ? one.baseline.state : "";
    return [
      el("td", { class: "col-bytes" },
        el("span", { class: "bytes" }, one.bytes || one.list !== "resources" ? culprit.bytes(one.bytes) : "–"),
        this.meter(one.bytes, "cause-" + cause)),
      el("td", { class: "col-count" }, culprit.number(one.count) + "×"),
      culprit.whereCell(one.where, one.api),
      el("td", { class: "col-cause" },
        el("span", { class: "badge" },
          el("i", { class: "swatch cause-" + (one.list === "errors" ? "failed-free" : cause) }),
        one.list === "library" ? one.library
          : one.list === "resources" ? one.kind
          : culprit.causeTitle(cause, this.model.mayBeFreed)),
        state && el("span", { class: "badge new" }, state)),
      el("td", { class: "col-device" }, culprit.Model.device(one)),
      el("td", { class: "col-time" }, culprit.time(one.first_ns)),
    ];
  }

  detail(one) {
    return culprit.detail(this.model, one);
  }

  show(name) {
    if (name === "resources") this.sort = { by: "count", descending: true };
    else if (this.sort.by === "count") this.sort = { by: "bytes", descending: true };
    super.show(name);
  }

  // Restricts the list to some leaks, for example to those below a place of the flame graph.
  narrow(name, groups, word = "below ") {
    this.show("leaks");
    this.scope = { word, name, groups };
    this.refresh();
    this.element.scrollIntoView({ behavior: "smooth", block: "start" });
  }
};
