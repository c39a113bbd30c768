// The data of the page (report/render/html/render_html.cpp) as the scripts use it.
"use strict";

// The words of causes and evidence, by name (report/model/causes.def); the causes in the order of the bar of causes.
Object.assign(culprit, JSON.parse(document.getElementById("causes").textContent));

culprit.causeTitle = function (cause, mayBeFreed) {
  const words = culprit.causes[cause];
  return words ? (mayBeFreed ? words.running : words.title) : cause;
};

// One process's report: the members of the data, with stacks as lists of frames.
culprit.Model = class extends culprit.Frames {
  constructor(report, strict) {
    super(report);
    this.report = report;
    this.strict = strict;
    this.program = report.process.exe;
    this.mayBeFreed = report.may_be_freed;
    const adopt = (list, groups) =>
      groups.map((group, index) => {
        group.list = list;
        group.index = index;
        group.where = group.at === null ? this.frame(group.stack[0]) : this.frame(group.stack[group.at]);
        return group;
      });
    const leaks = adopt("leaks", report.leaks);
    this.leaks = leaks.filter((group) => group.counted);
    this.cached = leaks.filter((group) => !group.counted);
    this.library = adopt("library", report.library);
    this.resources = adopt("resources", report.resources);
    this.errors = report.errors.map((error, index) => {
      error.list = "errors";
      error.index = index;
      error.where = error.at === null || error.at === undefined ? undefined : this.frame(error.stack[error.at]);
      return error;
    });
    this.deviceNames = new Map(report.devices.map((device) => [device.ordinal, device.name]));
    this.buildIds = new Map((report.modules || []).map((module) => [module.path, module.build_id]));
  }

  // The title of the list of leaks; of a killed process it may have memory of both kinds.
  listTitle() {
    return this.mayBeFreed && this.report.totals_by_words.length < 2 ? this.report.verb : "Leaks";
  }

  // All entries that can be opened and linked to.
  all() {
    return [...this.leaks, ...this.cached, ...this.library, ...this.resources];
  }

  static device(group) {
    const host = group.kind === "pinned-host" || group.kind === "registered-host";
    if (!host && group.devices && group.devices.length > 1) return group.devices.length + " GPUs";
    if (host || group.device === null) return "host";
    return "GPU " + group.device;
  }

  // The library or program that allocated: that of the group's naming frame.
  static library(group) {
    if (group.library) return group.library;
    if (!group.where) return "(not recorded)";
    return group.in || "(unknown)";
  }

  // A function that tells whether a group has all words of a search.
  finder(words) {
    return super.finder(words, (group) => this.text(group), (group) => [group.stack]);
  }

  // The text that a search looks through besides the stack, in lower case. Made once for each group.
  text(group) {
    if (group.text === undefined) {
      const parts = [group.anchor, group.api, group.kind, group.cause, culprit.Model.device(group), group.pool,
        group.library];
      for (const evidence of group.evidence || [])
        parts.push(evidence.exception, evidence.what, evidence.api, evidence.code_name, evidence.symbol);
      for (const share of group.marks || []) parts.push(share.mark, share.range);
      for (const thread of group.threads || []) parts.push(thread.name, String(thread.tid));
      for (const thread of group.thread_names || []) parts.push(thread.name);
      parts.push(group.type, group.code_name);
      group.text = parts.filter(Boolean).join("\n").toLowerCase();
    }
    return group.text;
  }
};
