// Lists, one of which is shown: sorted, filtered and searched; a click opens an entry. The classes that extend this
// (LeakTable, ChangeTable) define the content of a line.
"use strict";

culprit.Table = class {
  // `lists`: [{ name, title, items }]. An item has bytes, its `list`, its `index` there, and for links an `anchor`.
  // `columns`: by name, in their order, { title, value, numeric }; the largest of the first come first.
  constructor(model, lists, columns, heading) {
    this.model = model;
    this.lists = lists;
    this.columns = columns;
    this.list = lists[0];
    this.search = "";
    this.filters = {};
    this.scope = null; // { word, name, groups }: only these
    this.sort = { by: Object.keys(columns)[0], descending: true };
    this.open = new Set();
    this.page = 50; // rows made at a time: five thousand at once would take a browser seconds
    this.mostRows = 300; // rows at a time: to take away five thousand takes it a second, too
    this.element = this.frame(heading);
    this.refresh();
  }

  // For the classes that extend this:
  // filterChoices(): [{ name, label, value(item), title(value) or nothing }]; a filter by `value` for each.
  // finder(words): a function that tells whether an item has all words, which are in lower case.
  // cells(item): the <td> elements of its line.
  // detail(item): the element shown when the item is opened.
  // statusText(): the status line for the shown list.

  frame(heading) {
    const { el } = culprit;
    this.tabs = el("div", { class: "tabs", role: "tablist" });
    this.searchField = el("input", { id: "leak-search", type: "search", placeholder: heading.search + "   ( / )",
      "aria-label": "Search the list", oninput: () => {
        this.search = this.searchField.value.trim().toLowerCase();
        this.drawClear();
        this.drawRows();
      } });
    this.filterBox = el("div", { class: "filters" });
    this.clearButton = el("button",
      { class: "link-button", id: "clear-filters", onclick: () => this.clear() }, "Clear");
    this.orders = new Map(); // by list: { by, descending, items }
    this.counts = new Map(); // by list and filter: the number of items of each value
    this.status = el("p", { class: "quiet", id: "leak-status", "aria-live": "polite" });
    this.head = el("tr", null);
    this.body = el("tbody", null);
    this.sentinel = el("div", { class: "sentinel" });
    // As high as the rows above that are not there.
    this.space = el("td", { colspan: Object.keys(this.columns).length });
    const whenNear = (element, work) =>
      new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) work(); },
        { rootMargin: culprit.Table.near + "px" })
        .observe(element);
    whenNear(this.sentinel, () => this.more());
    whenNear(this.space, () => this.backTo());
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr.row");
      if (row && !event.target.closest("a, .detail-body")) this.toggle(this.shown[Number(row.dataset.at)], row);
    });
    this.body.addEventListener("keydown", (event) => this.key(event));
    return el("section", { class: "card", id: "leaks", "aria-label": heading.label },
      el("div", { class: "card-head" }, el("div", null, el("h2", null, heading.title), this.status),
        el("div", { class: "controls" }, this.searchField)),
      this.tabs, this.filterBox,
      el("table", { class: "leaks" }, el("thead", null, this.head),
        el("tbody", { class: "space", "aria-hidden": "true" }, el("tr", null, this.space)), this.body), this.sentinel);
  }

  // The lists on paper: [{ title, status, items, detailed }]. The shown one, as it is sorted, filtered and searched.
  printedLists() {
    return [{ title: this.list.title, status: this.statusText(), items: this.shown, detailed: true }];
  }

  // Everything anew: after a change of list, search, filter or order.
  refresh() {
    this.drawTabs();
    this.drawFilters();
    this.drawHead();
    this.most = d3.max(this.list.items, (one) => one.bytes) || 0;
    this.drawRows();
  }

  // The rows anew: after a change of the search, which leaves the rest as it is.
  drawRows() {
    const matches = this.matcher();
    this.shown = this.ordered(this.list).filter(matches);
    this.first = this.drawn = 0; // the rows that are there
    this.setSpace(0);
    this.body.replaceChildren();
    this.more();
    this.status.textContent = this.statusText();
  }

  // The items of a list in the chosen order. Kept, because a search asks for it with each key.
  ordered(list) {
    const { by, descending } = this.sort;
    const known = this.orders.get(list);
    if (known && known.by === by && known.descending === descending) return known.items;
    const value = this.columns[by].value;
    const keys = new Map(list.items.map((one) => [one, value(one)]));
    const items = list.items.slice().sort((a, b) => {
      const left = keys.get(a), right = keys.get(b);
      const order = left < right ? -1 : left > right ? 1 : 0;
      return (descending ? -order : order) || b.bytes - a.bytes || a.index - b.index;
    });
    this.orders.set(list, { by, descending, items });
    return items;
  }

  // A function that tells whether an item passes the scope, the filters and the search.
  matcher() {
    const chosen = this.filterChoices().filter(({ name }) => this.filters[name]);
    const found = this.search === "" ? null : this.finder(this.search.split(/\s+/));
    return (one) => (!this.scope || this.scope.groups.has(one)) &&
      chosen.every(({ name, value }) => value(one) === this.filters[name]) && (found === null || found(one));
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
    const select = ({ name, label, value, title }) => {
      const counts = this.countsOf(name, value);
      if (counts.size < 2 && !this.filters[name]) return null;
      const options = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
      const element = el("select",
        { id: "filter-" + name, class: this.filters[name] ? "filter on" : "filter", "aria-label": label,
          onchange: () => {
        this.filters[name] = element.value;
        this.refresh();
      } }, el("option", { value: "" }, label + ": all"),
        options.map((key) => el("option", { value: key, selected: key === this.filters[name] },
          (title ? title(key) : key) + " (" + culprit.number(counts.get(key)) + ")")));
      return element;
    };
    fill(this.filterBox,
      this.filterChoices().map(select),
      this.scope && el("span", { class: "chip" }, this.scope.word, el("code", null, this.scope.name),
        el("button", { class: "chip-close", "aria-label": "Show all",
          onclick: () => { this.scope = null; this.refresh(); } }, "×")));
    this.drawClear();
  }

  drawClear() {
    if (this.search || this.scope || Object.values(this.filters).some(Boolean)) this.filterBox.append(this.clearButton);
    else this.clearButton.remove();
  }

  // How many items of the shown list have each value of a filter.
  countsOf(name, value) {
    const key = this.list.name + "/" + name;
    let counts = this.counts.get(key);
    if (counts === undefined) {
      counts = new Map();
      for (const one of this.list.items) {
        const of = value(one);
        if (of) counts.set(of, (counts.get(of) || 0) + 1);
      }
      this.counts.set(key, counts);
    }
    return counts;
  }

  drawHead() {
    const { el, fill } = culprit;
    fill(this.head, Object.keys(this.columns).map((name) => {
      const sorted = this.sort.by === name;
      return el("th", { class: "col-" + name, scope: "col",
        "aria-sort": sorted ? (this.sort.descending ? "descending" : "ascending") : "none" },
        el("button", { class: "sort", "data-sort": name, onclick: () => this.sortBy(name) }, this.columns[name].title,
          el("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (this.sort.descending ? "↓" : "↑") : "")));
    }));
  }

  shownText() {
    const all = this.list.items.length;
    if (this.shown.length === all) return culprit.plural(all, "group", "groups");
    return culprit.number(this.shown.length) + " of " + culprit.plural(all, "group", "groups");
  }

  rowsOf(from, to) {
    const rows = [];
    for (let at = from; at < to; at += 1) {
      const one = this.shown[at];
      rows.push(this.row(one, at));
      if (this.open.has(one)) rows.push(this.detailRow(one));
    }
    return rows;
  }

  // The next rows. Those far above go.
  more() {
    const to = Math.min(this.shown.length, this.drawn + this.page);
    this.body.append(...this.rowsOf(this.drawn, to));
    this.drawn = to;
    const first = to - this.mostRows;
    if (first <= this.first) return;
    const height = this.body.offsetHeight;
    if (!this.drop((at) => at < first)) return;
    this.first = first;
    this.setSpace(this.spaceHeight + height - this.body.offsetHeight);
  }

  // The rows before. Those far below go.
  less() {
    const from = Math.max(0, this.first - this.page);
    const height = this.body.offsetHeight;
    this.body.prepend(...this.rowsOf(from, this.first));
    this.first = from;
    this.setSpace(from === 0 ? 0 : Math.max(1, this.spaceHeight - (this.body.offsetHeight - height)));
    const end = from + this.mostRows;
    if (end < this.drawn && this.drop((at) => at >= end)) this.drawn = end;
  }

  // Removes rows with their details; false: one of them has the focus, and all stay.
  drop(isFar) {
    const far = [];
    let goes = false;
    for (const row of this.body.children) {
      if (row.dataset.at !== undefined) goes = isFar(Number(row.dataset.at));
      if (goes) far.push(row);
    }
    if (far.some((row) => row.contains(document.activeElement))) return false;
    for (const row of far) row.remove();
    return true;
  }

  setSpace(height) {
    this.spaceHeight = height;
    this.space.style.height = height + "px";
  }

  // The reader has scrolled up to the place of rows that are not there.
  backTo() {
    const box = this.space.getBoundingClientRect();
    if (box.bottom > 2 * window.innerHeight) this.drawFrom(Math.floor(this.first * Math.max(0, -box.top) / box.height));
    while (this.first > 0 && this.space.getBoundingClientRect().bottom > -culprit.Table.near) this.less();
  }

  // Rows around this one, instead of those that are there.
  drawFrom(at) {
    const height = this.spaceHeight + this.body.offsetHeight;
    const average = this.drawn > 0 ? height / this.drawn : 0;
    this.first = this.drawn = Math.max(0, at - this.page / 2);
    this.setSpace(this.first * average);
    this.body.replaceChildren();
    this.more();
  }

  row(one, at) {
    const row = culprit.el("tr", { class: "row", id: one.anchor ? "leak-" + one.list + "-" + one.index : null,
      "data-at": at, "data-id": one.anchor }, this.cells(one));
    this.mark(row, this.open.has(one));
    return row;
  }

  // Shows whether the entry of a row is open. The button in the row has the focus and the state: a row has no role that
  // could have them.
  mark(row, open) {
    row.classList.toggle("open", open);
    row.querySelector(".row-open").setAttribute("aria-expanded", open ? "true" : "false");
  }

  // A bar for a fraction of `most`.
  meter(bytes, colour) {
    const share = this.most ? bytes / this.most : 0;
    return culprit.el("span", { class: "meter", "aria-hidden": "true" },
      culprit.el("i", { class: colour, style: "width:" + 100 * share + "%" }));
  }

  detailRow(one) {
    const { el } = culprit;
    return el("tr", { class: "detail" }, el("td", { colspan: Object.keys(this.columns).length }, this.detail(one)));
  }

  toggle(one, row) {
    if (this.open.has(one)) {
      this.open.delete(one);
      this.mark(row, false);
      if (row.nextSibling && row.nextSibling.classList.contains("detail")) row.nextSibling.remove();
      if (one.anchor && location.hash === "#" + one.anchor) history.replaceState(null, "", " ");
    } else {
      this.open.add(one);
      this.mark(row, true);
      row.after(this.detailRow(one));
      if (one.anchor) history.replaceState(null, "", "#" + one.anchor);
    }
  }

  // Shows the list with this name.
  show(name) {
    const list = this.lists.find((one) => one.name === name);
    if (!list) return;
    this.list = list;
    this.scope = null;
    this.filters = {};
    this.refresh();
  }

  clear() {
    this.search = this.searchField.value = "";
    this.scope = null;
    this.filters = {};
    this.refresh();
  }

  sortBy(name) {
    if (this.sort.by === name) this.sort.descending = !this.sort.descending;
    else this.sort = { by: name, descending: Boolean(this.columns[name].numeric) };
    this.refresh();
  }

  // Opens an item wherever it is, and shows it.
  choose(one) {
    const list = this.list.items.includes(one) ? this.list : this.lists.find((each) => each.items.includes(one));
    if (!list) return;
    if (list !== this.list) this.show(list.name);
    if (!this.shown.includes(one)) this.clear();
    const at = this.shown.indexOf(one);
    if (at < this.first || at >= this.drawn) this.drawFrom(at);
    const row = this.body.querySelector('tr.row[data-at="' + at + '"]');
    if (!this.open.has(one)) this.toggle(one, row);
    row.scrollIntoView({ block: "start" });
    row.querySelector(".row-open").focus({ preventScroll: true });
  }

  key(event) {
    const row = event.target.closest("tr.row");
    if (!row || !event.target.matches(".row-open")) return;
    const rows = [...this.body.querySelectorAll("tr.row")];
    const at = rows.indexOf(row);
    const move = (to) => {
      if (!to) return;
      to.querySelector(".row-open").focus();
      to.scrollIntoView({ block: "nearest" });
    };
    if (event.key === "ArrowDown" || event.key === "j") move(rows[at + 1]);
    else if (event.key === "ArrowUp" || event.key === "k") move(rows[at - 1]);
    else if (event.key === "Escape" && this.open.has(this.shown[Number(row.dataset.at)]))
      this.toggle(this.shown[Number(row.dataset.at)], row);
    else return;
    event.preventDefault();
  }
};

// Rows are made when the window is so many pixels away from their place.
culprit.Table.near = 600;

// The cell for the place: the function, which is the button that opens the row, its line, and the call.
culprit.whereCell = function (where, api) {
  const { el } = culprit;
  return el("td", { class: "col-where" },
    el("button", { class: "row-open" },
      el("span", { class: "function" }, where ? where.name : "(stack not recorded)")),
    el("span", { class: "place" }, culprit.Frames.place(where), el("span", { class: "api" }, api)));
};
