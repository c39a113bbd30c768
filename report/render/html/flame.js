// The flame graph of leaked bytes: callers above their callees (an icicle), as wide as the bytes leaked there.
"use strict";

culprit.Flame = class {
  // `list(name, groups)` shows the leaks below a place.
  constructor(model, list) {
    this.model = model;
    this.list = list;
    this.colourBy = "cause";
    this.search = "";
    this.root = this.build(model.leaks);
    this.flatten();
    this.zoomed = this.root;
    this.element = this.frame();
    this.draw();
  }

  // Groups as one tree: a node for each frame below the same callers.
  build(groups) {
    const node = (name, frame, parent) => ({
      name, frame, parent, bytes: 0, count: 0, groups: [], children: new Map(), weights: null,
      depth: parent ? parent.depth + 1 : 0, id: parent ? null : "0",
    });
    const root = node("all leaks", null, null);
    let nodes = 0;
    for (const group of groups) {
      if (group.bytes === 0) continue;
      let at = root;
      const visit = (one) => {
        one.bytes += group.bytes;
        one.count += group.count;
        one.groups.push(group);
      };
      visit(at);
      const enter = (key, name, frame) => {
        let child = at.children.get(key);
        if (!child) {
          child = node(name, frame, at);
          child.id = String((nodes += 1));
          at.children.set(key, child);
        }
        at = child;
        visit(at);
      };
      for (let i = group.stack.length - 1; i >= 0; i -= 1) {
        const frame = this.model.frame(group.stack[i]);
        enter(frame.name + "\n" + frame.module, frame.name, frame);
      }
      enter("api\n" + group.api, group.api, null);
    }
    return root;
  }

  // The nodes in one order, callers before their callees, for a search: it may have to look at a million of them with
  // each key. A node is its frame's number; those of calls follow the frames.
  flatten() {
    const frames = this.model.frames.length;
    this.calls = [];
    const calls = new Map();
    this.numberOf = (node) => {
      if (node.frame) return node.frame.number;
      let number = calls.get(node.name);
      if (number === undefined) {
        number = frames + this.calls.push(node.name.toLowerCase()) - 1;
        calls.set(node.name, number);
      }
      return number;
    };
    const numbers = [], bytes = [], ends = [];
    const visit = (node) => {
      const at = numbers.push(this.numberOf(node)) - 1;
      bytes.push(node.bytes);
      ends.push(0);
      for (const child of node.children.values()) visit(child);
      ends[at] = numbers.length;
    };
    for (const child of this.root.children.values()) visit(child);
    this.flat = { numbers: Int32Array.from(numbers), bytes: Float64Array.from(bytes), ends: Int32Array.from(ends) };
    this.names = this.model.frames.map((frame) => (frame.name + "\n" + frame.module).toLowerCase()).concat(this.calls);
  }

  frame() {
    const { el } = culprit;
    this.bars = el("div", { class: "flame", role: "tree", "aria-label": "Leaked bytes by call path" });
    this.path = el("div", { class: "flame-path" });
    this.matches = el("span", { class: "quiet", id: "flame-matches", "aria-live": "polite" });
    this.legend = el("div", { class: "legend" });
    this.reset = el("button", { class: "button small", id: "flame-reset", onclick: () => this.zoom(this.root) },
      "Reset zoom");
    const colour = el("select", { id: "flame-colour", "aria-label": "Colour by", onchange: (event) => {
      this.colourBy = event.target.value;
      this.draw();
    } }, ["cause", "device", "library"].map((by) => el("option", { value: by }, "Colour by " + by)));
    const search = el("input", { id: "flame-search", type: "search", placeholder: "Find a function or library",
      "aria-label": "Find in the flame graph", oninput: (event) => {
        this.search = event.target.value.trim().toLowerCase();
        this.drawSearch();
      } });
    this.bars.addEventListener("keydown", (event) => this.key(event));
    this.bars.addEventListener("mouseleave", culprit.tooltip.hide);
    this.bars.addEventListener("focusout", culprit.tooltip.hide);
    return el("section", { class: "card", id: "flame", "aria-label": "Flame graph" },
      el("div", { class: "card-head" },
        el("div", null, el("h2", null, "Where"),
          el("p", { class: "quiet" }, "Leaked bytes by call path, from main down to the allocation")),
        el("div", { class: "controls" }, this.matches, search, colour, this.reset)),
      this.path, this.bars, this.legend);
  }

  // The key of a node's colour: the value with the most bytes below it, or its own library.
  key_of(node) {
    if (this.colourBy === "library") {
      if (!node.frame) return node.parent ? "CUDA" : "";
      return node.frame.python ? "Python" : culprit.baseName(node.frame.module) || "(unknown)";
    }
    const weights = new Map();
    for (const group of node.groups) {
      const value = this.colourBy === "cause" ? group.cause : culprit.Model.device(group);
      weights.set(value, (weights.get(value) || 0) + group.bytes);
    }
    let best = "";
    for (const [value, weight] of weights) if (best === "" || weight > weights.get(best)) best = value;
    return best;
  }

  // Classes for causes, a palette for the rest, the largest first.
  colours(nodes) {
    if (this.colourBy === "cause") return (key) => "cause-" + key;
    const bytes = new Map();
    for (const node of nodes) {
      const key = this.key_of(node.data);
      bytes.set(key, (bytes.get(key) || 0) + node.data.bytes);
    }
    const order = [...bytes.keys()].sort((a, b) => bytes.get(b) - bytes.get(a));
    return (key) => "hue-" + (order.indexOf(key) % 10);
  }

  zoom(node) {
    this.zoomed = node;
    this.focused = node;
    this.draw();
    culprit.announce("Zoomed to " + node.name + ", " + culprit.bytes(node.bytes));
  }

  draw() {
    const zoomed = this.zoomed;
    // Nodes narrower than about a pixel are not drawn.
    const least = zoomed.bytes / Math.max(400, (this.bars.clientWidth || 1200) / 1.5);
    const tree = d3.hierarchy(zoomed, (node) => {
      const wide = [];
      for (const child of node.children.values()) if (child.bytes >= least) wide.push(child);
      return wide.sort((a, b) => b.bytes - a.bytes);
    }).each((node) => { node.value = node.data.bytes; });
    d3.partition()(tree);
    const shown = tree.descendants();
    const levels = tree.height + 1;
    const row = 24;
    const keys = new Map(shown.map((node) => [node, this.key_of(node.data)]));
    const colour = this.colours(shown);

    const bars = d3.select(this.bars).style("height", levels * row + "px").selectAll("div.bar")
      .data(shown, (node) => node.data.id);
    bars.exit().remove();
    const entered = bars.enter().append("div").attr("role", "treeitem").attr("tabindex", -1);
    entered.append("span");
    entered.on("click", (...of) => this.zoom(this.of(of).data))
      .on("mousemove", (...of) => this.point(this.of(of).data))
      .on("focus", (...of) => { this.focused = this.of(of).data; });
    const all = entered.merge(bars);
    all.attr("class", (node) => "bar " + (node.data.parent ? colour(keys.get(node)) : "bar-root"))
      .attr("data-name", (node) => node.data.name)
      .attr("aria-label", (node) => node.data.name + ", " + culprit.bytes(node.data.bytes))
      .attr("aria-level", (node) => node.data.depth + 1)
      .style("left", (node) => 100 * node.x0 + "%")
      .style("width", (node) => 100 * (node.x1 - node.x0) + "%")
      .style("top", (node) => node.depth * row + "px");
    all.select("span").text((node) =>
      (node.x1 - node.x0 > 0.02
        ? node.data.name + (node.depth === 0 ? "  " + culprit.bytes(node.data.bytes) : "")
        : ""));
    all.filter((node) => node.depth === 0).attr("tabindex", 0);
    all.filter((node) => node.depth !== 0).attr("tabindex", -1);
    this.elements = new Map();
    all.each((...of) => this.elements.set(of[0].data, of[2][of[1]]));

    this.drawPath();
    this.drawLegend(shown, keys, colour);
    this.shownBars = all;
    this.drawSearch();
    this.reset.disabled = zoomed === this.root;
  }

  // The datum of a handler's arguments: D3 5 passes (datum, index, nodes), later versions (event, datum).
  of(handed) {
    return handed[0] && handed[0].data ? handed[0] : handed[1];
  }

  drawPath() {
    const { el, fill } = culprit;
    const path = [];
    for (let node = this.zoomed; node; node = node.parent) path.unshift(node);
    if (path.length < 2) {
      fill(this.path);
      return;
    }
    fill(this.path, path.map((node, i) => [i > 0 && el("span", { class: "quiet" }, " › "),
      i + 1 < path.length
        ? el("button", { class: "link-button", onclick: () => this.zoom(node) }, node.name)
        : el("strong", null, node.name)]).flat(),
      el("button", { class: "button small", id: "flame-list",
        onclick: () => this.list(this.zoomed.name, new Set(this.zoomed.groups)) },
        "List " + culprit.plural(this.zoomed.groups.length, "leak", "leaks")));
  }

  drawLegend(shown, keys, colour) {
    const { el, fill } = culprit;
    const bytes = new Map();
    for (const node of shown)
      if (node.data.parent) bytes.set(keys.get(node), Math.max(bytes.get(keys.get(node)) || 0, node.data.bytes));
    const order = [...bytes.keys()].sort((a, b) => bytes.get(b) - bytes.get(a)).slice(0, 10);
    fill(this.legend, order.map((key) =>
      el("span", { class: "legend-entry" }, el("i", { class: "swatch " + colour(key) }),
      this.colourBy === "cause" ? culprit.causeTitle(key, this.model.mayBeFreed) : key)));
  }

  // Marks the bars that the search finds. Bytes are those below the outermost matches, so that recursion counts once.
  drawSearch() {
    if (this.search === "") {
      this.shownBars.classed("match", false).classed("dim", false);
      this.matches.textContent = "";
      return;
    }
    const found = Uint8Array.from(this.names, (name) => (name.includes(this.search) ? 1 : 0));
    const isFound = (node) => node.data.parent !== null && found[this.numberOf(node.data)] === 1;
    this.shownBars.classed("match", isFound).classed("dim", (node) => !isFound(node));
    const { numbers, bytes: sizes, ends } = this.flat;
    let bytes = 0, places = 0;
    for (let at = 0; at < numbers.length;) {
      if (found[numbers[at]] === 1) {
        bytes += sizes[at];
        places += 1;
        at = ends[at];
      } else {
        at += 1;
      }
    }
    this.matches.textContent = places === 0
      ? "nothing found"
      : culprit.bytes(bytes) + " (" + culprit.percent(bytes, this.root.bytes) + ") in " +
        culprit.plural(places, "place", "places");
  }

  point(node) {
    const element = this.elements.get(node);
    if (!element) return;
    const box = element.getBoundingClientRect();
    culprit.tooltip.show(box.left + Math.min(box.width / 2, 200), box.bottom - 14, this.describe(node));
  }

  describe(node) {
    const lines = [node.name];
    if (node.frame)
      lines.push([culprit.Model.place(node.frame),
        node.frame.file && node.frame.module ? culprit.baseName(node.frame.module) : ""].filter(Boolean).join(" · "));
    lines.push(culprit.bytes(node.bytes) + " · " + culprit.percent(node.bytes, this.root.bytes) + " of all · " +
      culprit.plural(node.count, "allocation", "allocations"));
    lines.push(culprit.plural(node.groups.length, "leak", "leaks") + " · " +
      culprit.causeTitle(node.groups[0] ? node.groups[0].cause : "", this.model.mayBeFreed) +
        (new Set(node.groups.map((group) => group.cause)).size > 1 ? " and others" : ""));
    return lines.filter(Boolean);
  }

  key(event) {
    const node = this.focused || this.zoomed;
    const children = (one) =>
      (one
        ? [...one.children.values()].filter((child) => this.elements.has(child)).sort((a, b) => b.bytes - a.bytes)
        : []);
    const siblings = node === this.zoomed ? [node] : children(node.parent);
    const at = siblings.indexOf(node);
    let next = null;
    switch (event.key) {
      case "ArrowDown": next = children(node)[0]; break;
      case "ArrowUp": next = node === this.zoomed ? null : node.parent; break;
      case "ArrowLeft": next = siblings[at - 1]; break;
      case "ArrowRight": next = siblings[at + 1]; break;
      case "Enter": case " ": this.zoom(node); next = node; break;
      case "Escape": case "Backspace":
        if (this.zoomed === this.root) return;
        this.zoom(this.zoomed.parent);
        next = this.zoomed;
        break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
    const element = next && this.elements.get(next);
    if (!element) return;
    element.focus();
    this.point(next);
  }
};
