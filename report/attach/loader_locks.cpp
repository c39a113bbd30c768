#include "report/attach/loader_locks.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "report/attach/remote_symbols.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

constexpr std::uint64_t kMostBytes = 8192;     // of _rtld_global: 4,336 in glibc 2.36
constexpr std::uint64_t kMostNamespaces = 16;  // DL_NNS
constexpr std::uint64_t kMostLoaded = 1 << 24;

bool is_recursive_mutex(const pthread_mutex_t& mutex) {
  return mutex.__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP && mutex.__data.__list.__prev == nullptr &&
         mutex.__data.__list.__next == nullptr;
}

}  // namespace

std::uint32_t own_number(const TracedProcess& process, pid_t thread) {
  const std::uint32_t number = innermost_number(process.thread(thread));
  return number != 0 ? number : static_cast<std::uint32_t>(thread);
}

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

// glibc's struct rtld_global has, in every version, one behind the other: the number of name spaces, two recursive
// mutexes (three from 2.34 on), of which the first is the one of loading, and the count of loaded libraries.
// interpose/loader/loader_count.cpp finds them in the same way from inside.
LoadingLock::LoadingLock(const TracedProcess& process, const std::vector<MappedRange>& mappings) {
  const MappedRange* loader = find_loader(process, mappings);
  const std::uint64_t begin = loader == nullptr ? 0 : RemoteSymbols(process, loader->begin).variable("_rtld_global");
  if (begin == 0) return;
  std::vector<std::uint64_t> words;
  for (const MappedRange& range : loader_data(process, mappings)) {
    if (!range.contains(begin)) continue;
    words.resize(std::min(range.end - begin, kMostBytes) / sizeof(words[0]));
    if (!process.read_memory(begin, words.data(), words.size() * sizeof(words[0]))) return;
  }
  constexpr std::size_t kMutexWords = sizeof(pthread_mutex_t) / sizeof(std::uint64_t);
  for (std::size_t at = 2 + 4 * kMutexWords; at < words.size(); ++at) {
    if (words[at] == 0 || words[at] > kMostLoaded) continue;
    std::size_t first = at;
    for (int mutexes = 0; mutexes < 3; ++mutexes) {
      pthread_mutex_t mutex;
      std::memcpy(&mutex, &words[first - kMutexWords], sizeof(mutex));
      if (!is_recursive_mutex(mutex)) break;
      first -= kMutexWords;
    }
    if (at - first < 2 * kMutexWords || words[first - 1] < 1 || words[first - 1] > kMostNamespaces) continue;
    address_ = begin + first * sizeof(words[0]);
    added_at_ = begin + at * sizeof(words[0]);
    return;
  }
}

std::optional<LoadingLock::State> LoadingLock::read(const TracedProcess& process) const {
  pthread_mutex_t mutex;
  State state;
  if (address_ == 0 || !process.read_memory(address_, &mutex, sizeof(mutex)) ||
      !process.read_memory(added_at_, &state.added, sizeof(state.added)))
    return std::nullopt;
  state.word = static_cast<std::uint32_t>(mutex.__data.__lock);
  state.owner = static_cast<std::uint32_t>(mutex.__data.__owner);
  return state;
}

pid_t LoadingLock::owner(const TracedProcess& process) const {
  const std::optional<State> state = read(process);
  if (!state || state->word == 0 || state->owner == 0) return 0;
  // Mostly both number it alike.
  const auto same = static_cast<pid_t>(state->owner);
  if (innermost_number(process.thread(same)) == state->owner) return same;
  for (const pid_t thread : process.threads()) {
    if (own_number(process, thread) == state->owner) return thread;
  }
  return 0;
}

}  // namespace culprit::report
