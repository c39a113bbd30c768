#include "report/judge/fingerprint.h"

#include <algorithm>
#include <string_view>

#include "report/base/parallel.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/causes.h"
#include "report/model/frames.h"
#include "report/model/group.h"

namespace culprit::report {
namespace {

// FNV-1a, because std::hash is not stable across platforms and releases.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  std::string hex() const { return hex_id(value_); }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

// "libfoo.so" of "libfoo.so.1.2.3", so that an update of the library keeps the ids.
std::string_view unversioned(std::string_view module) {
  const std::size_t so = module.find(".so.");
  return so == std::string_view::npos ? module : module.substr(0, so + 3);
}

// Order in the code: by the places of the frames, outermost first.
bool earlier_in_code(const Group& left, const Group& right) {
  const auto& a = left.stack->frames;
  const auto& b = right.stack->frames;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const Frame& x = *a[a.size() - 1 - i];
    const Frame& y = *b[b.size() - 1 - i];
    if (x.line != y.line) return x.line < y.line;
    if (x.offset != y.offset) return x.offset < y.offset;
  }
  if (a.size() != b.size()) return a.size() < b.size();
  if (left.device != right.device) return left.device < right.device;
  return left.cause < right.cause;
}

}  // namespace

std::string fingerprint(const Group& group) {
  Hash hash;
  hash.add(kind_name(group.kind));
  hash.add(group.api);
  // One stack may leak for several causes; each has an id of its own, independent of the others in this run.
  if (group.cause != Cause::kNeverFreed) hash.add(cause_name(group.cause));
  for (const Frame* frame : group.stack->frames) {
    hash.add(frame->function);
    // For a Python frame, the file stands in for the library.
    if (frame->python) hash.add(base_name(frame->file));
    hash.add(frame->module != nullptr ? unversioned(frame->module->name) : std::string_view());
  }
  return hash.hex();
}

void assign_ids(std::vector<Group*> groups) {
  struct Entry {
    std::string id;
    Group* group;
  };
  std::vector<Entry> entries(groups.size());
  parallel_for(groups.size(), [&](std::size_t i) { entries[i] = {fingerprint(*groups[i]), groups[i]}; });
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& left, const Entry& right) {
    return left.id != right.id ? left.id < right.id : earlier_in_code(*left.group, *right.group);
  });
  std::size_t same = 0;  // number of groups before this one with its fingerprint
  for (std::size_t i = 0; i < entries.size(); ++i) {
    same = i > 0 && entries[i].id == entries[i - 1].id ? same + 1 : 0;
    if (same == 0) {
      entries[i].group->id = entries[i].id;
      continue;
    }
    Hash hash;
    hash.add(entries[i].id);
    hash.add(std::to_string(same));
    entries[i].group->id = hash.hex();
  }
}

}  // namespace culprit::report
