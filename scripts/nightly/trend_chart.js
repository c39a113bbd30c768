// The bytes that a command leaked in each night, as bars. Each bar can be reached by keyboard and opens the night's
// page.
"use strict";

culprit.NightChart = class {
  // `command`: one of the page's data; `dates`: of its nights.
  constructor(command, dates) {
    this.name = command.name;
    this.nights = command.nights.map((night, i) => (night ? { ...night, date: dates[i] } : null)).filter(Boolean);
    const { el } = culprit;
    this.plot = el("div", { class: "night-plot" });
    this.note = el("p", { class: "quiet" });
    const any = (test) => this.nights.some(test);
    this.element = el("div", null, this.plot,
      el("div", { class: "legend" },
        any((night) => !night.red) &&
          el("span", { class: "legend-entry" }, el("i", { class: "swatch night-bar" }), "green night"),
        any((night) => night.red && night.bytes !== null) &&
          el("span", { class: "legend-entry" }, el("i", { class: "swatch red" }),
            el("span", { class: "night-sign", "aria-hidden": "true" }, "▼"), "red night"),
        any((night) => night.bytes === null) &&
          el("span", { class: "legend-entry" },
            el("span", { class: "night-sign", "aria-hidden": "true" }, "✕"), "no report")),
      this.note);
    // Redrawn when the width changes, so that no text is stretched.
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width > 0 && width !== this.width) this.draw(width);
    }).observe(this.plot);
  }

  draw(width) {
    this.width = width;
    const left = 64, right = 8, top = 22, bottom = 24;
    // A bar is as wide as a finger needs it; older nights are in the table.
    const shown = this.nights.slice(-Math.max(1, Math.floor((width - left - right) / 24)));
    const most = Math.max(1, d3.max(shown, (night) => night.bytes || 0));
    const height = most > 1 ? 170 : 80;
    const x = d3.scaleBand().domain(d3.range(shown.length)).paddingInner(0.25).paddingOuter(0.15)
      .range([left, Math.min(width - right, left + 48 * shown.length)]);
    const y = d3.scaleLinear().domain([0, most * 1.08]).range([height - bottom, top]);
    const svg = d3.create("svg").attr("viewBox", [0, 0, width, height]).attr("width", width).attr("height", height)
      .attr("aria-hidden", "true");

    const step = 2 ** Math.ceil(Math.log2(Math.max(1, (most * 1.08) / 4)));
    const ticks = most === 1 ? [0] : d3.range(0, most * 1.08, step);
    svg.append("g").attr("class", "grid").selectAll("line").data(ticks).enter().append("line")
      .attr("x1", left).attr("x2", width - right).attr("y1", y).attr("y2", y);
    svg.append("g").attr("class", "axis").selectAll("text").data(ticks).enter().append("text")
      .attr("x", left - 8).attr("y", (tick) => y(tick) + 4).attr("text-anchor", "end")
      .text((tick) => (tick === 0 ? "0" : culprit.bytes(tick)));
    const middle = (i) => x(i) + x.bandwidth() / 2;
    // From the last night backwards: that one has its date in any case.
    const dated = d3.range(shown.length - 1, -1, -Math.ceil(64 / x.step())).reverse();
    svg.append("g").attr("class", "axis times").selectAll("text").data(dated).enter().append("text")
      .attr("x", middle).attr("y", height - 6).attr("text-anchor", "middle")
      .text((i) => d3.utcFormat("%-d %b")(new Date(shown[i].date)));

    const bars = svg.append("g").selectAll("rect").data(shown).enter();
    bars.append("rect").attr("class", (night) => (night.red ? "night-bar red" : "night-bar"))
      .attr("x", (_, i) => x(i)).attr("width", x.bandwidth())
      .attr("y", (night) => Math.min(y(night.bytes || 0), height - bottom - (night.bytes === null ? 0 : 2)))
      .attr("height", (night) => (night.bytes === null ? 0 : Math.max(2, y(0) - y(night.bytes))));
    // A sign besides the colour.
    bars.append("text").attr("class", "night-mark").attr("x", (_, i) => middle(i)).attr("text-anchor", "middle")
      .attr("y", (night) => Math.min(y(night.bytes || 0), height - bottom - 2) - 5)
      .style("fill", "var(--bad)").text((night) => (night.bytes === null ? "✕" : night.red ? "▼" : ""));

    const list = culprit.el("ol", { class: "night-list", "aria-label": "Nights of " + this.name },
      shown.map((night, i) => culprit.el("li", {
        style: "left:" + (x(i) - 1) + "px;width:" + (x.bandwidth() + 2) + "px;top:" + (top - 8) + "px;height:" +
          (height - bottom - top + 8) + "px",
      }, this.night(night, i === shown.length - 1))));
    list.addEventListener("keydown", (event) => this.key(event, [...list.querySelectorAll(".night")]));
    this.plot.replaceChildren(svg.node(), list);
    culprit.leaveOutOverlapping([...this.plot.querySelectorAll(".times text")]);
    this.note.textContent = shown.length < this.nights.length
      ? "The last " + shown.length + " of " + culprit.plural(this.nights.length, "night", "nights") +
        "; the table has all of them."
      : "";
  }

  // One stop of the tab key for the chart; arrows lead to the other nights.
  night(night, first) {
    const { el } = culprit;
    const lines = [culprit.nightDate(night.date), (night.red ? "Red: " : "Green: ") + night.words];
    const element = el("a", {
      class: "night", href: night.page, role: night.page ? null : "link", "aria-disabled": night.page ? null : "true",
      tabindex: first ? 0 : -1, "aria-label": lines.join(": "),
    });
    const show = () => {
      const box = element.getBoundingClientRect();
      culprit.tooltip.show(box.left, box.bottom, lines);
    };
    element.addEventListener("pointerenter", show);
    element.addEventListener("focus", show);
    element.addEventListener("pointerleave", culprit.tooltip.hide);
    element.addEventListener("blur", culprit.tooltip.hide);
    return element;
  }

  key(event, nights) {
    const at = nights.indexOf(event.target);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: nights.length - 1 }[event.key];
    if (at < 0 || to === undefined || !nights[to]) return;
    nights[at].tabIndex = -1;
    nights[to].tabIndex = 0;
    nights[to].focus();
    event.preventDefault();
  }
};
