#include "report/fingerprint.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string_view>

#include "report/kinds.h"

namespace culprit {
namespace {

// FNV-1a: stable over platforms and releases, which std::hash is not.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  std::string hex() const {
    char text[17];
    std::snprintf(text, sizeof(text), "%016" PRIx64, value_);
    return text;
  }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

// "libfoo.so" of "libfoo.so.1.2.3": an update of the library does not make a new leak.
std::string_view unversioned(std::string_view module) {
  const std::size_t so = module.find(".so.");
  return so == std::string_view::npos ? module : module.substr(0, so + 3);
}

// Order in the code: by the frames' places, outermost first, as a reader of the source meets them.
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
  // One stack may leak in several ways: each keeps its id, whichever of the others happened in this run.
  if (group.cause != Cause::kNeverFreed) hash.add(cause_name(group.cause));
  for (const Frame* frame : group.stack->frames) {
    hash.add(frame->function);
    hash.add(frame->module != nullptr ? unversioned(frame->module->name) : std::string_view());
  }
  return hash.hex();
}

void assign_ids(std::vector<Group*> groups) {
  std::map<std::string, std::vector<Group*>> by_fingerprint;
  for (Group* group : groups) by_fingerprint[fingerprint(*group)].push_back(group);
  for (auto& [id, same] : by_fingerprint) {
    std::stable_sort(same.begin(), same.end(),
                     [](const Group* left, const Group* right) { return earlier_in_code(*left, *right); });
    for (std::size_t i = 0; i < same.size(); ++i) {
      Hash hash;
      hash.add(id);
      hash.add(std::to_string(i));
      same[i]->id = i == 0 ? id : hash.hex();
    }
  }
}

}  // namespace culprit
