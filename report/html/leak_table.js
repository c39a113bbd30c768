// The lists of leaks, cached and library memory, resources and bad frees: one is shown, sorted, filtered and searched.
"use strict";

culprit.LeakTable = class {
  constructor(model) {
    this.model = model;
    this.lists = [
      { name: "leaks", title: model.running ? "Not freed yet" : "Leaks", items: model.leaks },
      { name: "cached", title: "Cached", items: model.cached },
      { name: "library", title: "Libraries' own", items: model.library },
      { name: "resources", title: "Resources", items: model.resources },
      { name: "errors", title: "Bad frees", items: model.errors },
    ].filter((list) => list.items.length > 0 || list.name === "leaks");
    this.list = this.lists[0];
    this.search = "";
    this.filters = { cause: "", device: "", kind: "", library: "" };
    this.scope = null; // { name, groups }: only these
    this.sort = { by: "bytes", descending: true };
    this.open = new Set();
    this.page = 100; // rows made at a time: five thousand at once would take a browser seconds
    this.element = this.frame();
    this.refresh();
  }

  static columns = {
    bytes: { title: "Bytes", value: (one) => one.bytes },
    count: { title: "Count", value: (one) => one.count },
    where: { title: "Where", value: (one) => (one.where ? one.where.name : "") },
    cause: { title: "Cause", value: (one) => one.cause || one.type },
    device: { title: "On", value: (one) => culprit.Model.device(one) },
    time: { title: "First", value: (one) => one.first_ns },
  };

  frame() {
    const { el } = culprit;
    this.tabs = el("div", { class: "tabs", role: "tablist" });
    this.searchField = el("input", { id: "leak-search", type: "search", placeholder: "Search functions, files, threads, ids   ( / )",
      "aria-label": "Search the list", oninput: () => {
        this.search = this.searchField.value.trim().toLowerCase();
        this.refresh();
      } });
    this.filterBox = el("div", { class: "filters" });
    this.status = el("p", { class: "quiet", id: "leak-status", "aria-live": "polite" });
    this.head = el("tr", null);
    this.body = el("tbody", null);
    this.sentinel = el("div", { class: "sentinel" });
    new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) this.more(); }, { rootMargin: "600px" })
      .observe(this.sentinel);
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr.row");
      if (row && !event.target.closest("a, .detail-body")) this.toggle(this.shown[Number(row.dataset.at)], row);
    });
    this.body.addEventListener("keydown", (event) => this.key(event));
    return el("section", { class: "card", id: "leaks", "aria-label": "Leaks" },
      el("div", { class: "card-head" }, el("div", null, el("h2", null, "What"), this.status), el("div", { class: "controls" }, this.searchField)),
      this.tabs, this.filterBox,
      el("table", { class: "leaks" }, el("thead", null, this.head), this.body), this.sentinel);
  }

  // Everything anew: after a change of list, search, filter or order.
  refresh() {
    this.drawTabs();
    this.drawFilters();
    this.drawHead();
    const { by, descending } = this.sort;
    const value = culprit.LeakTable.columns[by].value;
    this.shown = this.list.items.filter((one) => this.matches(one)).sort((a, b) => {
      const left = value(a), right = value(b);
      const order = left < right ? -1 : left > right ? 1 : 0;
      return (descending ? -order : order) || b.bytes - a.bytes || a.index - b.index;
    });
    this.most = d3.max(this.list.items, (one) => one.bytes) || 0;
    this.drawn = 0;
    this.body.replaceChildren();
    this.more();
    this.drawStatus();
  }

  matches(one) {
    const { cause, device, kind, library } = this.filters;
    return (!this.scope || this.scope.groups.has(one)) &&
      (!cause || (one.cause || one.type) === cause) && (!device || culprit.Model.device(one) === device) &&
      (!kind || one.kind === kind) && (!library || culprit.Model.library(one) === library) &&
      (!this.search || this.search.split(/\s+/).every((word) => this.model.text(one).includes(word)));
  }

  drawTabs() {
    const { el, fill } = culprit;
    fill(this.tabs, this.lists.map((list) => el("button", {
      role: "tab", class: "tab", "data-list": list.name, "aria-selected": list === this.list ? "true" : "false",
      onclick: () => this.show(list.name),
    }, list.title, el("span", { class: "tab-count" }, culprit.number(list.items.length)))));
  }

  drawFilters() {
    const { el, fill } = culprit;
    const select = (name, label, value, title) => {
      const counts = new Map();
      for (const one of this.list.items) {
        const key = value(one);
        if (key) counts.set(key, (counts.get(key) || 0) + 1);
      }
      if (counts.size < 2 && !this.filters[name]) return null;
      const options = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
      const element = el("select", { id: "filter-" + name, class: this.filters[name] ? "filter on" : "filter", "aria-label": label, onchange: () => {
        this.filters[name] = element.value;
        this.refresh();
      } }, el("option", { value: "" }, label + ": all"),
        options.map((key) => el("option", { value: key, selected: key === this.filters[name] }, (title ? title(key) : key) + " (" + culprit.number(counts.get(key)) + ")")));
      return element;
    };
    const filtered = this.search || this.scope || Object.values(this.filters).some(Boolean);
    fill(this.filterBox,
      select("cause", this.list.name === "errors" ? "Type" : "Cause", (one) => one.cause || one.type, (key) => culprit.causeTitle(key, this.model.running)),
      select("device", "On", culprit.Model.device),
      select("kind", "Kind", (one) => one.kind),
      select("library", "Library", culprit.Model.library),
      this.scope && el("span", { class: "chip" }, "below ", el("code", null, this.scope.name),
        el("button", { class: "chip-close", "aria-label": "Show all", onclick: () => { this.scope = null; this.refresh(); } }, "×")),
      filtered && el("button", { class: "link-button", id: "clear-filters", onclick: () => this.clear() }, "Clear"));
  }

  drawHead() {
    const { el, fill } = culprit;
    const names = Object.keys(culprit.LeakTable.columns);
    fill(this.head, names.map((name) => {
      const sorted = this.sort.by === name;
      return el("th", { class: "col-" + name, scope: "col", "aria-sort": sorted ? (this.sort.descending ? "descending" : "ascending") : "none" },
        el("button", { class: "sort", "data-sort": name, onclick: () => this.sortBy(name) }, culprit.LeakTable.columns[name].title,
          el("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (this.sort.descending ? "↓" : "↑") : "")));
    }));
  }

  drawStatus() {
    const bytes = d3.sum(this.shown, (one) => one.bytes);
    const what = this.list.name === "resources" || this.list.name === "errors" ? "" : " · " + culprit.bytes(bytes);
    const all = this.list.items.length;
    const leftOut = this.model.report[this.list.name + "_left_out"];
    const shown = this.shown.length === all ? culprit.plural(all, "group", "groups") : culprit.number(this.shown.length) + " of " + culprit.plural(all, "group", "groups");
    this.status.textContent = (all === 0 ? "nothing leaked" : shown + what) +
      (leftOut ? " · " + culprit.number(leftOut.groups) + " smaller ones (" + culprit.bytes(leftOut.bytes) + ") are left out here; other formats have them" : "");
  }

  // The next rows.
  more() {
    const to = Math.min(this.shown.length, this.drawn + this.page);
    const rows = [];
    for (let at = this.drawn; at < to; at += 1) {
      const one = this.shown[at];
      rows.push(this.row(one, at));
      if (this.open.has(one)) rows.push(this.detailRow(one));
    }
    this.drawn = to;
    this.body.append(...rows);
  }

  row(one, at) {
    const { el } = culprit;
    const cause = one.cause || one.type;
    const share = this.most ? one.bytes / this.most : 0;
    const state = one.baseline && one.baseline.state !== "known" ? one.baseline.state : "";
    return el("tr", { class: "row", id: one.id ? "leak-" + one.list + "-" + one.index : null, tabindex: 0, "data-at": at, "data-id": one.id, "aria-expanded": this.open.has(one) ? "true" : "false" },
      el("td", { class: "col-bytes" }, el("span", { class: "bytes" }, one.bytes || one.list !== "resources" ? culprit.bytes(one.bytes) : "–"),
        el("span", { class: "meter", "aria-hidden": "true" }, el("i", { class: "cause-" + cause, style: "width:" + 100 * share + "%" }))),
      el("td", { class: "col-count" }, culprit.number(one.count) + "×"),
      el("td", { class: "col-where" }, el("span", { class: "function" }, one.where ? one.where.name : "(stack not recorded)"),
        el("span", { class: "place" }, culprit.Model.place(one.where), el("span", { class: "api" }, one.api))),
      el("td", { class: "col-cause" }, el("span", { class: "badge" }, el("i", { class: "swatch cause-" + (one.list === "errors" ? "failed-free" : cause) }),
        one.list === "library" ? one.library : one.list === "resources" ? one.kind : culprit.causeTitle(cause, this.model.running)),
        state && el("span", { class: "badge new" }, state)),
      el("td", { class: "col-device" }, culprit.Model.device(one)),
      el("td", { class: "col-time" }, culprit.time(one.first_ns)));
  }

  detailRow(one) {
    const { el } = culprit;
    return el("tr", { class: "detail" }, el("td", { colspan: 6 }, culprit.detail(this.model, one)));
  }

  toggle(one, row) {
    if (this.open.has(one)) {
      this.open.delete(one);
      row.setAttribute("aria-expanded", "false");
      if (row.nextSibling && row.nextSibling.classList.contains("detail")) row.nextSibling.remove();
      if (one.id && location.hash === "#" + one.id) history.replaceState(null, "", " ");
    } else {
      this.open.add(one);
      row.setAttribute("aria-expanded", "true");
      row.after(this.detailRow(one));
      if (one.id) history.replaceState(null, "", "#" + one.id);
    }
  }

  // Shows one of the lists.
  show(name) {
    const list = this.lists.find((one) => one.name === name);
    if (!list) return;
    this.list = list;
    this.scope = null;
    this.filters = { cause: "", device: "", kind: "", library: "" };
    if (name === "resources") this.sort = { by: "count", descending: true };
    else if (this.sort.by === "count") this.sort = { by: "bytes", descending: true };
    this.refresh();
  }

  clear() {
    this.search = this.searchField.value = "";
    this.scope = null;
    this.filters = { cause: "", device: "", kind: "", library: "" };
    this.refresh();
  }

  // Only what lies below a place of the flame graph.
  narrow(name, groups) {
    this.show("leaks");
    this.scope = { name, groups };
    this.refresh();
    this.element.scrollIntoView({ behavior: "smooth", block: "start" });
  }

  sortBy(name) {
    const numeric = name === "bytes" || name === "count";
    if (this.sort.by === name) this.sort.descending = !this.sort.descending;
    else this.sort = { by: name, descending: numeric };
    this.refresh();
  }

  // Opens a group wherever it is, and shows it.
  choose(one) {
    const list = this.lists.find((each) => each.items.includes(one));
    if (!list) return;
    if (list !== this.list) this.show(list.name);
    if (!this.shown.includes(one)) this.clear();
    const at = this.shown.indexOf(one);
    while (this.drawn <= at) this.more();
    const row = this.body.querySelector('tr.row[data-at="' + at + '"]');
    if (!this.open.has(one)) this.toggle(one, row);
    row.scrollIntoView({ block: "start" });
    row.focus({ preventScroll: true });
  }

  key(event) {
    const row = event.target.closest("tr.row");
    if (!row || event.target !== row) return;
    const rows = [...this.body.querySelectorAll("tr.row")];
    const at = rows.indexOf(row);
    const move = (to) => { if (to) { to.focus(); to.scrollIntoView({ block: "nearest" }); } };
    if (event.key === "ArrowDown" || event.key === "j") move(rows[at + 1]);
    else if (event.key === "ArrowUp" || event.key === "k") move(rows[at - 1]);
    else if (event.key === "Enter" || event.key === " ") this.toggle(this.shown[Number(row.dataset.at)], row);
    else if (event.key === "Escape" && this.open.has(this.shown[Number(row.dataset.at)])) this.toggle(this.shown[Number(row.dataset.at)], row);
    else return;
    event.preventDefault();
  }
};
