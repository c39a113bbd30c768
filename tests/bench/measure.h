// The common part of the benchmark programs: arguments, stacks of a given depth, timed rounds, output.
//
//   PROGRAM ROW[,ROW...] [--scale F] [--rounds N] [--threads N] [--live N] [--turns N]
//
// A program prints one line "row=value" for each row: the median over its rounds, in nanoseconds per call unless the
// row is about another unit. With --turns it prints N such lines for each row, one after each line that it reads, so
// that several programs can take turns every few milliseconds. bench.py decides which sides are compared, and how
// often.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct Options {
  std::vector<std::string> rows;
  double scale = 1;  // scales the number of calls in a round: smaller for slow tools
  int rounds = 7;    // the number of timed rounds; one more comes first, untimed
  int threads = 16;  // for the rows with several threads
  long live = 0;     // allocations that are live, for the rows that ask for it
  int turns = 0;     // output lines per row, instead of rounds; 0 = none
  long calls = 0;    // exactly so many calls, in a single round: for counting instructions
};

// Ends the program with exit code 2 and a usage line when it cannot understand the arguments.
Options parse_options(int argc, char** argv);

// Ends the program with exit code 3 and a message unless `code`, a CUresult or cudaError_t, is 0.
void check(int code, const char* what);

// Calls `body` below kOuterFrames frames of different functions, so that its CUDA calls have stacks of 25 to 40 frames.
constexpr int kOuterFrames = 26;
void deep(const std::function<void()>& body);

// deep() with six more frames, in one of 64 combinations: these functions have the same frame sizes, so only their
// return addresses tell the 64 stacks apart. `path` chooses.
constexpr int kPaths = 64;
void along_path(unsigned path, const std::function<void()>& body);

// Times `round(calls)` and prints the median of nanoseconds a call. `between` runs untimed after each round.
void measure(const Options& options, const std::string& row, long calls, const std::function<void(long)>& round,
             const std::function<void()>& between = {});

// measure() on several threads at once: `body(thread, calls)` is called on each thread, and all begin together. The
// time of a round is that of the slowest thread, so the printed value is nanoseconds per call and thread. With
// `one_too`, and without --turns, one thread makes the calls alone just before each round, and a line "row_against_1"
// says how much longer the round took: the median of these ratios, because processors of a shared host differ from one
// moment to the next.
void measure_threads(const Options& options, const std::string& row, int threads, long calls,
                     const std::function<void(int thread, long calls)>& body, bool one_too = false);

void print(const std::string& row, double value);

// A line of /proc/self/status in bytes ("RssAnon").
double status_bytes(const char* name);

}  // namespace bench
