#include "report/attach/loader_locks.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "report/attach/remote_symbols.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

std::uint32_t own_number(const TracedProcess& process, pid_t thread) {
  const std::uint32_t number = innermost_number(process.thread(thread));
  return number != 0 ? number : static_cast<std::uint32_t>(thread);
}

}  // namespace

const MappedRange* find_loader(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  // The kernel tells no address where the loader itself was started, with the program as its argument.
  const std::uint64_t begin = process.auxiliary_value(AT_BASE);
  const auto found = std::find_if(mappings.begin(), mappings.end(),
                                  [&](const MappedRange& range) { return begin != 0 && range.begin == begin; });
  return found != mappings.end() ? &*found : find_loaded(mappings, {"ld-linux", "ld-2."});
}

std::vector<MappedRange> loader_data(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  std::vector<MappedRange> data;
  const MappedRange* loader = find_loader(process, mappings);
  for (const MappedRange& range : mappings) {
    if (loader != nullptr && range.writable && range.path == loader->path) data.push_back(range);
  }
  return data;
}

std::optional<r_debug> loader_state(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  const MappedRange* loader = find_loader(process, mappings);
  const std::uint64_t place = loader == nullptr ? 0 : RemoteSymbols(process, loader->begin).variable("_r_debug");
  r_debug state = {};
  if (place == 0 || !process.read_memory(place, &state, sizeof(state))) return std::nullopt;
  return state;
}

bool is_loader_at_work(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  const std::optional<r_debug> state = loader_state(process, mappings);
  return state && state->r_state != r_debug::RT_CONSISTENT;
}

bool owns_loader_lock(const TracedProcess& process, const std::vector<MappedRange>& data, pid_t thread) {
  const std::uint32_t number = own_number(process, thread);
  for (const MappedRange& range : data) {
    std::vector<std::uint32_t> words((range.end - range.begin) / sizeof(std::uint32_t));
    if (!process.read_memory(range.begin, words.data(), words.size() * sizeof(std::uint32_t))) return true;
    // pthread_mutex_t: lock, count, owner, number of users, kind. The number of a thread in a container is as small as
    // many other words, so all of it counts.
    for (std::size_t i = 2; i + 2 < words.size(); ++i) {
      if (words[i] == number && words[i - 2] != 0 && words[i - 1] != 0 && words[i + 1] == 1 &&
          words[i + 2] == PTHREAD_MUTEX_RECURSIVE_NP)
        return true;
    }
  }
  return false;
}

}  // namespace culprit::report
