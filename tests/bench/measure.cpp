#include "tests/bench/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <thread>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::nano>(end - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

[[noreturn]] void usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s ROW[,ROW...] [--scale F] [--rounds N] [--threads N] [--live N] [--calls N] "
               "[--turns N]\n",
               program);
  std::exit(2);
}

long scaled(const Options& options, long calls) {
  if (options.calls > 0) return options.calls;
  return std::max(1L, static_cast<long>(static_cast<double>(calls) * options.scale));
}

// Different functions for each level, as a program has them. They return something that depends on the call below, so
// that no call is the last one of its function.
template <int Level>
__attribute__((noinline)) int descend(const std::function<void()>& body) {
  if constexpr (Level == 0) {
    body();
    return 1;
  } else {
    volatile int here = Level;
    return descend<Level - 1>(body) + here;
  }
}

__attribute__((noinline)) int fork_in_the_road(unsigned path, int level, const std::function<void()>& body);

__attribute__((noinline)) int left(unsigned path, int level, const std::function<void()>& body) {
  return fork_in_the_road(path / 2, level - 1, body) + 1;
}

__attribute__((noinline)) int right(unsigned path, int level, const std::function<void()>& body) {
  return fork_in_the_road(path / 2, level - 1, body) + 2;
}

int fork_in_the_road(unsigned path, int level, const std::function<void()>& body) {
  if (level == 0) {
    body();
    return 1;
  }
  return (path % 2 == 0 ? left(path, level, body) : right(path, level, body)) + 1;
}

volatile int sink;

void wait_for_turn() {
  for (int read = 0; read != '\n';) {
    read = std::getchar();
    if (read != EOF) continue;
    std::fprintf(stderr, "--turns: a line on standard input is a turn, and there is none any more\n");
    std::exit(3);
  }
}

// Nanoseconds per call, over as many rounds as take ten milliseconds. One untimed round comes first, because other
// programs have run since the last turn.
double take_turn(long calls, const std::function<void(long)>& round, const std::function<void()>& between) {
  constexpr double kLeast = 1e7;
  double total = 0;
  long rounds = -1;
  while (total < kLeast) {
    const auto begin = Clock::now();
    round(calls);
    const auto end = Clock::now();
    if (between) between();
    if (++rounds > 0) total += nanoseconds(begin, end);
  }
  return total / static_cast<double>(rounds * calls);
}

// Lets threads begin a round together, and reports when all have ended it.
class Gate {
 public:
  explicit Gate(int threads) : threads_(threads) {}
  void open(std::size_t rounds) {
    const std::lock_guard<std::mutex> guard(mutex_);
    open_ = rounds;
    changed_.notify_all();
  }
  void wait_until_open(std::size_t round) {
    std::unique_lock<std::mutex> guard(mutex_);
    changed_.wait(guard, [&] { return round < open_; });
  }
  void done() {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++done_;
    changed_.notify_all();
  }
  void wait_until_done(std::size_t rounds) {
    std::unique_lock<std::mutex> guard(mutex_);
    changed_.wait(guard, [&] { return done_ >= rounds * static_cast<std::size_t>(threads_); });
  }

 private:
  int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t open_ = 0;
  std::size_t done_ = 0;
};

}  // namespace

Options parse_options(int argc, char** argv) {
  if (argc < 2) usage(argv[0]);
  Options options;
  std::stringstream rows(argv[1]);
  for (std::string row; std::getline(rows, row, ',');) options.rows.push_back(row);
  for (int i = 2; i < argc; i += 2) {
    if (i + 1 >= argc) usage(argv[0]);
    const std::string name = argv[i];
    char* end = nullptr;
    const double value = std::strtod(argv[i + 1], &end);
    if (*end != '\0' || value < 0) usage(argv[0]);
    if (name == "--scale") {
      options.scale = value;
    } else if (name == "--rounds" && value >= 1) {
      options.rounds = static_cast<int>(value);
    } else if (name == "--threads" && value >= 1) {
      options.threads = static_cast<int>(value);
    } else if (name == "--turns" && value >= 1) {
      options.turns = static_cast<int>(value);
    } else if (name == "--live") {
      options.live = static_cast<long>(value);
    } else if (name == "--calls" && value >= 1) {
      options.calls = static_cast<long>(value);
    } else {
      usage(argv[0]);
    }
  }
  return options;
}

void check(int code, const char* what) {
  if (code == 0) return;
  std::fprintf(stderr, "cannot %s: CUDA error %d\n", what, code);
  std::exit(3);
}

void deep(const std::function<void()>& body) { sink = descend<kOuterFrames - 1>(body); }

void along_path(unsigned path, const std::function<void()>& body) { sink = fork_in_the_road(path, 6, body); }

void measure(const Options& options, const std::string& row, long calls, const std::function<void(long)>& round,
             const std::function<void()>& between) {
  calls = scaled(options, calls);
  std::vector<double> results;
  const int rounds = options.calls > 0 ? 1 : options.rounds;
  if (options.turns > 0) {
    deep([&] {
      for (int turn = 0; turn < options.turns; ++turn) {
        wait_for_turn();
        print(row, take_turn(calls, round, between));
      }
    });
    return;
  }
  deep([&] {
    for (int i = options.calls > 0 ? 1 : 0; i <= rounds; ++i) {
      const auto begin = Clock::now();
      round(calls);
      const auto end = Clock::now();
      if (between) between();
      if (i > 0) results.push_back(nanoseconds(begin, end) / static_cast<double>(calls));
    }
  });
  print(row, median(results));
}

void measure_threads(const Options& options, const std::string& row, int threads, long calls,
                     const std::function<void(int thread, long calls)>& body, bool one_too) {
  calls = scaled(options, calls);
  const bool in_turns = options.turns > 0;
  // With one_too, the even rounds are those of a single thread.
  const std::size_t steps = one_too && !in_turns ? 2 : 1;
  const auto is_alone = [&](std::size_t round) { return steps == 2 && round % 2 == 0; };
  std::vector<std::vector<double>> times(static_cast<std::size_t>(threads));
  std::vector<std::atomic<int>> arrived(static_cast<std::size_t>(in_turns ? options.turns : options.rounds) * steps);
  Gate gate(threads);
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      deep([&] {
        for (std::size_t i = 0; i < arrived.size(); ++i) {
          gate.wait_until_open(i);
          double time = 0;
          const int together = is_alone(i) ? 1 : threads;
          if (thread < together) {
            if (in_turns || i < steps) body(thread, calls);  // untimed: other programs ran since the last turn
            // Spinning, because threads that a condition variable wakes begin one after the other.
            arrived[i].fetch_add(1);
            while (arrived[i].load() < together) std::this_thread::yield();
            const auto begin = Clock::now();
            body(thread, calls);
            time = nanoseconds(begin, Clock::now());
          }
          times[static_cast<std::size_t>(thread)].push_back(time);
          gate.done();
        }
      });
    });
  }
  std::vector<double> results;
  std::vector<double> against_one;
  double one = 0;
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    if (in_turns) wait_for_turn();
    gate.open(i + 1);
    gate.wait_until_done(i + 1);
    double slowest = 0;
    for (const std::vector<double>& of_thread : times) slowest = std::max(slowest, of_thread[i]);
    if (is_alone(i)) {
      one = slowest;
      continue;
    }
    results.push_back(slowest / static_cast<double>(calls));
    if (steps == 2) against_one.push_back(slowest / one);
    if (in_turns) print(row, results.back());
  }
  for (std::thread& worker : workers) worker.join();
  if (in_turns) return;
  print(row, median(results));
  if (steps == 2) print(row + "_against_1", median(against_one));
}

void print(const std::string& row, double value) {
  std::printf("%s=%.3f\n", row.c_str(), value);
  std::fflush(stdout);
}

double status_bytes(const char* name) {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  double kilobytes = 0;
  const std::size_t length = std::strlen(name);
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::strncmp(line, name, length) == 0 && line[length] == ':') kilobytes = std::atof(line + length + 1);
  }
  if (file != nullptr) std::fclose(file);
  return kilobytes * 1024;
}

}  // namespace bench
