#include "report/merge/merge_facts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "report/cuda/kinds.h"
#include "report/model/causes.h"
#include "report/model/frame_order.h"
#include "report/model/names.h"

namespace culprit::report {
namespace {

// Of two texts one that says something, and of two of those always the same.
const std::string& earlier_text(const std::string& left, const std::string& right) {
  if (left.empty() || right.empty()) return left.empty() ? right : left;
  return std::min(left, right);
}

// One that was read says more.
auto order(const Variable& variable) {
  return std::make_tuple(!variable.typed, variable.path.empty(), std::cref(variable.path), variable.steps);
}

// Of two that are the same variable.
bool says_more(const Variable* left, const Variable* right) {
  if (left == right || left == nullptr) return false;
  return right == nullptr || order(*left) < order(*right);
}

auto order(const Outside& outside) {
  return std::make_tuple(outside.api.empty(), std::cref(outside.api), std::cref(outside.place), outside.bytes);
}

void merge(const Evidence& from, Evidence* into) {
  into->count += from.count;
  into->time_ns = std::max(into->time_ns, from.time_ns);
  into->what = earlier_text(into->what, from.what);
  into->code = std::min(into->code, from.code);
  into->handle = std::min(into->handle, from.handle);
  into->offset = std::min(into->offset, from.offset);
  into->bytes = std::max(into->bytes, from.bytes);
  into->indirectly += from.indirectly;
  into->middle = into->middle || from.middle;
  into->yields = into->yields || from.yields;
  into->path = earlier_text(into->path, from.path);
  into->stack = earlier(into->stack, from.stack);
  into->caught = earlier(into->caught, from.caught);
  into->owner = earlier(into->owner, from.owner);
  if (says_more(from.variable, into->variable)) into->variable = from.variable;
}

void merge(const std::vector<ThreadSum>& from, std::vector<ThreadSum>* into) {
  for (const ThreadSum& sum : from) {
    const auto known =
        std::find_if(into->begin(), into->end(), [&](const ThreadSum& other) { return other.name == sum.name; });
    if (known == into->end()) {
      into->push_back(sum);
      continue;
    }
    known->threads += sum.threads;
    known->ended += sum.ended;
    known->processes += sum.processes;
  }
}

void append(const ResolvedStack* stack, std::string* key) {
  *key += '\0' + std::to_string(stack == nullptr ? 0 : stack->frames.size());
  if (stack == nullptr) return;
  for (const Frame* frame : stack->frames) {
    *key += '\0' + (frame->module != nullptr ? frame->module->path : std::string()) + '\0' + frame->function + '\0' +
            frame->file + '\0' + std::to_string(frame->line != 0 ? frame->line : frame->offset);
  }
}

// Keeps the reading with the least free bytes.
void merge(const format::MemoryReading& from, format::MemoryReading* into) {
  auto rank = [](const format::MemoryReading& reading) {
    return std::make_tuple(reading.total_bytes == 0, reading.free_bytes, reading.time_ns);
  };
  if (rank(from) < rank(*into)) *into = from;
}

}  // namespace

std::vector<ThreadSum> sums_of(const std::vector<ThreadInfo>& threads) {
  std::map<std::string, ThreadSum> sums;
  for (const ThreadInfo& thread : threads) {
    ThreadSum& sum = sums[thread.name];
    sum.name = thread.name;
    ++sum.threads;
    sum.ended += thread.ended ? 1 : 0;
    sum.processes = 1;
  }
  std::vector<ThreadSum> list;
  list.reserve(sums.size());
  for (auto& [name, sum] : sums) list.push_back(std::move(sum));
  return list;
}

void merge(Group&& from, Group* into) {
  into->bytes += from.bytes;
  into->count += from.count;
  into->ended_bytes += from.ended_bytes;
  into->first_ns = std::min(into->first_ns, from.first_ns);
  into->last_ns = std::max(into->last_ns, from.last_ns);
  into->made += from.made;
  into->freed += from.freed;
  into->region_bytes += from.region_bytes;
  merge_names(from.names, &into->names);
  merge_names(from.region_names, &into->region_names);
  merge_heaps(from.heaps, &into->heaps);
  into->mappings += from.mappings;
  into->handle_references += from.handle_references;
  into->driver_api = std::min(into->driver_api, from.driver_api);
  into->cause = std::min(into->cause, from.cause);
  if (into->pool == nullptr) into->pool = from.pool;
  if (order(from.outside) < order(into->outside)) into->outside = from.outside;
  into->stack = earlier(into->stack, from.stack);
  into->shares.insert(into->shares.end(), from.shares.begin(), from.shares.end());
  merge_marks(from.marks, &into->marks);
  merge(from.thread_sums, &into->thread_sums);
  into->devices.insert(into->devices.end(), from.devices.begin(), from.devices.end());
  for (std::size_t i = 0; i < into->evidence.size(); ++i) merge(from.evidence[i], &into->evidence[i]);
}

void merge(const ErrorGroup& from, ErrorGroup* into) {
  into->count += from.count;
  into->api = std::min(into->api, from.api);
  into->handle = std::min(into->handle, from.handle);
  into->allocation_handle = std::min(into->allocation_handle, from.allocation_handle);
  into->bytes = std::max(into->bytes, from.bytes);
  into->first_ns = std::min(into->first_ns, from.first_ns);
  into->last_ns = std::max(into->last_ns, from.last_ns);
  if (into->device != from.device) into->device.reset();
  into->stack = earlier(into->stack, from.stack);
  into->allocation_stack = earlier(into->allocation_stack, from.allocation_stack);
  into->free_stack = earlier(into->free_stack, from.free_stack);
}

std::string error_key(const ErrorGroup& error) {
  std::string key = std::string(error_type_name(error.type)) + '\0' + error.driver_api + '\0' +
                    std::to_string(error.code) + '\0' + std::to_string(static_cast<int>(error.kind));
  for (const ResolvedStack* stack : {error.stack, error.allocation_stack, error.free_stack}) append(stack, &key);
  return key;
}

std::string content_of(const Group& group) {
  std::string content = kind_name(group.kind) + '\0' + group.api + '\0' + group.library;
  append(group.stack, &content);
  for (const Evidence& evidence : group.evidence) {
    content += '\0' + std::string(evidence_name(evidence.type)) + '\0' + cause_name(evidence.points_to) + '\0' +
               evidence.api + '\0' + evidence.code_name + '\0' + evidence.exception + '\0';
    for (const bool flag :
         {evidence.uncaught, evidence.forced, evidence.rethrown, evidence.ambiguous, evidence.injected}) {
      content += flag ? '1' : '0';
    }
    if (evidence.owner != nullptr) content += evidence.owner->function;
    if (const Variable* variable = evidence.variable; variable != nullptr) {
      content += '\0' + (variable->module != nullptr ? variable->module->path : std::string()) + '\0' + variable->name +
                 std::to_string(variable->begin);
    }
    append(evidence.stack, &content);
    append(evidence.caught, &content);
  }
  return content;
}

void merge(const DeviceInfo& from, DeviceInfo* into) {
  into->ordinal = std::min(into->ordinal, from.ordinal);
  into->name = earlier_text(into->name, from.name);
  into->mig = into->mig || from.mig;
  merge(from.first, &into->first);
  merge(from.peak, &into->peak);
  merge(from.exit, &into->exit);
  into->live_bytes += from.live_bytes;
  into->peak_live_bytes = std::max(into->peak_live_bytes, from.peak_live_bytes);
  into->pool_known = into->pool_known || from.pool_known;
  into->pool_reserved = std::max(into->pool_reserved, from.pool_reserved);
  into->pool_used = std::max(into->pool_used, from.pool_used);
}

Ended worse(Ended left, Ended right) {
  for (const Ended ended : {Ended::kRunning, Ended::kKilled, Ended::kUnknown}) {
    if (left == ended || right == ended) return ended;
  }
  return Ended::kExit;
}

format::HolderSearch worse(format::HolderSearch left, format::HolderSearch right) {
  using format::HolderSearch;
  for (const HolderSearch state : {HolderSearch::kNotRun, HolderSearch::kStopped, HolderSearch::kOff}) {
    if (left == state || right == state) return state;
  }
  return HolderSearch::kDone;
}

format::HeapSearch worse(format::HeapSearch left, format::HeapSearch right) {
  using format::HeapSearch;
  for (const HeapSearch state : {HeapSearch::kNotRun, HeapSearch::kStopped}) {
    if (left == state || right == state) return state;
  }
  return HeapSearch::kDone;
}

void merge_bound(const MarkBound& from, MarkBound* into) {
  const auto order = [](const MarkBound& bound) {
    return std::make_tuple(!bound.time_ns.has_value(), bound.time_ns.value_or(0), std::cref(bound.name), bound.number,
                           bound.count);
  };
  if (order(from) < order(*into)) *into = from;
  if (into->asked.empty()) *into = from;
}

format::LostSearch worse(format::LostSearch left, format::LostSearch right) {
  if (left == format::LostSearch::kDone || right == format::LostSearch::kDone)
    return left == format::LostSearch::kDone ? right : left;
  return std::min(left, right);
}

bool says_more(const RunRecord& left, const RunRecord& right) {
  const auto order = [](const RunRecord& run) {
    return std::make_tuple(!run.problem.empty(), !run.ended, ~run.dumps.size(), ~run.without_dump.size(),
                           std::cref(run.problem), std::cref(run.failure), std::cref(run.lives_on));
  };
  return order(left) < order(right);
}

}  // namespace culprit::report
