#include "report/judge/group_merge.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "report/base/parallel.h"
#include "report/cuda/kinds.h"
#include "report/dump/allocation_groups.h"
#include "report/model/causes.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/marks.h"

namespace culprit::report {

using namespace format;

namespace {

template <typename Number>
void append(Number number, std::string* key) {
  key->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// The numbers of the frames, after how many there are, which marks the end of the stack in the key.
void append(const ResolvedStack* stack, std::uint32_t Frame::*number, std::string* key) {
  const std::size_t count = stack == nullptr ? 0 : stack->frames.size();
  append(count, key);
  if (count == 0) return;
  std::size_t at = key->size();
  key->resize(at + count * sizeof(std::uint32_t));
  for (const Frame* frame : stack->frames) {
    std::memcpy(key->data() + at, &(frame->*number), sizeof(std::uint32_t));
    at += sizeof(std::uint32_t);
  }
}

std::string key_of(const Evidence& evidence) {
  std::string key = '\0' + std::string(evidence_name(evidence.type)) + '\0' + cause_name(evidence.points_to) + '\0' +
                    evidence.api + '\0' + evidence.code_name + '\0' + evidence.exception + '\0';
  for (bool flag : {evidence.uncaught, evidence.forced, evidence.rethrown, evidence.ambiguous, evidence.injected}) {
    key += flag ? '1' : '0';
  }
  if (evidence.owner != nullptr) key += evidence.owner->function;
  if (evidence.variable != nullptr) {
    const Module* module = evidence.variable->module;
    key += '\0' + (module != nullptr ? module->path : std::string()) + '\0' + evidence.variable->name +
           std::to_string(evidence.variable->begin);
  }
  key += '\0';
  for (const ResolvedStack* stack : {evidence.stack, evidence.caught}) append(stack, &Frame::place, &key);
  return key;
}

// Adds the missing elements; true when there were any.
bool unite(const std::vector<Ref>& from, std::vector<Ref>* into) {
  const std::size_t before = into->size();
  for (Ref ref : from) {
    if (std::find(into->begin(), into->end(), ref) == into->end()) into->push_back(ref);
  }
  return into->size() != before;
}

void merge(const Evidence& from, Evidence* into) {
  into->indirectly += from.indirectly;
  // Equal throws and failed calls are one record with a count, whichever allocations refer to it.
  if (from.records.empty() || unite(from.records, &into->records)) into->count += from.count;
  into->time_ns = std::max(into->time_ns, from.time_ns);
  if (from.first_ns != 0 && (into->first_ns == 0 || from.first_ns < into->first_ns)) into->first_ns = from.first_ns;
}

void merge(const Group& from, Group* into) {
  into->bytes += from.bytes;
  into->count += from.count;
  into->ended_bytes += from.ended_bytes;
  into->first_ns = std::min(into->first_ns, from.first_ns);
  into->last_ns = std::max(into->last_ns, from.last_ns);
  if (unite(from.stacks, &into->stacks)) {
    into->made += from.made;
    into->freed += from.freed;
  }
  into->region_bytes += from.region_bytes;
  merge_names(from.names, &into->names);
  merge_names(from.region_names, &into->region_names);
  merge_heaps(from.heaps, &into->heaps);
  into->mappings += from.mappings;
  into->handle_references += from.handle_references;
  for (const ThreadInfo& thread : from.threads) {
    const bool known = std::any_of(into->threads.begin(), into->threads.end(),
                                   [&](const ThreadInfo& other) { return other.tid == thread.tid; });
    if (!known) into->threads.push_back(thread);
  }
  merge_marks(from.marks, &into->marks);
  into->each.insert(into->each.end(), from.each.begin(), from.each.end());
  for (std::uint64_t handle : from.handles) {
    if (into->handles.size() < AllocationGroup::kListed) into->handles.push_back(handle);
  }
  for (std::size_t i = 0; i < into->evidence.size(); ++i) merge(from.evidence[i], &into->evidence[i]);
}

}  // namespace

std::string merge_key(const Group& group) {
  // A report of many stacks needs a key for each of them, so its parts are appended and not made into texts.
  std::string key;
  key.reserve(64 + group.api.size() + group.library.size() + group.stack->frames.size() * sizeof(std::uint32_t));
  append(group.kind, &key);
  append(group.device.has_value(), &key);
  append(group.device.value_or(0), &key);
  key.append(group.api).append(1, '\0').append(group.library).append(1, '\0');
  append(group.stack, &Frame::code, &key);
  for (const Evidence& evidence : group.evidence) key += key_of(evidence);
  return key;
}

void merge_same_place(std::vector<Group>* groups) {
  std::vector<std::string> keys(groups->size());
  parallel_for(groups->size(), [&](std::size_t i) { keys[i] = merge_key((*groups)[i]); });
  std::unordered_map<std::string_view, std::size_t> index;
  index.reserve(groups->size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < groups->size(); ++i) {
    const auto [at, added] = index.emplace(keys[i], kept);
    if (!added) {
      merge((*groups)[i], &(*groups)[at->second]);
      continue;
    }
    if (i != kept) (*groups)[kept] = std::move((*groups)[i]);
    ++kept;
  }
  groups->erase(groups->begin() + static_cast<std::ptrdiff_t>(kept), groups->end());
}

}  // namespace culprit::report
