#include "report/judge.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "report/cuda_names.h"
#include "report/fingerprint.h"
#include "report/kinds.h"
#include "report/library_rules.h"

namespace culprit {

using namespace format;

namespace {

std::optional<unsigned> device_of(std::uint8_t device) {
  if (device == kNoDevice) return std::nullopt;
  return device;
}

std::optional<ThreadInfo> thread_of(const Dump& dump, std::uint32_t index) {
  ThreadRecord record;
  if (!dump.thread(index, &record)) return std::nullopt;
  ThreadInfo info;
  info.tid = record.tid;
  info.name.assign(record.name, ::strnlen(record.name, sizeof(record.name)));
  info.ended = record.state == ThreadState::kEnded;
  return info;
}

// Makes the groups of one report.
class Judge {
 public:
  Judge(const Dump& dump, const StackResolver& stacks, const JudgeOptions& options, Report* report)
      : dump_(dump), stacks_(stacks), options_(options), report_(*report) {}

  // Counts, for every stack, what it made in all and what of that was not freed.
  void read_history(const Tables& tables) {
    auto history = [&](Ref stack) -> History& {
      const auto [at, added] = history_.emplace(stack, History());
      StackView view;
      if (added && dump_.stack(stack, &view)) {
        at->second.made = view.allocations;
        const auto more = tables.calls.by_stack.find(stack);
        if (more != tables.calls.by_stack.end()) at->second.made += more->second;
      }
      return at->second;
    };
    for (const AllocationGroup& group : tables.allocations) history(group.stack).kept += group.count;
    for (const ReleaseRecord& release : tables.releases) history(release.stack).kept += release.count;
  }

  void add(const AllocationGroup& from) {
    Group group = make_group(from.stack, from.kind, from.api, from.device);
    group.bytes = from.bytes;
    group.count = from.count;
    group.first_ns = from.first_ns;
    group.last_ns = from.last_ns;
    group.handles = from.handles;
    group.mappings = from.mappings;
    group.handle_references = from.handle_references;
    for (std::uint32_t thread : from.threads) add_thread(thread, &group);
    if (from.free_failed) add_failed_free(from, &group);
    file(std::move(group), from.not_physical);
  }

  void add(const ReleaseRecord& from) {
    Group group = make_group(from.stack, from.kind, from.api, from.device);
    group.bytes = from.bytes;
    group.count = from.count;
    group.first_ns = from.first_ns;
    group.last_ns = from.last_ns;
    add_thread(from.thread, &group);
    Evidence evidence;
    evidence.points_to = Cause::kContextTeardown;
    evidence.stack = &stacks_.stack(from.teardown_stack);
    evidence.api = api_of(from.teardown_api, *evidence.stack);
    evidence.count = from.count;
    evidence.time_ns = from.teardown_ns;
    group.evidence.push_back(evidence);
    file(std::move(group), false);
  }

  void add(const ErrorRecord& from) {
    ErrorGroup error;
    error.type = from.type;
    error.stack = &stacks_.stack(from.stack);
    error.allocation_stack = &stacks_.stack(from.allocation_stack);
    error.free_stack = &stacks_.stack(from.free_stack);
    error.driver_api = dump_.api_name(from.api);
    error.api = api_of(from.api, *error.stack);
    error.code = from.code;
    error.code_name = cuda_result_name(from.code);
    error.kind = from.kind;
    error.handle = from.handle;
    error.allocation_handle = from.allocation_handle;
    error.bytes = from.bytes;
    error.count = from.count;
    error.first_ns = from.first_ns;
    error.last_ns = from.last_ns;
    error.device = device_of(from.device);
    error.thread = thread_of(dump_, from.thread);
    if (from.free_stack != 0) error.free_thread = thread_of(dump_, from.free_thread);
    report_.errors.push_back(std::move(error));
  }

  // A context that nobody was seen creating (another library made it before recording began) is nobody's to end.
  void add(const ContextRecord& from) {
    if (from.state != ContextState::kAlive || from.thread == kNoIndex) return;
    Group group = make_group(from.stack, from.kind, from.api, from.device);
    group.count = 1;
    group.first_ns = from.created_ns;
    group.last_ns = from.created_ns;
    group.handles.push_back(from.handle);
    add_thread(from.thread, &group);
    file(std::move(group), false);
  }

  void finish() {
    for (std::vector<Group>* groups : {&report_.leaks, &report_.library, &report_.resources}) {
      merge_same_place(groups);
      std::vector<Group*> all;
      for (Group& group : *groups) {
        group.cause = decide_cause(group.evidence);
        all.push_back(&group);
      }
      assign_ids(all);
      std::sort(groups->begin(), groups->end(), [](const Group& left, const Group& right) {
        if (left.bytes != right.bytes) return left.bytes > right.bytes;
        if (left.count != right.count) return left.count > right.count;
        return left.id < right.id;
      });
    }
    std::stable_sort(report_.errors.begin(), report_.errors.end(),
                     [](const ErrorGroup& left, const ErrorGroup& right) { return left.first_ns < right.first_ns; });
    sum_up();
  }

 private:
  std::string api_of(std::uint16_t api, const ResolvedStack& stack) const {
    return stack.runtime_api.empty() ? source_api_name(dump_.api_name(api)) : stack.runtime_api;
  }

  Group make_group(Ref stack, Kind kind, std::uint16_t api, std::uint8_t device) const {
    Group group;
    group.stack = &stacks_.stack(stack);
    group.kind = kind;
    group.driver_api = dump_.api_name(api);
    group.api = api_of(api, *group.stack);
    group.device = device_of(device);
    const auto history = history_.find(stack);
    if (history != history_.end() && history->second.made > history->second.kept) {
      group.made = history->second.made;
      group.freed = history->second.made - history->second.kept;
    }
    if (options_.default_suppressions) group.library = owning_library(*group.stack);
    return group;
  }

  void add_thread(std::uint32_t index, Group* group) const {
    const std::optional<ThreadInfo> thread = thread_of(dump_, index);
    if (thread) group->threads.push_back(*thread);
  }

  // That a free was refused is known even when the table of errors was full.
  void add_failed_free(const AllocationGroup& from, Group* group) const {
    Evidence evidence;
    evidence.points_to = Cause::kFailedFree;
    evidence.stack = &stacks_.stack(0);
    evidence.count = from.count;
    EvidenceRecord known;
    ErrorRecord error;
    if (dump_.evidence(from.evidence, &known) && dump_.error(known.error, &error)) {
      evidence.stack = &stacks_.stack(error.stack);
      evidence.api = api_of(error.api, *evidence.stack);
      evidence.code = error.code;
      evidence.code_name = cuda_result_name(error.code);
      evidence.handle = error.handle;
      evidence.count = error.count;
      evidence.time_ns = error.last_ns;
    }
    group->evidence.push_back(evidence);
  }

  // The CUDA runtime loads its own modules and libraries, and keeps them; a user who loads one calls cudaLibraryLoad...
  static bool is_runtimes_own(const Group& group) {
    if (group.kind != Kind::kModule && group.kind != Kind::kLibrary) return false;
    return group.stack->through_runtime && group.api.rfind("cudaLibraryLoad", 0) != 0;
  }

  void file(Group group, bool not_physical) {
    const KindClass what = kind_class(group.kind);
    if (what == KindClass::kNeverCounted || is_runtimes_own(group)) return;
    if (what == KindClass::kObject || not_physical) {
      group.bytes = 0;
      report_.resources.push_back(std::move(group));
    } else if (!group.library.empty() && !options_.strict) {
      report_.library.push_back(std::move(group));
    } else {
      report_.leaks.push_back(std::move(group));
    }
  }

  // Where a frame stands, as a reader sees it: the line when it is known. A compiler that unrolls a loop or copies a
  // tail makes several addresses of one line.
  static std::string place(const Frame& frame) {
    if (frame.line != 0) return frame.file + ':' + std::to_string(frame.line);
    return std::to_string(frame.offset);
  }

  // One place in the code may have several stacks in the dump: a line has several addresses, a library was unloaded and
  // loaded again, or the frames that differ are hidden ones.
  static void merge_same_place(std::vector<Group>* groups) {
    std::map<std::string, std::size_t> index;
    std::vector<Group> merged;
    for (Group& group : *groups) {
      std::string key = kind_name(group.kind) + '\0' + group.api + '\0' + group.library + '\0' +
                        (group.device ? std::to_string(*group.device) : "-");
      for (const Frame* frame : group.stack->frames) {
        key += '\0' + (frame->module != nullptr ? frame->module->path : std::string()) + '\0' + place(*frame) + '\0' +
               frame->function;
      }
      for (const Evidence& evidence : group.evidence) {
        key += '\0' + std::string(cause_name(evidence.points_to)) + '\0' + evidence.api + '\0' + evidence.code_name;
        for (const Frame* frame : evidence.stack->frames) key += '\0' + place(*frame);
      }
      const auto [at, added] = index.emplace(std::move(key), merged.size());
      if (added) {
        merged.push_back(std::move(group));
      } else {
        merge(group, &merged[at->second]);
      }
    }
    *groups = std::move(merged);
  }

  static void merge(const Group& from, Group* into) {
    into->bytes += from.bytes;
    into->count += from.count;
    into->first_ns = std::min(into->first_ns, from.first_ns);
    into->last_ns = std::max(into->last_ns, from.last_ns);
    into->made += from.made;
    into->freed += from.freed;
    into->mappings += from.mappings;
    into->handle_references += from.handle_references;
    for (const ThreadInfo& thread : from.threads) {
      const bool known = std::any_of(into->threads.begin(), into->threads.end(),
                                     [&](const ThreadInfo& other) { return other.tid == thread.tid; });
      if (!known) into->threads.push_back(thread);
    }
    for (std::uint64_t handle : from.handles) {
      if (into->handles.size() < AllocationGroup::kListed) into->handles.push_back(handle);
    }
    for (std::size_t i = 0; i < into->evidence.size(); ++i) into->evidence[i].count += from.evidence[i].count;
  }

  void sum_up() {
    Summary& summary = report_.summary;
    std::map<std::pair<std::optional<unsigned>, Kind>, Total> totals;
    for (const Group& group : report_.leaks) {
      if (group.cause == Cause::kCached) summary.cached_bytes += group.bytes;
      if (group.cause == Cause::kCached && !options_.strict) continue;
      const bool host = kind_class(group.kind) == KindClass::kHostMemory;
      (host ? summary.leaked_host_bytes : summary.leaked_device_bytes) += group.bytes;
      summary.leaked_bytes += group.bytes;
      summary.leaked_allocations += group.count;
      ++summary.groups;
      Total& total = totals[{host ? std::nullopt : group.device, group.kind}];
      total.device = host ? std::nullopt : group.device;
      total.kind = group.kind;
      total.bytes += group.bytes;
      total.count += group.count;
    }
    for (const auto& [key, total] : totals) summary.totals.push_back(total);
    for (const Group& group : report_.library) {
      summary.library_bytes += group.bytes;
      summary.library_allocations += group.count;
    }
    for (const Group& group : report_.resources) {
      if (group.library.empty()) summary.resources += group.count;
    }
    for (const ErrorGroup& error : report_.errors) summary.errors += error.count;
  }

  struct History {
    std::uint64_t made = 0;
    std::uint64_t kept = 0;
  };

  const Dump& dump_;
  const StackResolver& stacks_;
  const JudgeOptions& options_;
  Report& report_;
  std::unordered_map<Ref, History> history_;
};

}  // namespace

const char* cause_name(Cause cause) {
  switch (cause) {
    case Cause::kCached:
      return "cached";
    case Cause::kFailedFree:
      return "failed-free";
    case Cause::kHeld:
      return "held";
    case Cause::kException:
      return "exception";
    case Cause::kErrorReturn:
      return "error-return";
    case Cause::kContextTeardown:
      return "context-teardown";
    case Cause::kNeverFreed:
      return "never-freed";
  }
  return "never-freed";
}

const char* error_type_name(ErrorType type) {
  switch (type) {
    case ErrorType::kDoubleFree:
      return "double-free";
    case ErrorType::kInvalidFree:
      return "invalid-free";
    case ErrorType::kMismatchedFree:
      return "mismatched-free";
    case ErrorType::kFailedFree:
      return "failed-free";
    case ErrorType::kNone:
      break;
  }
  return "unknown";
}

Tables read_tables(const Dump& dump) {
  return {group_allocations(dump), dump.releases(), dump.errors(), dump.contexts(), dump.call_counts()};
}

std::vector<Ref> stacks_of(const Tables& tables, const Dump& dump) {
  std::vector<Ref> stacks;
  for (const AllocationGroup& group : tables.allocations) {
    stacks.push_back(group.stack);
    EvidenceRecord evidence;
    ErrorRecord error;
    if (dump.evidence(group.evidence, &evidence) && dump.error(evidence.error, &error)) stacks.push_back(error.stack);
  }
  for (const ReleaseRecord& release : tables.releases) {
    stacks.push_back(release.stack);
    stacks.push_back(release.teardown_stack);
  }
  for (const ContextRecord& context : tables.contexts) stacks.push_back(context.stack);
  for (const ErrorRecord& error : tables.errors) {
    for (Ref ref : {error.stack, error.allocation_stack, error.free_stack}) stacks.push_back(ref);
  }
  return stacks;
}

Cause decide_cause(const std::vector<Evidence>& evidence) {
  Cause cause = Cause::kNeverFreed;
  for (const Evidence& one : evidence) cause = std::min(cause, one.points_to);
  return cause;
}

void judge(const Tables& tables, const Dump& dump, const StackResolver& stacks, const JudgeOptions& options,
           Report* report) {
  report->summary.allocations = tables.calls.allocations;
  report->summary.frees = tables.calls.frees;
  Judge work(dump, stacks, options, report);
  work.read_history(tables);
  for (const AllocationGroup& group : tables.allocations) work.add(group);
  for (const ReleaseRecord& release : tables.releases) work.add(release);
  for (const ErrorRecord& error : tables.errors) work.add(error);
  for (const ContextRecord& context : tables.contexts) work.add(context);
  work.finish();
}

}  // namespace culprit
