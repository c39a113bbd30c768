// The fields of a report: the members at the top of `culprit.report/1`, and of `report` in merged files.
#pragma once

#include <algorithm>

#include "report/fields/run_fields.h"

namespace culprit::report {

inline bool ran_out_of_memory(const Report& report) {
  return std::any_of(report.breakdowns.begin(), report.breakdowns.end(),
                     [](const Breakdown& breakdown) { return breakdown.out_of_memory; });
}

// archive.streamed(NAME, &member, MEANING): a list that may be long. A writer of JSON writes each entry apart.
template <typename Archive>
void fields(Archive& archive, Report* report) {
  const bool is_job = !report->job.empty();
  const auto part = [](Part which) { return [which] { return ShownPart{which}; }; };
  const auto part_if = [&part](bool is_there, Part which) { return shown_if(is_there, part(which)); };
  archive.shown("dump",
                "path of the dump; `\"\"` when the dump is deleted (`culprit run` without `--keep` and `--out`)",
                [&] { return report->dump_path; });
  archive.field("process", &report->process, "see below");
  archive.field("processes", &report->job, "only of a merged job, see below", shown_if(is_job));
  archive.kept("hook_called", &report->hook_called);
  archive.kept("partly_recorded", &report->partly_recorded);
  archive.kept("runs", &report->runs);
  archive.kept("not_joined", &report->not_joined);
#define COUNTER_REPORT(name) archive.kept(#name, &report->name);
#include "interpose/format/counters.def"
  archive.field("devices", &report->devices, "see below");
  archive.field("summary", &report->summary, "see below", part(Part::kSummary));
  archive.kept("live_cached_bytes", &report->live_cached_bytes);
  archive.kept("caches_unseen", &report->caches_unseen);
  archive.kept("python_ends_unseen", &report->python_ends_unseen);
  archive.kept("python_unseen", &report->python_unseen);
  archive.kept("caches_inside", &report->caches_inside);
  archive.kept("ran_out", &report->ran_out);
  archive.field("pictures", &report->breakdowns,
                "only when there are any: the holders of memory at the peak, or when memory ran out",
                shown_if(!report->breakdowns.empty()));
  archive.field("freed_at_end", &report->freed_at_end,
                "only when there is any: memory that was freed only while Python ended, for each device; `--fail-on "
                "freed-at-end`",
                part_if(!report->freed_at_end.empty(), Part::kFreedAtEnd));
  archive.shown("out_of_memory",
                "only when an allocation failed for lack of memory: each failure, explained, see below",
                part_if(ran_out_of_memory(*report), Part::kOutOfMemory));
  archive.field("balances", &report->balances, "only when there are any: what the memory in use is for, see below",
                shown_if(!report->balances.empty()));
  archive.field(
      "bills", &report->call_charges,
      "only when there are any: the calls that made the driver take memory for itself, most bytes first, see below",
      shown_if(!report->call_charges.empty()));
  archive.field("contexts", &report->contexts, "the contexts of the process, see below");
  archive.field(
      "overwritten", &report->overwritten,
      "only when there are any: variables that were assigned anew without a free, most bytes first, see below",
      shown_if(!report->overwritten.empty()));
  archive.kept("sharings", &report->sharings);
  archive.shown(
      "shared",
      "only when there is any: memory that one process exported and another one still had open at its end, see below",
      part_if(!report->shared.empty(), Part::kShared));
  archive.shown(
      "suppressed",
      "only with suppressions that were used: `groups`, `allocations`, `bytes`, `file`, `line`, `suppression`",
      part_if(!report->suppressed.empty(), Part::kSuppressed));
  archive.shown("filtered", "only with filters: `groups`, `allocations`, `bytes` that they hide",
                part_if(report->filtered.has_value(), Part::kFiltered));
  archive.shown("baseline",
                "only with `--baseline`: `file`, `new`, `grown`, `known` (numbers of ids), `gone[]` (ids), `keepers[]` "
                "(new and grown ones of live tensors, with `bytes_before` and `grown_bytes`; only when the baseline "
                "has keepers, in the last report)",
                part_if(report->baseline.has_value(), Part::kBaseline));
  archive.shown("snapshot_ns", "only of a snapshot: the moment that it shows",
                shown_if(report->snapshot_ns != 0, [&] { return report->snapshot_ns; }));
  archive.field("marks", &report->marks, "only when the program set marks", shown_if(!report->marks.empty()));
  archive.shown("marks_with_bytes",
                "only when the program kept what was live at marks: `taken` (how often), `kept[]` (the newest 16, "
                "oldest first): `name`, `number` (which time of this name), `time_ns`, `live_bytes`, "
                "`live_allocations`. `culprit diff --from` has the stacks",
                part_if(!report->marked.empty(), Part::kMarksWithBytes));
  archive.shown("since_mark",
                "only with `--since-mark` and `--before-mark`, which leave a part of the run: `name` as asked, "
                "`number` and `of` (which time of the mark it is, of how many), `time_ns`; all three null: the process "
                "has no such mark, and nothing of it is left out. Of a merged job: the earliest of the processes",
                part_if(!report->since_mark.asked.empty(), Part::kSinceMark));
  archive.shown("before_mark", "", part_if(!report->before_mark.asked.empty(), Part::kBeforeMark));
  archive.shown("recording",
                "only when recording was not on all the time: `state` (`on`, `off`), `share` (a sentence: the share of "
                "the run that the verdict is of; null: `culprit attach` began the recording), `last_switch_ns`, "
                "`process_age_ns`, `spans[]`",
                part_if(!report->recording.spans.empty() || report->recording.off, Part::kRecording));
  archive.field("unseen", &report->unseen, "libraries that called the driver past the hooks");
  archive.field("audit", &report->audit, "only with `culprit run --audit`, see below",
                shown_if(report->audit.state != format::AuditState::kNotAsked));
  archive.kept("dropped", &report->dropped);
  archive.field("holder_search", &report->holder_search, "the search for variables that hold memory, see below");
  archive.shown("findings", "what the report says beside leaks and bad frees: see [below](#finding-findings)",
                part(Part::kFindingList));
  archive.shown("answers",
                "links to [examples/README.md](../examples/README.md#questions-that-people-ask): the answers to the "
                "questions that this report raises",
                part(Part::kAnswers));
  archive.streamed("leaks", &report->leaks, "groups of memory that was never freed, cached groups too");
  archive.streamed("library", &report->library, "groups of memory that known libraries allocated for themselves");
  archive.streamed("resources", &report->resources, "groups of streams, events, contexts, ...");
  archive.streamed("errors", &report->errors, "bad and refused frees");
  archive.streamed("failed_allocations", &report->failed_allocations,
                   "allocations that the driver refused, and other calls that failed for want of memory, summed up by "
                   "call and code, most frequent first: see below");
  archive.streamed("modules", "`path`, `build_id` of each module in the stacks");
  archive.streamed("notes", &report->notes, "sentences");
}

}  // namespace culprit::report
