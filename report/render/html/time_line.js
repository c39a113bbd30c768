// Bytes in use on each device over the run, with the peak and events.
"use strict";

culprit.TimeLine = class {
  // `choose(group)` opens a leak.
  constructor(model, choose) {
    this.model = model;
    this.choose = choose;
    this.devices = model.report.devices.filter((device) => device.time_line && device.time_line.buckets.length > 0);
    this.plots = [];
    this.element = this.frame();
  }

  // null when the dump has no time line.
  frame() {
    const { el } = culprit;
    if (this.devices.length === 0) return null;
    const events = this.events();
    const section = el("section", { class: "card", id: "time-line", "aria-label": "Time line" },
      el("div", { class: "card-head" },
        el("div", null, el("h2", null, "When"),
          el("p", { class: "quiet" },
            "Bytes that the program had allocated on each GPU, and what happened meanwhile"))));
    for (const device of this.devices) {
      const plot = el("div", { class: "plot", "data-device": device.ordinal });
      section.append(el("h3", { class: "plot-title" }, "GPU " + device.ordinal + " ",
        el("span", { class: "quiet" }, device.name)), plot);
      this.plots.push({ device, plot,
        events: events.filter((one) => one.device === null || one.device === device.ordinal) });
    }
    if (events.length > 0) section.append(this.legend(events));
    // Redrawn when the width changes.
    const observer = new ResizeObserver((entries) => {
      for (const entry of entries) {
        const plot = this.plots.find((one) => one.plot === entry.target);
        const width = Math.round(entry.contentRect.width);
        if (plot && width > 0 && width !== plot.width) this.draw(plot, width);
      }
    });
    for (const { plot } of this.plots) observer.observe(plot);
    return section;
  }

  // Events: throws, failed calls, refused frees, teardowns. Device null: on all.
  events() {
    const events = [], seen = new Map();
    const add = (event) => {
      const key = event.type + event.time + event.text + event.device;
      const known = seen.get(key);
      if (known) {
        if (event.group) known.groups.push(event.group);
        return;
      }
      event.groups = event.group ? [event.group] : [];
      seen.set(key, event);
      events.push(event);
    };
    for (const group of this.model.leaks) {
      for (const evidence of group.evidence) {
        const words = culprit.evidence[evidence.type];
        if (!words || !words.event || !evidence.time_ns) continue;
        // Of several equal events only the first and the last time are known.
        for (const time of new Set([evidence.first_ns || evidence.time_ns, evidence.time_ns]))
          add({ type: evidence.type, time, device: group.device, group, text: evidence.title });
      }
    }
    for (const error of this.model.errors) {
      if (error.first_ns)
        add({ type: "failed-free", time: error.first_ns, device: error.device,
          text: error.type.replace("-", " ") + ": " + error.api });
    }
    return events.sort((a, b) => a.time - b.time);
  }

  legend(events) {
    const { el } = culprit;
    const types = [...new Set(events.map((one) => one.type))];
    return el("div", { class: "legend" },
      el("span", { class: "legend-entry" }, el("i", { class: "swatch peak-swatch" }), "peak"),
      types.map((type) => el("span", { class: "legend-entry" }, el("i", { class: "swatch round cause-" + type }),
        culprit.evidence[type].event)));
  }

  draw(entry, width) {
    entry.width = width;
    const { device, plot } = entry;
    const line = device.time_line;
    const height = 190, left = 64, right = 14, top = 30, bottom = 26;
    const end = Math.max(this.model.report.process.end_time_ns, line.buckets.length * line.bucket_ns, 1);
    // Each bucket is [lowest, highest, last]. The peak may be missing there because of counts that threads had not
    // added yet.
    const points = line.buckets.map(([low, high, last], i) => ({ time: i * line.bucket_ns, low, high, last }));
    const last = points[points.length - 1];
    points.push({ time: end, low: last.last, high: last.last, last: last.last });
    const most = Math.max(line.peak_bytes, d3.max(points, (point) => point.high), 1);
    const x = d3.scaleLinear().domain([0, end]).range([left, width - right]);
    const y = d3.scaleLinear().domain([0, most * 1.08]).range([height - bottom, top]);

    const svg = d3.create("svg").attr("viewBox", [0, 0, width, height]).attr("width", width).attr("height", height)
      .attr("role", "group").attr("aria-label",
        "Bytes in use on GPU " + device.ordinal + ", at most " + culprit.bytes(line.peak_bytes) + " after " +
          culprit.time(line.peak_ns));
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, (most * 1.08) / 4)));
    const ticks = d3.range(0, most * 1.08, step);
    svg.append("g").attr("class", "grid").selectAll("line").data(ticks).enter().append("line")
      .attr("x1", left).attr("x2", width - right).attr("y1", y).attr("y2", y);
    const axis = (name) => svg.append("g").attr("class", name).attr("aria-hidden", "true").selectAll("text");
    axis("axis").data(ticks).enter().append("text")
      .attr("x", left - 8).attr("y", (tick) => y(tick) + 4).attr("text-anchor", "end")
      .text((tick) => (tick === 0 ? "0" : culprit.bytes(tick)));
    const times = x.ticks(Math.max(2, Math.floor(width / 130)));
    axis("axis times").data(times).enter().append("text")
      .attr("x", x).attr("y", height - 8)
      .attr("text-anchor", (time) => (time === 0 ? "start" : x(time) > width - 50 ? "end" : "middle"))
      .text((time) => (time === 0 ? "first CUDA call" : culprit.time(time)));

    const area = (low, high) => d3.area().curve(d3.curveStepAfter).x((point) => x(point.time)).y0(low).y1(high)(points);
    svg.append("path").attr("class", "use-low").attr("d", area(y(0), (point) => y(point.low)));
    svg.append("path").attr("class", "use-range").attr("d", area((point) => y(point.low), (point) => y(point.high)));
    svg.append("path").attr("class", "use-line")
      .attr("d", d3.line().curve(d3.curveStepAfter).x((point) => x(point.time)).y((point) => y(point.high))(points));

    if (line.peak_bytes > 0) {
      const at = x(Math.min(line.peak_ns, end));
      const peak = svg.append("g").attr("class", "peak");
      peak.append("line").attr("x1", at).attr("x2", at).attr("y1", y(line.peak_bytes)).attr("y2", height - bottom);
      peak.append("circle").attr("cx", at).attr("cy", y(line.peak_bytes)).attr("r", 4.5);
      peak.append("text").attr("x", at + (at > width - 190 ? -9 : 9)).attr("y", y(line.peak_bytes) - 7)
        .attr("text-anchor", at > width - 190 ? "end" : "start")
        .text("peak " + culprit.bytes(line.peak_bytes) + " at " + culprit.time(line.peak_ns));
    }
    this.drawMarks(svg, x, top, height - bottom, width - right);
    this.drawEvents(svg, entry.events, x, height - bottom);
    this.watch(svg, points, x, y, { left, right: width - right, top, bottom: height - bottom });
    plot.replaceChildren(svg.node());
    culprit.leaveOutOverlapping(plot.querySelectorAll(".times text"));
  }

  // Marks that the program set (culprit.h): a line at the first time of each, with its name where there is room.
  drawMarks(svg, x, top, bottom, right) {
    const group = svg.append("g").attr("class", "marks");
    let free = 0;
    for (const mark of this.model.report.marks || []) {
      if (mark.kind === "range") continue;
      const at = x(mark.first_ns);
      const line = group.append("line").attr("class", "mark-line").attr("x1", at).attr("x2", at).attr("y1", top - 6)
        .attr("y2", bottom);
      line.append("title").text(mark.name + " at " + culprit.time(mark.first_ns) +
        (mark.count > 1 ? ", " + culprit.plural(mark.count, "time", "times") : ""));
      const width = 7 * mark.name.length + 12;
      if (at < free || at + width > right) continue;
      group.append("text").attr("x", at + 4).attr("y", top - 8).text(mark.name);
      free = at + width;
    }
  }

  // Dots on the axis; overlapping events share a dot.
  drawEvents(svg, events, x, y) {
    const dots = [];
    for (const event of events) {
      const near = dots.find((dot) => dot.type === event.type && Math.abs(dot.x - x(event.time)) < 7);
      if (near) near.events.push(event);
      else dots.push({ x: x(event.time), type: event.type, events: [event] });
    }
    const choose = (dot) => { if (dot.events[0].groups[0]) this.choose(dot.events[0].groups[0]); };
    const dot = svg.append("g").attr("class", "events").selectAll("circle").data(dots).enter().append("circle")
      .attr("class", (one) => "event cause-" + one.type).attr("cx", (one) => one.x).attr("cy", y)
      .attr("r", (one) => Math.min(9, 4 + Math.log2(one.events.length))).attr("tabindex", 0).attr("role", "button")
      .attr("aria-label", (one) => this.describe(one).join(", "));
    dot.each((one, i, nodes) => {
      const show = () => {
        const box = nodes[i].getBoundingClientRect();
        culprit.tooltip.show(box.left, box.bottom, this.describe(one));
      };
      nodes[i].addEventListener("pointerenter", show);
      nodes[i].addEventListener("focus", show);
      nodes[i].addEventListener("pointerleave", culprit.tooltip.hide);
      nodes[i].addEventListener("blur", culprit.tooltip.hide);
      nodes[i].addEventListener("click", () => choose(one));
      nodes[i].addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        // The leak gets the focus: the key must not press its button too.
        event.preventDefault();
        choose(one);
      });
    });
  }

  describe(dot) {
    const lines = [culprit.plural(dot.events.length, "event", "events") + " at " + culprit.time(dot.events[0].time)];
    for (const event of dot.events.slice(0, 4)) {
      const bytes = d3.sum(event.groups, (group) => group.bytes);
      lines.push(event.text + (bytes > 0 ? ": left " + culprit.bytes(bytes) : ""));
    }
    if (dot.events.length > 4) lines.push("and " + culprit.number(dot.events.length - 4) + " more");
    return lines;
  }

  // The value under the pointer.
  watch(svg, points, x, y, box) {
    const rule = svg.append("line").attr("class", "rule").attr("y1", box.top).attr("y2", box.bottom)
      .attr("visibility", "hidden");
    const cover = svg.insert("rect", ".events").attr("class", "cover").attr("x", box.left).attr("y", box.top)
      .attr("width", Math.max(0, box.right - box.left)).attr("height", box.bottom - box.top);
    const find = d3.bisector((point) => point.time).right;
    cover.node().addEventListener("pointermove", (event) => {
      const at = event.clientX - svg.node().getBoundingClientRect().left;
      const time = x.invert(at);
      const point = points[Math.max(0, find(points, time) - 1)];
      rule.attr("x1", at).attr("x2", at).attr("visibility", "visible");
      const use = point.low === point.high
        ? culprit.bytes(point.high)
        : culprit.bytes(point.low) + " to " + culprit.bytes(point.high);
      culprit.tooltip.show(event.clientX, event.clientY, [use, "at " + culprit.time(time)]);
    });
    cover.node().addEventListener("pointerleave", () => {
      rule.attr("visibility", "hidden");
      culprit.tooltip.hide();
    });
  }
};
