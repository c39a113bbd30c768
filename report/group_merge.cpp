#include "report/group_merge.h"

#include <algorithm>
#include <unordered_map>

#include "report/allocation_groups.h"
#include "report/kinds.h"

namespace culprit {

using namespace format;

namespace {

// Where a frame stands, as a reader sees it: the line when it is known. A compiler that unrolls a loop or copies a
// tail makes several addresses of one line.
std::string place(const Frame& frame) {
  if (frame.line != 0) return frame.file + ':' + std::to_string(frame.line);
  return std::to_string(frame.offset);
}

// Gives the places of frames numbers, which make short keys: equal numbers are equal places. There are few frames and
// many stacks through them.
class PlaceNumbers {
 public:
  // Appends the places of a stack.
  void add_places(const ResolvedStack* stack, std::string* key) {
    if (stack == nullptr) return;
    for (const Frame* frame : stack->frames) append(numbers_of(frame).place, key);
  }

  // The same with module and function.
  void add_code(const ResolvedStack& stack, std::string* key) {
    for (const Frame* frame : stack.frames) append(numbers_of(frame).code, key);
  }

 private:
  struct Numbers {
    std::uint32_t place;
    std::uint32_t code;
  };

  static void append(std::uint32_t number, std::string* key) {
    key->append(reinterpret_cast<const char*>(&number), sizeof(number));
  }

  const Numbers& numbers_of(const Frame* frame) {
    const auto [at, added] = of_frame_.emplace(frame, Numbers{});
    if (added) {
      const std::string here = place(*frame);
      at->second.place = number('p' + here);
      at->second.code = number('c' + (frame->module != nullptr ? frame->module->path : std::string()) + '\0' + here +
                               '\0' + frame->function);
    }
    return at->second;
  }

  std::uint32_t number(std::string text) {
    return of_text_.emplace(std::move(text), static_cast<std::uint32_t>(of_text_.size())).first->second;
  }

  std::unordered_map<const Frame*, Numbers> of_frame_;
  std::unordered_map<std::string, std::uint32_t> of_text_;
};

std::string key_of(const Evidence& evidence, PlaceNumbers* numbers) {
  std::string key = '\0' + std::string(evidence_name(evidence.type)) + '\0' + cause_name(evidence.points_to) + '\0' +
                    evidence.api + '\0' + evidence.code_name + '\0' + evidence.exception + '\0';
  for (bool flag : {evidence.uncaught, evidence.forced, evidence.rethrown, evidence.ambiguous, evidence.injected}) {
    key += flag ? '1' : '0';
  }
  if (evidence.owner != nullptr) key += evidence.owner->function;
  if (evidence.variable != nullptr) {
    const Module* module = evidence.variable->module;
    key += '\0' + module->path + '\0' + evidence.variable->name + std::to_string(evidence.variable->begin);
  }
  // How many frames there are says where one stack ends.
  for (const ResolvedStack* stack : {evidence.stack, evidence.caught}) {
    key += '\0' + std::to_string(stack == nullptr ? 0 : stack->frames.size()) + '\0';
    numbers->add_places(stack, &key);
  }
  return key;
}

std::string key_of(const Group& group, PlaceNumbers* numbers) {
  std::string key = kind_name(group.kind) + '\0' + group.api + '\0' + group.library + '\0' +
                    (group.device ? std::to_string(*group.device) : "-") + '\0' +
                    std::to_string(group.stack->frames.size()) + '\0';
  numbers->add_code(*group.stack, &key);
  for (const Evidence& evidence : group.evidence) key += key_of(evidence, numbers);
  return key;
}

// Adds what is not there yet; true when anything was.
bool unite(const std::vector<Ref>& from, std::vector<Ref>* into) {
  const std::size_t before = into->size();
  for (Ref ref : from) {
    if (std::find(into->begin(), into->end(), ref) == into->end()) into->push_back(ref);
  }
  return into->size() != before;
}

void merge(const Evidence& from, Evidence* into) {
  // Equal throws and failed calls are one record that counts them all, whichever allocations name it.
  if (from.records.empty() || unite(from.records, &into->records)) into->count += from.count;
  into->time_ns = std::max(into->time_ns, from.time_ns);
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
  for (std::size_t i = 0; i < into->evidence.size(); ++i) merge(from.evidence[i], &into->evidence[i]);
}

}  // namespace

void merge_same_place(std::vector<Group>* groups) {
  PlaceNumbers numbers;
  std::unordered_map<std::string, std::size_t> index;
  std::vector<Group> merged;
  index.reserve(groups->size());
  merged.reserve(groups->size());
  for (Group& group : *groups) {
    const auto [at, added] = index.emplace(key_of(group, &numbers), merged.size());
    if (added) {
      merged.push_back(std::move(group));
    } else {
      merge(group, &merged[at->second]);
    }
  }
  *groups = std::move(merged);
}

}  // namespace culprit
