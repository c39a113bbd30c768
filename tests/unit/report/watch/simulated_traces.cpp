#include "simulated_traces.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <utility>

namespace culprit::report {
namespace {

constexpr double kForEver = std::numeric_limits<double>::infinity();
constexpr double kMiB = 1 << 20;

// One allocation: seconds, and bytes or objects.
struct Life {
  double born;
  double dies;
  double size;
};

struct Pause {
  double begin;
  double end;
};

class Program {
 public:
  Program(std::uint64_t seed, Ranges ranges) : random_(seed), wide_(ranges == Ranges::kWide) {}

  // From a range, or from a wider one around it.
  double in(double low, double high) {
    if (wide_) {
      low /= 1.5;
      high *= 1.5;
    }
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  // Not widened: a share of the time.
  double share(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  double exponential(double mean) { return std::exponential_distribution<double>(1 / mean)(random_); }
  bool one_in(double count) { return share(0, count) < 1; }
  bool is_wide() const { return wide_; }

  void allocate(double born, double lives, double size) { lives_.push_back({born, born + lives, size}); }

  // Allocations at random moments, `count` of them.
  void at_random(double begin, double end, double count, const std::function<void(double)>& make) {
    const double distance = (end - begin) / count;
    for (double time = begin + exponential(distance); time < end; time += exponential(distance)) make(time);
  }
  // Memory of a few seconds, again and again.
  void churn(double seconds, double count, double size, double lives) {
    at_random(0, seconds, count, [&](double time) { allocate(time, exponential(lives), size * share(0.5, 1.5)); });
  }
  // A container that grows and is emptied: all of it dies at once. Without a regular period each one has its own.
  void saw_tooth(double seconds, double period, double top, bool regular) {
    for (double begin = -share(0, period); begin < seconds;) {
      const double length = regular ? period : period * share(0.5, 1.5);
      constexpr int kSteps = 60;
      for (int i = 0; i < kSteps; ++i) {
        const double time = begin + length * i / kSteps;
        if (time >= 0) allocate(time, begin + length - time, top / kSteps);
      }
      begin += length;
    }
  }
  // Slower and slower, until nothing new comes.
  void cache_that_fills(double seconds, double time_constant, double top) {
    constexpr int kEntries = 300;
    for (int i = 0; i < kEntries; ++i) {
      const double time = exponential(time_constant);
      if (time < seconds) allocate(time, kForEver, top / kEntries);
    }
  }
  // Full at `full`; from then on each new entry takes the place of another one: a random one, or the oldest.
  void cache_with_eviction(double seconds, double full, double top, bool oldest) {
    constexpr std::size_t kEntries = 200;
    std::vector<std::size_t> inside;
    for (double time = 0; time < seconds; time += full / kEntries * share(0.5, 1.5)) {
      if (inside.size() == kEntries) {
        const std::size_t out = oldest ? 0 : static_cast<std::size_t>(share(0, kEntries - 0.01));
        lives_[inside[out]].dies = time;
        inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(out));
      }
      inside.push_back(lives_.size());
      allocate(time, kForEver, top / kEntries);
    }
  }
  // Each batch is larger than the one before, and ends it.
  void growing_batches(double seconds, double lasts, double first, double factor) {
    for (double time = 0; time < seconds; time += lasts)
      allocate(time, lasts * share(0.9, 1.1), first * (1 + (factor - 1) * time / seconds));
  }
  void bursts(double seconds, double count, double size, double lives) {
    at_random(0, seconds, count, [&](double time) {
      for (int i = 0; i < 20; ++i) allocate(time + i, lives * share(0.8, 1.2), size / 20);
    });
  }
  void base(double size) { allocate(-1, kForEver, size); }
  // Recording is off, and begins again.
  void pauses(double seconds, int count) {
    for (int i = 0; i < count; ++i) {
      const double begin = seconds * (i + share(0.2, 0.6)) / count;
      pauses_.push_back({begin, begin + seconds / count * share(0.05, 0.3)});
    }
  }

  History history(double seconds, double every) {
    std::sort(lives_.begin(), lives_.end(), [](const Life& left, const Life& right) { return left.born < right.born; });
    History history;
    bool known = false;
    std::vector<Life> live;
    std::size_t next = 0;
    for (double time = every; time <= seconds; time += every) {
      for (; next < lives_.size() && lives_[next].born <= time; ++next) {
        if (lives_[next].dies > time && !is_off(lives_[next].born)) live.push_back(lives_[next]);
      }
      live.erase(std::remove_if(live.begin(), live.end(), [&](const Life& one) { return one.dies <= time; }),
                 live.end());
      if (is_off(time)) continue;
      const BirthScale scale = history.begin(recorded(time));
      if (!known) history.add_row();
      known = true;
      RowSample sample;
      sample.made = next;
      sample.births.assign(BirthScale::kParts, 0.0F);
      for (const Life& one : live) {
        sample.live += one.size;
        sample.births[scale.part_of(recorded(one.born))] += static_cast<float>(one.size);
      }
      history.set(0, std::move(sample));
      history.end();
    }
    return history;
  }

 private:
  bool is_off(double time) const {
    return std::any_of(pauses_.begin(), pauses_.end(),
                       [&](const Pause& pause) { return time >= pause.begin && time < pause.end; });
  }
  // The time without the pauses before it.
  double recorded(double time) const {
    double result = time;
    for (const Pause& pause : pauses_) result -= std::max(0.0, std::min(time, pause.end) - pause.begin);
    return result;
  }

  std::mt19937_64 random_;
  const bool wide_;
  std::vector<Life> lives_;
  std::vector<Pause> pauses_;
};

// Adds a leak of `count` allocations, from a moment of the warm-up on.
void leak(Program* program, double seconds, double count, double size) {
  program->at_random(seconds * program->share(0, 0.1), seconds, count,
                     [&](double time) { program->allocate(time, kForEver, size); });
}

}  // namespace

Trace simulate(std::size_t kind, std::uint64_t seed, Ranges ranges) {
  Program program(seed * 64 + kind, ranges);
  const double seconds = program.in(1500, 3000);
  const double every = seconds / program.in(250, 1500);
  const double size = std::exp(program.share(std::log(1e3), std::log(1e9)));
  Trace trace;
  trace.leaks = kind < kLeakingKinds;
  switch (kind) {
    case 0:
      trace.name = "leak under churn";
      leak(&program, seconds, program.in(60, 600), size * program.share(0.01, 1));
      program.churn(seconds, program.in(2000, 8000), size, program.in(2, 20));
      break;
    case 1:
      trace.name = "rare leak";
      leak(&program, seconds, program.in(18, 40), size);
      program.churn(seconds, program.in(500, 2000), size, program.in(2, 10));
      break;
    case 2:
      trace.name = "leak under a saw-tooth";
      leak(&program, seconds, program.in(60, 300), size / 100);
      program.saw_tooth(seconds, seconds * program.share(0.02, 0.09), size * program.in(0.3, 4), true);
      break;
    case 3:
      trace.name = "leak beside a cache that fills";
      leak(&program, seconds, program.in(60, 300), size / 100);
      program.cache_that_fills(seconds, seconds * program.share(0.01, 0.06), size * program.in(0.5, 3));
      break;
    case 4:
      trace.name = "leak that comes in clusters";
      program.at_random(0, seconds, program.in(20, 40), [&](double time) {
        for (int i = 0; i < 8; ++i) program.allocate(time + i, kForEver, size * program.share(0.5, 1.5));
      });
      program.churn(seconds, program.in(500, 2000), size, program.in(2, 10));
      break;
    case 5:
      trace.name = "leak beside growing batches";
      leak(&program, seconds, program.in(60, 300), size / 100);
      program.growing_batches(seconds, program.in(2, 20), size, program.in(1.5, 3));
      break;
    case 6:
      trace.name = "leak with pauses of recording";
      leak(&program, seconds, program.in(80, 400), size);
      program.churn(seconds, program.in(500, 2000), size, program.in(2, 10));
      program.pauses(seconds, program.one_in(2) ? 1 : 3);
      break;
    case 7:
      trace.name = "leak above a large base";
      program.base(size * 1e4);
      leak(&program, seconds, program.in(60, 300), size);
      break;
    case 8:
      trace.name = "leak of objects";
      leak(&program, seconds, program.in(30, 400), 1);
      program.churn(seconds, program.in(500, 3000), 1, program.in(1, 30));
      break;
    case 9:
      trace.name = "leak beside bursts";
      leak(&program, seconds, program.in(60, 300), size / 50);
      program.bursts(seconds, program.in(5, 15), size, program.in(5, 40));
      break;
    case 10:
      trace.name = "leak under random saw-teeth";
      leak(&program, seconds, program.in(80, 300), size / 40);
      program.saw_tooth(seconds, seconds * program.share(0.01, 0.03), size, false);
      break;
    case 11:
      trace.name = "saw-tooth";
      program.saw_tooth(seconds, seconds * program.share(0.005, 0.3), size, true);
      break;
    case 12:
      trace.name = "random saw-teeth";
      program.saw_tooth(seconds, seconds * program.share(0.01, 0.25), size, false);
      program.base(size * program.share(0, 1));
      break;
    case 13:
      trace.name = "cache that levels off";
      program.cache_that_fills(seconds, seconds * program.share(0.01, 0.18), size);
      program.churn(seconds, program.in(500, 3000), size / 50, program.in(1, 10));
      break;
    case 14:
      trace.name = "cache with random eviction";
      program.cache_with_eviction(seconds, seconds * program.share(0.02, 0.6), size, false);
      break;
    case 15:
      trace.name = "cache that evicts the oldest";
      program.cache_with_eviction(seconds, seconds * program.share(0.02, 0.6), size, true);
      break;
    case 16:
      trace.name = "growing batches";
      program.growing_batches(seconds, program.in(1, 60), size, program.in(1.5, 6));
      break;
    case 17:
      trace.name = "bursts";
      program.bursts(seconds, program.in(3, 30), size, program.in(5, 120));
      program.churn(seconds, program.in(200, 2000), size / 50, program.in(1, 10));
      break;
    case 18:
      trace.name = "pauses of recording";
      program.churn(seconds, program.in(500, 4000), size, program.in(2, 60));
      program.pauses(seconds, program.one_in(2) ? 1 : 4);
      break;
    case 19:
      trace.name = "long and short lives";
      program.churn(seconds, program.in(500, 4000), size, program.in(2, 10));
      program.churn(seconds, program.in(50, 300), size, program.in(20, 90));
      break;
    case 20:
      trace.name = "late first uses";
      for (int i = 0; i < 12; ++i)
        program.allocate(seconds * std::pow(program.share(0, 1), 3), kForEver, size * program.share(0.5, 1.5));
      program.churn(seconds, program.in(500, 2000), size, program.in(1, 10));
      break;
    default:
      trace.name = "epochs of saw-teeth";
      program.saw_tooth(seconds, seconds * program.share(0.1, 0.3), size, true);
      program.saw_tooth(seconds, seconds * program.share(0.01, 0.04), size * program.share(0.1, 0.5), true);
      program.base(size);
      break;
  }
  trace.history = program.history(seconds, every);
  return trace;
}

Trace churn_of_a_gibibyte(double minutes, bool leaks) {
  Program program(1, Ranges::kTuned);
  const double seconds = minutes * 60;
  constexpr double kBuffer = 4 * kMiB;
  for (double time = 0; time < seconds; time += kBuffer / (1024 * kMiB)) program.allocate(time, 0.3, kBuffer);
  for (double time = 60; leaks && time < seconds; time += 60) program.allocate(time, kForEver, kMiB);
  Trace trace;
  trace.name = leaks ? "1 MiB a minute under 1 GiB a second" : "1 GiB a second";
  trace.leaks = leaks;
  trace.history = program.history(seconds, 2);
  return trace;
}

}  // namespace culprit::report
