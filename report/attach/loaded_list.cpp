#include "report/attach/loaded_list.h"

#include <algorithm>

#include "report/attach/loader_locks.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostLibraries = 20000;  // a list that is read while it changes may lead anywhere
constexpr int kMostTries = 10;
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
  if (state) first_ = address_of(state->r_map);
  entries_ = read();
  for (const Entry& entry : entries_) sections_.push_back(entry.section);
  sorted_ = entries_;
  std::sort(sorted_.begin(), sorted_.end());
}

std::vector<LoadedList::Entry> LoadedList::read_known(std::uint64_t* next) const {
  std::vector<std::uint64_t> places;
  for (const Entry& entry : entries_) places.push_back(entry.at);
  std::vector<link_map> nodes(places.size());
  const std::size_t count = process_.read_pieces(places, sizeof(link_map), nodes.data());
  std::vector<Entry> result;
  for (std::size_t i = 0; i < count && places[i] == *next; ++i) {
    if (address_of(nodes[i].l_prev) != (i == 0 ? 0 : places[i - 1])) break;
    result.push_back({places[i], address_of(nodes[i].l_ld), address_of(nodes[i].l_name)});
    *next = address_of(nodes[i].l_next);
  }
  return result;
}

std::vector<LoadedList::Entry> LoadedList::read() const {
  for (int tries = 0; tries < kMostTries; ++tries) {
    std::uint64_t at = first_;
    std::vector<Entry> entries = read_known(&at);
    std::uint64_t before = entries.empty() ? 0 : entries.back().at;
    link_map now = {};
    // An entry that a thread of the process has unloaded meanwhile does not lead back to the one before it: another one
    // does, or its memory is used again.
    while (at != 0 && entries.size() < kMostLibraries && process_.read_memory(at, &now, sizeof(now)) &&
           address_of(now.l_prev) == before) {
      entries.push_back({at, address_of(now.l_ld), address_of(now.l_name)});
      before = at;
      at = address_of(now.l_next);
    }
    if (at == 0) return entries;
  }
  return {};
}

std::optional<bool> LoadedList::has_added(const std::string& name) const {
  const std::vector<Entry> now = read();
  if (entries_.empty() || now.empty()) return std::nullopt;
  return std::any_of(now.begin(), now.end(), [&](const Entry& entry) {
    return !std::binary_search(sorted_.begin(), sorted_.end(), entry) &&
           file_name_at(process_, entry.name).compare(0, name.size(), name) == 0;
  });
}

}  // namespace culprit::report
