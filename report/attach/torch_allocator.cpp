#include "report/attach/torch_allocator.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "report/attach/remote_symbols.h"

namespace culprit::report {
namespace {

constexpr char kLibrary[] = "libc10_cuda";
// std::atomic<CUDAAllocator*> c10::cuda::CUDACachingAllocator::allocator
constexpr char kAllocator[] = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";

// Limits, because the memory of another process may have any content.
constexpr std::size_t kMostOfAllocator = std::size_t{256} << 10;
constexpr std::size_t kMostDevices = 64;
constexpr std::uint64_t kMostBefore = 512;  // bytes before the counts: a mutex, and more in later versions
constexpr std::uint64_t kMostGap = 96;
constexpr int kTries = 8;
constexpr std::chrono::seconds kBetweenLooks{1};

// c10::CachingAllocator::Stat, and one for all, small and large blocks each.
struct Stat {
  std::int64_t current, peak, allocated, freed;
};
struct StatArray {
  Stat all, small, large;
};
static_assert(sizeof(StatArray) == 96);

// The members of DeviceStats in their order.
enum Count { kAllocations, kSegments, kActive, kSplit, kAllocatedBytes, kReservedBytes, kCounts1 };
enum LaterCount { kActiveBytes, kSplitBytes, kRequestedBytes, kCounts2 };
struct Counts {
  StatArray first[kCounts1];
  StatArray later[kCounts2];
};

bool adds_up(const StatArray& stat) {
  const auto is_sum = [&](std::int64_t Stat::*field) {
    return stat.all.*field == stat.small.*field + stat.large.*field;
  };
  const auto is_sound = [](const Stat& one) { return one.current >= 0 && one.peak >= one.current; };
  return is_sum(&Stat::current) && is_sum(&Stat::allocated) && is_sum(&Stat::freed) && is_sound(stat.all) &&
         is_sound(stat.small) && is_sound(stat.large);
}

// False also in a moment at which the program changes them.
bool adds_up(const Counts& counts) {
  const auto current = [](const StatArray& stat) { return stat.all.current; };
  return std::all_of(std::begin(counts.first), std::end(counts.first), [](const auto& one) { return adds_up(one); }) &&
         std::all_of(std::begin(counts.later), std::end(counts.later), [](const auto& one) { return adds_up(one); }) &&
         current(counts.first[kAllocatedBytes]) <= current(counts.later[kActiveBytes]) &&
         current(counts.later[kActiveBytes]) + current(counts.later[kSplitBytes]) <=
             current(counts.first[kReservedBytes]) &&
         current(counts.later[kRequestedBytes]) <= current(counts.first[kAllocatedBytes]) &&
         current(counts.first[kAllocations]) <= current(counts.first[kActive]) &&
         (current(counts.first[kSegments]) == 0) == (current(counts.first[kReservedBytes]) == 0);
}

Counts counts_in(const char* bytes, std::uint64_t gap) {
  Counts counts;
  std::memcpy(counts.first, bytes, sizeof(counts.first));
  std::memcpy(counts.later, bytes + sizeof(counts.first) + gap, sizeof(counts.later));
  return counts;
}

// The program may change them meanwhile: several tries.
std::optional<Counts> counts_at(const TracedProcess& process, std::uint64_t address, std::uint64_t gap) {
  std::vector<char> content(sizeof(Counts) + gap);
  for (int tries = 0; tries < kTries; ++tries) {
    if (!process.read_memory(address, content.data(), content.size())) break;
    const Counts counts = counts_in(content.data(), gap);
    if (adds_up(counts)) return counts;
  }
  return std::nullopt;
}

}  // namespace

// Whether these are the addresses of the objects of all devices; notes where the counts lie.
bool TorchAllocator::is_list(const TracedProcess& process, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> objects((end - begin) / sizeof(std::uint64_t));
  if (!process.read_memory(begin, objects.data(), end - begin)) return false;
  std::vector<std::vector<char>> contents;
  for (const std::uint64_t object : objects) {
    std::vector<char> content(kMostBefore + sizeof(Counts) + kMostGap);
    if (object == 0 || object % alignof(std::uint64_t) != 0 ||
        !process.read_memory(object, content.data(), content.size()))
      return false;
    contents.push_back(std::move(content));
  }
  for (Form form; form.begin < kMostBefore; form.begin += sizeof(std::uint64_t)) {
    for (form.gap = 0; form.gap < kMostGap; form.gap += sizeof(std::uint64_t)) {
      bool all = true;
      bool any = false;  // zeros add up, too
      for (const std::vector<char>& content : contents) {
        const Counts counts = counts_in(content.data() + form.begin, form.gap);
        all = all && adds_up(counts);
        any = any || (counts.first[kReservedBytes].all.current != 0 && counts.later[kActiveBytes].all.peak != 0);
      }
      if (!all || !any) continue;
      objects_ = std::move(objects);
      form_ = form;
      return true;
    }
  }
  return false;
}

void TorchAllocator::find(const TracedProcess& process) {
  const std::vector<MappedRange> ranges = process.mappings();
  const auto library = std::find_if(ranges.begin(), ranges.end(), [](const MappedRange& range) {
    return range.offset == 0 && range.file_begins_with(kLibrary);
  });
  if (library == ranges.end()) return;
  std::uint32_t magic = 0;
  if (!process.read_memory(library->begin, &magic, sizeof(magic))) process.explain_refusal(errno);
  const std::uint64_t variable = RemoteSymbols(process, library->begin).variable(kAllocator);
  std::uint64_t allocator = 0;
  if (variable == 0 || !process.read_memory(variable, &allocator, sizeof(allocator)) || allocator == 0) return;
  const auto home =
      std::find_if(ranges.begin(), ranges.end(), [&](const MappedRange& range) { return range.contains(allocator); });
  if (home == ranges.end() || allocator % alignof(std::uint64_t) != 0) return;
  // A library's variables lie in several mappings, one after the other.
  std::uint64_t end_of_home = home->end;
  for (auto next = home + 1; next != ranges.end() && next->begin == end_of_home && next->writable; ++next)
    end_of_home = next->end;
  std::vector<std::uint64_t> words(std::min<std::uint64_t>(end_of_home - allocator, kMostOfAllocator) /
                                   sizeof(std::uint64_t));
  if (!process.read_memory(allocator, words.data(), words.size() * sizeof(words[0]))) return;
  // A std::vector: begin, end, end of its room.
  for (std::size_t i = 0; i + 3 <= words.size(); ++i) {
    const std::uint64_t begin = words[i], end = words[i + 1], room = words[i + 2];
    if (begin == 0 || begin >= end || end > room || (end - begin) % sizeof(std::uint64_t) != 0 ||
        begin % alignof(std::uint64_t) != 0 || room % alignof(std::uint64_t) != 0 ||
        (end - begin) / sizeof(std::uint64_t) > kMostDevices)
      continue;
    if (is_list(process, begin, end)) return;
  }
}

std::vector<CacheBytes> TorchAllocator::read() {
  std::vector<CacheBytes> devices;
  try {
    const TracedProcess process(pid_);
    if (objects_.empty()) {
      const auto now = std::chrono::steady_clock::now();
      if (looked_ && now - *looked_ < kBetweenLooks) return devices;
      looked_ = now;
      problem_.clear();
      find(process);
    }
    for (std::size_t device = 0; device < objects_.size(); ++device) {
      const std::optional<Counts> counts = counts_at(process, objects_[device] + form_.begin, form_.gap);
      if (!counts) {
        objects_.clear();  // another program may be there, by exec: they are looked for again
        return {};
      }
      // A device without a segment so far has no row.
      const Stat& reserved = counts->first[kReservedBytes].all;
      if (reserved.peak == 0 && reserved.allocated == 0) continue;
      const auto bytes = [](const StatArray& stat) { return static_cast<std::uint64_t>(stat.all.current); };
      devices.push_back({static_cast<unsigned>(device), bytes(counts->first[kReservedBytes]),
                         bytes(counts->first[kAllocatedBytes]), bytes(counts->later[kSplitBytes])});
    }
  } catch (const AttachError& error) {
    // A process that has ended is no problem: whoever samples it sees that.
    if (!ProcessFolder("/proc", static_cast<std::uint64_t>(pid_)).has_ended()) problem_ = error.what();
  }
  return devices;
}

}  // namespace culprit::report
