#include "report/attach/loaded_list.h"

#include <algorithm>

#include "report/attach/loader_locks.h"

namespace culprit::report {
namespace {

constexpr int kMostLibraries = 20000;  // a list that is read while it changes may lead anywhere
constexpr std::size_t kMostOfPath = 4096;
constexpr std::size_t kPart = 64;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// The file name of a path in the process's memory; empty when it cannot be read.
std::string file_name_at(const TracedProcess& process, std::uint64_t address) {
  std::string path;
  char part[kPart];
  while (path.size() < kMostOfPath) {
    // The parts end with a page at the latest, since the next one may not be readable.
    const std::uint64_t at = address + path.size();
    const std::size_t size = kPart - at % kPart;
    if (!process.read_memory(at, part, size)) return {};
    const auto* end = std::find(part, part + size, '\0');
    path.append(part, static_cast<std::size_t>(end - part));
    if (end != part + size) return path.substr(path.rfind('/') + 1);
  }
  return {};
}

}  // namespace

LoadedList::LoadedList(const TracedProcess& process, const std::vector<MappedRange>& mappings) : process_(process) {
  const std::optional<r_debug> state = loader_state(process, mappings);
  std::uint64_t next = state ? address_of(state->r_map) : 0;
  for (int count = 0; next != 0; ++count) {
    if (count == kMostLibraries || !process.read_memory(next, &last_, sizeof(last_))) {
      last_at_ = 0;
      sections_.clear();
      return;
    }
    last_at_ = next;
    sections_.push_back(address_of(last_.l_ld));
    next = address_of(last_.l_next);
  }
}

std::optional<bool> LoadedList::has_added(const std::string& name) const {
  link_map now = {};
  if (last_at_ == 0 || !process_.read_memory(last_at_, &now, sizeof(now))) return std::nullopt;
  // The last one may have been unloaded.
  if (now.l_addr != last_.l_addr || now.l_name != last_.l_name || now.l_ld != last_.l_ld || now.l_prev != last_.l_prev)
    return std::nullopt;
  for (int count = 0; now.l_next != nullptr; ++count) {
    if (count == kMostLibraries || !process_.read_memory(address_of(now.l_next), &now, sizeof(now)))
      return std::nullopt;
    if (file_name_at(process_, address_of(now.l_name)).compare(0, name.size(), name) == 0) return true;
  }
  return false;
}

}  // namespace culprit::report
