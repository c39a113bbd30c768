// Loops over many equal items on all processors, so that a report of a hundred thousand stacks is made quickly.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace culprit::report {

// For fewer items, threads cost more than they save.
constexpr std::size_t kWorthThreads = 2000;

// How many threads to use for `count` items, the calling one included: at least 1.
inline unsigned threads_for(std::size_t count) {
  constexpr unsigned kMost = 16;
  if (count < kWorthThreads) return 1;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMost);
}

// Calls work() on `threads` threads, the calling one included, and waits for all. Where the system has no room for a
// thread, fewer do the work. Throws what the first of them threw, after all have ended.
template <typename Work>
void run_on_threads(unsigned threads, Work work) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  helpers.reserve(threads);
  try {
    for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(guarded);
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
  }
  guarded();
  for (std::thread& helper : helpers) helper.join();
  if (first) std::rethrow_exception(first);
}

// Calls body(i) for every i below `count`, in any order, on several threads when there are many. `body` must be
// thread-safe. Throws what one of the calls threw; some others may then have been left out.
template <typename Body>
void parallel_for(std::size_t count, Body body) {
  constexpr std::size_t kPart = 256;
  std::atomic<std::size_t> next{0};
  run_on_threads(threads_for(count), [&] {
    for (std::size_t begin = next.fetch_add(kPart); begin < count; begin = next.fetch_add(kPart)) {
      const std::size_t end = std::min(count, begin + kPart);
      for (std::size_t i = begin; i < end; ++i) body(i);
    }
  });
}

// Writes the text that render(i, &text) appends for every i below `count`, in order, to `out`. Each thread calls
// make_render() for a `render` of its own, which may therefore keep a cache. At most a few parts per thread are in
// memory at a time. Throws what one of the threads threw; `out` then ends anywhere.
template <typename MakeRender>
void write_in_order(std::size_t count, std::ostream& out, MakeRender make_render) {
  constexpr std::size_t kPart = 64;
  const unsigned threads = threads_for(count);
  const std::size_t most_waiting = 4 * threads;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::condition_variable written;
  std::map<std::size_t, std::string> waiting;  // finished parts whose turn has not come
  std::vector<std::string> spare;              // written strings, kept for re-use of their memory
  std::size_t turn = 0;
  bool failed = false;  // a part will never come: its thread threw
  const auto write_parts = [&] {
    auto render = make_render();
    std::string text;
    for (std::size_t part = next++; part * kPart < count; part = next++) {
      const std::size_t end = std::min(count, (part + 1) * kPart);
      for (std::size_t i = part * kPart; i < end; ++i) render(i, &text);
      std::unique_lock<std::mutex> lock(mutex);
      // The thread with the part that is next never waits, so there is always progress.
      written.wait(lock, [&] { return failed || part < turn + most_waiting; });
      if (failed) return;
      waiting.emplace(part, std::move(text));
      bool any = false;
      for (auto at = waiting.find(turn); at != waiting.end(); at = waiting.find(turn)) {
        out.write(at->second.data(), static_cast<std::streamsize>(at->second.size()));
        spare.push_back(std::move(at->second));
        waiting.erase(at);
        ++turn;
        any = true;
      }
      if (any) written.notify_all();
      if (!spare.empty()) {
        text = std::move(spare.back());
        spare.pop_back();
      }
      text.clear();
    }
  };
  run_on_threads(threads, [&] {
    try {
      write_parts();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      failed = true;
      written.notify_all();
      throw;
    }
  });
}

}  // namespace culprit::report
