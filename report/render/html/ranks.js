// The processes of a job side by side: one bar for each, in the order of the ranks, so that one that differs is seen.
"use strict";

culprit.Ranks = class {
  // `job`: [{ report, process, rank, pid, host, leaked, peak }]; `verb`: a title for the leaked bytes; `choose(one)`
  // shows a process. The element is null for one process, or when none has memory.
  constructor(job, verb, choose) {
    this.job = job;
    this.choose = choose;
    this.measures = [{ key: "leaked", title: verb }, { key: "peak", title: "At the peak" }]
      .filter(({ key }) => job.some((one) => one[key] > 0))
      .map((measure) => ({ ...measure, ...this.compare(measure.key) }));
    this.measure = this.measures.find((one) => one.odd.length > 0) || this.measures[0];
    this.element = job.length < 2 || !this.measure ? null : this.frame();
  }

  static title(one) {
    return one.rank !== null ? "rank " + one.rank : "process " + one.pid + " on " + one.host;
  }

  // The median, and the few processes that have twice as much or more; as report/merge/spread.cpp.
  compare(key) {
    const values = this.job.map((one) => one[key]).sort((a, b) => a - b);
    const median = values[Math.floor(values.length / 2)];
    const odd = this.job.filter((one) => one[key] > 0 && one[key] >= 2 * median)
      .sort((a, b) => b[key] - a[key]);
    const few = this.job.length < 3 ? 0 : Math.max(1, Math.floor(this.job.length / 4));
    return { median, odd: odd.length > few ? [] : odd };
  }

  // "Leaked: rank 517 has 10.0 GiB, 10.0 times the median (1.00 GiB)"
  words({ key, title, median, odd }) {
    if (odd.length === 0) return title + ": no process has twice the median (" + culprit.bytes(median) + ")";
    const most = odd[0][key];
    const names = odd.slice(0, 8).map((one) => culprit.Ranks.title(one) + " has " + culprit.bytes(one[key]));
    if (odd.length > names.length) names.push("and " + culprit.number(odd.length - names.length) + " more");
    return title + ": " + names.join(", ") +
      (median > 0
        ? (odd.length > 1 ? ", up to " : ", ") + culprit.threeDigits(most / median) + " times the median (" +
          culprit.bytes(median) + ")"
        : "; most have none");
  }

  frame() {
    const { el } = culprit;
    this.plot = el("div", { class: "ranks-plot" });
    this.note = el("p", { class: "quiet" });
    this.rows = el("tbody", null);
    this.rest = el("p", { class: "quiet" });
    const select = this.measures.length > 1 && el("select", { id: "rank-measure", "aria-label": "Compare",
      onchange: (event) => {
        this.measure = this.measures[Number(event.target.value)];
        this.draw(this.width);
      } }, this.measures.map((one, i) => el("option", { value: i, selected: one === this.measure }, one.title)));
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width > 0 && width !== this.width) this.draw(width);
    }).observe(this.plot);
    return el("section", { class: "card", id: "ranks", "aria-label": "Processes" },
      el("div", { class: "card-head" },
        el("div", null,
          el("h2", null, this.job.every((one) => one.rank !== null) ? "Ranks" : "Processes"),
          this.measures.map((one) => el("p", { class: one.odd.length > 0 ? "odd-ranks" : "quiet" }, this.words(one)))),
        el("div", { class: "controls" }, select)),
      this.plot, this.note,
      el("details", { class: "more" }, el("summary", null, "As a table, the largest first"),
        el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Processes as a table" },
          el("table", null,
            el("thead", null, el("tr", null, ["Process", "Host", "Process id", ...this.measures.map((one) => one.title)]
              .map((head) => el("th", { scope: "col" }, head)))),
            this.rows)),
        this.rest));
  }

  draw(width) {
    this.width = width;
    this.drawRows();
    const { key, median } = this.measure;
    const odd = new Set(this.measure.odd);
    const left = 64, right = 8, top = 24, bottom = 26, height = 170;
    // Where there is no room for a bar for each, a bar is the highest of its neighbours: none is left out.
    const together = Math.ceil(this.job.length / Math.max(1, Math.floor((width - left - right) / 3)));
    const bins = d3.range(0, this.job.length, together).map((from) => {
      const ones = this.job.slice(from, from + together);
      const most = ones.reduce((best, one) => (one[key] > best[key] ? one : best));
      return { ones, most, bytes: most[key] };
    });
    const highest = Math.max(1, d3.max(bins, (bin) => bin.bytes));
    const x = d3.scaleBand().domain(d3.range(bins.length)).paddingInner(bins.length > 150 ? 0.1 : 0.25)
      .range([left, Math.min(width - right, left + 48 * bins.length)]);
    const y = d3.scaleLinear().domain([0, highest * 1.08]).range([height - bottom, top]);
    const svg = d3.create("svg").attr("viewBox", [0, 0, width, height]).attr("width", width).attr("height", height)
      .attr("role", "img").attr("aria-label", this.words(this.measure));
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, (highest * 1.08) / 4)));
    const ticks = d3.range(0, highest * 1.08, step);
    svg.append("g").attr("class", "grid").selectAll("line").data(ticks).enter().append("line")
      .attr("x1", left).attr("x2", width - right).attr("y1", y).attr("y2", y);
    svg.append("g").attr("class", "axis").selectAll("text").data(ticks).enter().append("text")
      .attr("x", left - 8).attr("y", (tick) => y(tick) + 4).attr("text-anchor", "end")
      .text((tick) => (tick === 0 ? "0" : culprit.bytes(tick)));
    const middle = (i) => x(i) + x.bandwidth() / 2;
    svg.append("g").attr("class", "axis times").selectAll("text")
      .data(d3.range(0, bins.length, Math.max(1, Math.ceil(64 / x.step())))).enter().append("text")
      .attr("x", middle).attr("y", height - 8).attr("text-anchor", "middle")
      .text((i) => (bins[i].ones[0].rank !== null ? bins[i].ones[0].rank : "[" + bins[i].ones[0].pid + "]"));
    svg.append("g").selectAll("rect").data(bins).enter().append("rect")
      .attr("class", (bin) => (odd.has(bin.most) ? "rank-bar odd" : "rank-bar"))
      .attr("data-name", (bin) => culprit.Ranks.title(bin.most))
      .attr("x", (_, i) => x(i)).attr("width", x.bandwidth())
      .attr("y", (bin) => (bin.bytes > 0 ? Math.min(y(bin.bytes), height - bottom - 2) : height - bottom))
      .attr("height", (bin) => (bin.bytes > 0 ? Math.max(2, y(0) - y(bin.bytes)) : 0));
    if (median > 0)
      svg.append("line").attr("class", "mark-line").attr("x1", left).attr("x2", width - right).attr("y1", y(median))
        .attr("y2", y(median));
    // The names of the odd ones, besides their colour: the largest first, as far as there is room.
    const named = [];
    for (const one of this.measure.odd.slice(0, 20)) {
      const at = bins.findIndex((bin) => bin.most === one);
      if (at >= 0 && named.every((other) => Math.abs(middle(other) - middle(at)) > 80)) named.push(at);
    }
    svg.append("g").attr("class", "odd-names").selectAll("text").data(named).enter().append("text")
      .attr("x", (i) => Math.min(width - right - 40, Math.max(left + 40, middle(i)))).attr("text-anchor", "middle")
      .attr("y", (i) => y(bins[i].bytes) - 6).text((i) => culprit.Ranks.title(bins[i].most));
    this.watch(svg, bins, x, { left, right, top, bottom, height });
    this.plot.replaceChildren(svg.node());
    const labels = [...this.plot.querySelectorAll(".times text")];
    for (const label of labels) if (Number(label.getAttribute("x")) > width - 24) label.remove();
    culprit.leaveOutOverlapping(labels);
    this.note.textContent = (median > 0 ? "The dashed line is the median. " : "") +
      (together > 1 ? "Each bar is the highest of up to " + together + " neighbours." : "");
  }

  // The process under the pointer; a click shows it.
  watch(svg, bins, x, box) {
    const at = (event) => {
      const place = event.clientX - svg.node().getBoundingClientRect().left;
      return bins[Math.max(0, Math.min(bins.length - 1, Math.floor((place - x.range()[0]) / x.step())))];
    };
    const cover = svg.append("rect").attr("class", "cover choose").attr("x", box.left).attr("y", box.top)
      .attr("width", Math.max(0, x.range()[1] - x.range()[0])).attr("height", box.height - box.bottom - box.top);
    cover.node().addEventListener("pointermove", (event) => {
      const { most, ones, bytes } = at(event);
      culprit.tooltip.show(event.clientX, event.clientY, [culprit.Ranks.title(most) + ": " + culprit.bytes(bytes),
        ones.length > 1 ? "the highest of " + culprit.Ranks.title(ones[0]) + " to " +
          culprit.Ranks.title(ones[ones.length - 1]) : most.host]);
    });
    cover.node().addEventListener("pointerleave", culprit.tooltip.hide);
    cover.node().addEventListener("click", (event) => this.choose(at(event).most));
  }

  drawRows() {
    const { el, fill } = culprit;
    const most = 100;
    const { key } = this.measure;
    const sorted = this.job.slice().sort((a, b) => b[key] - a[key]);
    fill(this.rows, sorted.slice(0, most).map((one) => el("tr", null,
      el("td", { class: "fixed" },
        el("button", { class: "link-button", onclick: () => this.choose(one) }, culprit.Ranks.title(one))),
      el("td", null, one.host), el("td", { class: "fixed" }, String(one.pid)),
      this.measures.map((measure) => el("td", { class: "fixed" }, culprit.bytes(one[measure.key]))))));
    this.rest.textContent = sorted.length > most
      ? "and " + culprit.number(sorted.length - most) + " more; --format json has all"
      : "";
  }
};
