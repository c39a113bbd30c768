#include "report/attach/loader_locks.h"

#include <pthread.h>

#include <cstdint>
#include <cstdlib>

#include "report/attach/remote_symbols.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

// The thread's number in the innermost PID namespace: the one that it knows.
std::uint32_t own_number(const TracedProcess& process, pid_t thread) {
  const std::string numbers = process.folder().thread(static_cast<std::uint32_t>(thread)).status("NSpid");
  const std::size_t last = numbers.find_last_of(" \t");
  const unsigned long number = std::strtoul(numbers.c_str() + (last == std::string::npos ? 0 : last), nullptr, 10);
  return number != 0 ? static_cast<std::uint32_t>(number) : static_cast<std::uint32_t>(thread);
}

}  // namespace

const MappedRange* find_loader(const std::vector<MappedRange>& mappings) {
  return find_loaded(mappings, {"ld-linux", "ld-2."});
}

std::vector<MappedRange> loader_data(const std::vector<MappedRange>& mappings) {
  std::vector<MappedRange> data;
  for (const MappedRange& range : mappings) {
    if (range.writable && (range.file_begins_with("ld-linux") || range.file_begins_with("ld-2.")))
      data.push_back(range);
  }
  return data;
}

std::optional<r_debug> loader_state(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  const MappedRange* loader = find_loader(mappings);
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
