#include "report/attach/word_search.h"

#include <algorithm>
#include <memory>

namespace culprit::report {
namespace {

constexpr std::size_t kBlockBytes = 256 * 1024;
constexpr std::size_t kWordsAtOnce = 64;

}  // namespace

WordSearch::WordSearch(const TracedProcess& process, std::uint64_t address) : process_(process) {
  const auto search = std::make_unique<format::AddressSearch>();
  if (!process.read_memory(address, search.get(), sizeof(*search)) ||
      search->address_count > format::kMostSearchedAddresses || search->left_out_count > format::kMostLeftOut)
    throw AttachError("the libculprit.so in " + process.name() + " cannot be asked for the driver's addresses");
  addresses_.assign(search->addresses, search->addresses + search->address_count);
  std::sort(addresses_.begin(), addresses_.end());
  for (std::uint32_t i = 0; i < search->left_out_count; ++i)
    left_out_.push_back({search->left_out[i].begin & ~(kPageBytes - 1),
                         (search->left_out[i].end + kPageBytes - 1) & ~(kPageBytes - 1)});
  std::sort(left_out_.begin(), left_out_.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
}

// The writable private memory, without the modules that may know the driver.
std::vector<AddressRange> WordSearch::parts() const {
  std::vector<AddressRange> result;
  for (const MappedRange& range : process_.mappings()) {
    const bool device = range.path.compare(0, 5, "/dev/") == 0 && range.path.compare(0, 9, "/dev/shm/") != 0 &&
                        range.path != "/dev/zero";
    if (!range.writable || !range.readable || range.shared || device) continue;
    std::uint64_t begin = range.begin;
    for (const AddressRange& out : left_out_) {
      if (out.end <= begin || out.begin >= range.end) continue;
      if (out.begin > begin) result.push_back({begin, out.begin});
      begin = std::min(out.end, range.end);
    }
    if (begin < range.end) result.push_back({begin, range.end});
  }
  return result;
}

void WordSearch::scan(const std::uint64_t* words, std::size_t count, std::uint64_t address,
                      std::vector<std::uint64_t>* places) const {
  const std::uint64_t least = addresses_.front();
  const std::uint64_t span = addresses_.back() - least;
  for (std::size_t from = 0; from < count; from += kWordsAtOnce) {
    const std::size_t to = std::min(count, from + kWordsAtOnce);
    bool any = false;  // without a branch for each word
    for (std::size_t i = from; i < to; ++i) any |= words[i] - least <= span;
    if (!any) continue;
    for (std::size_t i = from; i < to; ++i) {
      if (words[i] - least <= span && std::binary_search(addresses_.begin(), addresses_.end(), words[i]))
        places->push_back(address + i * sizeof(std::uint64_t));
    }
  }
}

// Calls leave addresses on stacks all the time, also on those of threads that have ended, and on the recorder's own. A
// mapping is taken for a stack when a thread is in it, or when it lies above a guard page and is no arena of malloc.
std::uint64_t WordSearch::count_beside_stacks(const std::vector<std::uint64_t>& places) const {
  constexpr std::uint64_t kArenaBytes = 64 << 20;
  std::vector<std::uint64_t> pointers;
  for (const pid_t thread : process_.threads())
    pointers.push_back(process_.thread(thread).current_call().stack_pointer);
  std::vector<AddressRange> stacks;
  std::uint64_t guard_end = 0;
  for (const MappedRange& range : process_.mappings()) {
    const bool guard = !range.readable && !range.writable && !range.executable;
    const bool guarded = range.begin == guard_end && range.inode == 0 && range.begin % kArenaBytes != 0;
    const bool used =
        std::any_of(pointers.begin(), pointers.end(), [&](std::uint64_t each) { return range.contains(each); });
    if (range.path == "[stack]" || guarded || used) stacks.push_back({range.begin, range.end});
    if (guard) guard_end = range.end;
  }
  return static_cast<std::uint64_t>(std::count_if(places.begin(), places.end(), [&](std::uint64_t place) {
    return std::none_of(stacks.begin(), stacks.end(),
                        [&](const AddressRange& part) { return place >= part.begin && place < part.end; });
  }));
}

FoundWords WordSearch::look(const std::function<bool(std::uint64_t, std::uint64_t)>& goes_on) const {
  FoundWords found;
  if (addresses_.empty()) return found;
  const WrittenPages written = written_pages(process_, parts(), [&] { return goes_on(0, 0); });
  std::uint64_t total = written.unseen_bytes;
  for (const AddressRange& part : written.ranges) total += part.end - part.begin;
  found.unread_bytes = written.unseen_bytes;
  std::vector<std::uint64_t> block(kBlockBytes / sizeof(std::uint64_t));
  std::uint64_t done = 0;
  for (const AddressRange& part : written.ranges) {
    for (std::uint64_t at = part.begin; at < part.end;) {
      if (!goes_on(done, total)) {
        found.unread_bytes = total - done;
        return found;
      }
      std::size_t bytes = std::min<std::uint64_t>(part.end - at, kBlockBytes);
      // Somewhere in the block memory may be gone: go on in pages.
      if (!process_.read_memory(at, block.data(), bytes)) bytes = kPageBytes;
      if (bytes != kPageBytes || process_.read_memory(at, block.data(), bytes)) {
        scan(block.data(), bytes / sizeof(std::uint64_t), at, &found.places);
        found.read_bytes += bytes;
      }
      at += bytes;
      done += bytes;
    }
  }
  found.beside_stacks = count_beside_stacks(found.places);
  return found;
}

}  // namespace culprit::report
