#include "report/judge/notes.h"

#include <algorithm>
#include <set>

#include "report/base/words.h"
#include "report/judge/python_caches.h"
#include "report/judge/python_unseen.h"
#include "report/model/frame_rules.h"
#include "report/model/pool.h"
#include "report/model/report.h"
#include "report/model/stacks.h"

namespace culprit::report {

using namespace format;

namespace {

// Adds a note that memory may have been lost to exceptions in modules whose exceptions are not recorded.
void add_unseen_throws(Report* report) {
  std::set<std::string> told;
  for (const Group& group : report->leaks) {
    if (group.cause != Cause::kNeverFreed && group.cause != Cause::kLost && group.cause != Cause::kContextTeardown)
      continue;
    for (const Frame* frame : group.stack->frames) {
      if (frame->module == nullptr || !frame->module->own_unwinder || is_system_code(*frame)) continue;
      if (!told.insert(frame->module->path).second) continue;
      report->notes.push_back("exceptions that " + frame->module->name +
                              " throws could not be observed, because it has a C++ runtime of its own inside: link it "
                              "without -static-libgcc to see which of its leaks an exception left behind");
    }
  }
}

// A note on the facts that are not known because recording began with an attach.
std::string attach_note(const Header& header) {
  if (header.attached == Attached::kNo) return {};
  const bool throws = (header.attach_flags & kAttachSeesThrows) != 0;
  return std::string("attached while the process ran: ") +
         (throws ? "NVTX ranges are not seen" : "exceptions and NVTX ranges are not seen with this back end");
}

bool has_cache_without_view(const Report& report) {
  const std::vector<CacheTotal>& caches = report.summary.caches;
  return report.caches_inside.empty() && std::any_of(caches.begin(), caches.end(), [](const CacheTotal& cache) {
           return cache.pool != nullptr && tells_from_inside(cache.pool->name);
         });
}

}  // namespace

void add_notes(const Header& header, const StackResolver& stacks, bool without_view, Report* report) {
  std::vector<std::string>& notes = report->notes;
  report->caches_unseen = has_cache_without_view(*report) ? 1 : 0;
  // With CULPRIT_PYTHON=0 no interpreter is looked for before the end.
  const bool has_python = header.python_version != 0 || base_name(report->process.executable).rfind("python", 0) == 0;
  report->python_ends_unseen = has_python && header.view_state != PythonViewState::kLoaded ? 1 : 0;
  if (report->process.status.is_over())
    report->python_unseen = why_python_is_unseen(header, without_view && report->caches_unseen != 0);
  if (!report->process.status.note.empty()) notes.push_back(report->process.status.note);
  const std::string python = python_lines_note(header);
  if (!python.empty()) notes.push_back(python);
  if (header.view_failures != 0) {
    notes.push_back("what lives inside the caches of Python's frameworks is not completely known: " +
                    plural(header.view_failures, "look inside failed", "looks inside failed"));
  }
  const std::string attached = attach_note(header);
  if (!attached.empty()) notes.push_back(attached);
  for (const std::string& note : stacks.notes()) notes.push_back(note);
  if (report->dropped_marks != 0) {
    notes.push_back(std::to_string(report->dropped_marks) +
                    " times a mark or an NVTX range found no room: use fewer different names");
  }
  if (report->dropped.reused_stacks != 0) {
    notes.push_back(
        plural(report->dropped.reused_stacks, "stack", "stacks") + " with " +
        plural(report->dropped.reused_calls, "call", "calls") +
        " and no live allocation made room for new ones: a stack that came back counts its calls from then on");
  }
  if (report->dropped_mark_sums != 0) {
    notes.push_back("at " + plural(report->dropped_mark_sums, "mark", "marks") +
                    " the live memory could not be kept: no room in the dump, no memory, or a signal handler");
  }
  for (const MarkBound* bound : {&report->since_mark, &report->before_mark}) {
    if (!bound->asked.empty() && !bound->time_ns)
      notes.push_back("this process has no mark \"" + bound->asked + "\": all its memory counts");
  }
  add_unseen_throws(report);
  const bool truncated = std::any_of(report->leaks.begin(), report->leaks.end(),
                                     [](const Group& group) { return group.stack->truncated && !group.stack->merged; });
  if (truncated) notes.push_back("some stacks are deeper than was recorded: raise CULPRIT_DEPTH (culprit run --depth)");
}

}  // namespace culprit::report
