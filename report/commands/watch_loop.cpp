#include "report/commands/watch_loop.h"

#include <algorithm>

#include "report/base/log.h"
#include "report/base/words.h"
#include "report/dump/dump_reader.h"
#include "report/dump/process_status.h"
#include "report/model/frame_text.h"
#include "report/model/program_frames.h"

namespace culprit::report {
namespace {

using std::chrono::steady_clock;

constexpr double kShortestPause = 0.1;
constexpr double kLongestPause = 5;
constexpr int kShareOfTime = 20;
constexpr std::size_t kFirstJudgement = 30;
constexpr std::size_t kShareOfWindDown = 8;  // of the samples: the last eighth

double seconds_between(steady_clock::time_point begin, steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

std::string where(const WatchedRow& row) {
  const Frame* named = naming_frame(row.stack);
  return named == nullptr ? row.kind : frame_text(*named);
}

}  // namespace

WatchLoop::WatchLoop(const WatchSettings& settings, const SymbolOptions& symbols)
    : settings_(settings),
      symbols_([symbols](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, symbols); }),
      begin_(steady_clock::now()),
      next_judgement_(kFirstJudgement),
      hooks_(settings.exec) {}

std::map<std::string, DeviceAnswer> WatchLoop::new_answers_for(Watched* watched, std::uint32_t pid) const {
  if (watched->told_answer == answer_) return {};
  watched->told_answer = answer_;
  return answers_for(users_, pid);
}

// Where the dump alone names the process, it may be of another machine or PID namespace.
std::vector<CacheBytes> WatchLoop::caches_of(Watched* watched, const Dump& dump, std::uint32_t pid) {
  if (!watched->torch) {
    if (pid == 0 && process_status(dump).ended != Ended::kRunning) return {};
    watched->torch.emplace(static_cast<pid_t>(pid != 0 ? pid : dump.header().pid));
  }
  return watched->torch->read();
}

bool WatchLoop::sample(const std::string& name, const std::string& path, std::uint32_t pid) {
  std::unique_ptr<Watched>& known = watched_[name];
  const bool is_first = known == nullptr;
  if (is_first)
    known = std::make_unique<Watched>([this](std::vector<ModuleSymbols>& modules) { symbols_.look_up(modules); },
                                      settings_.full_stacks);
  Watched& watched = *known;
  if (watched.ended) return false;
  const steady_clock::time_point now = steady_clock::now();
  try {
    const Dump dump = Dump::open(path);
    const std::uint64_t at = watched.clock.now(dump);
    const auto look = watched.process.sample(dump, at, new_answers_for(&watched, pid != 0 ? pid : dump.header().pid),
                                             caches_of(&watched, dump, pid));
    watched.ended = look == WatchedProcess::Look::kEnded;
  } catch (const DumpError& error) {
    if (is_first) {
      watched_.erase(name);
      throw;
    }
    // It is being written, or was removed: another look will tell.
    log::debug(error.what());
  }
  spent_ += steady_clock::now() - now;
  return !watched.ended;
}

// At most once in a second: a question takes the driver's locks.
void WatchLoop::ask() {
  const steady_clock::time_point now = steady_clock::now();
  if (question_.is_open()) {
    if (std::optional<GpuUsers> answer = question_.answer(std::chrono::milliseconds(0))) {
      users_ = std::move(*answer);
      ++answer_;
      next_question_ = now + std::chrono::seconds(1);
    }
  } else if (users_.problem.empty() && now >= next_question_) {
    question_.begin();
  }
}

void WatchLoop::tell(Watched* watched, const JudgedRow& row) {
  if (!watched->told.insert(row.row->id).second) return;
  log::note("LEAKING " + rate_text(*row.row, row.judgement.per_minute) + "  " + row.row->id + "  " +
            printable(where(*row.row)));
  std::string stack;
  for (const Frame* frame : row.row->stack.frames) stack += (stack.empty() ? "" : "\n") + frame_text(*frame);
  const bool objects = row.row->objects;
  hooks_.start({
      {"CULPRIT_WATCH_PID", std::to_string(watched->process.pid())},
      {"CULPRIT_WATCH_ID", row.row->id},
      {"CULPRIT_WATCH_VERDICT", verdict_name(row.judgement.verdict)},
      {"CULPRIT_WATCH_KIND", row.row->kind},
      {"CULPRIT_WATCH_BYTES_PER_MINUTE",
       objects ? "" : std::to_string(static_cast<long long>(row.judgement.per_minute))},
      {"CULPRIT_WATCH_OBJECTS_PER_MINUTE", objects ? std::to_string(row.judgement.per_minute) : ""},
      {"CULPRIT_WATCH_CONFIDENCE", std::to_string(row.judgement.confidence)},
      {"CULPRIT_WATCH_WHERE", where(*row.row)},
      {"CULPRIT_WATCH_STACK", stack},
  });
}

// A row has become LEAKING when two looks in a row say so: each look is one more chance for an error.
void WatchLoop::judge_all() {
  leaking_ = 0;
  for (auto& [name, watched] : watched_) {
    std::set<std::string> now;
    watched->tensors_leak = false;
    for (const JudgedRow& row : watched->process.judge(settings_.least_per_minute)) {
      if (row.judgement.verdict != WatchVerdict::kLeaking) continue;
      now.insert(row.row->id);
      watched->leaks[row.row->id] = {row, watched->process.history().samples()};
      if (watched->suspects.count(row.row->id) == 0) continue;
      tell(watched.get(), row);
      watched->tensors_leak = watched->tensors_leak || row.row->kind == kCacheLive;
    }
    leaking_ += now.size();
    watched->suspects = std::move(now);
  }
}

void WatchLoop::show_progress() {
  std::size_t rows = 0;
  for (const auto& [name, watched] : watched_) rows += watched->process.history().rows().size();
  std::string text = "watching for " + long_time_text(seconds_between(begin_, steady_clock::now()));
  if (settings_.seconds > 0) text += " of " + long_time_text(settings_.seconds);
  progress_.doing(text + ": " + plural(rows, "row", "rows") + ", " + std::to_string(leaking_) +
                  (moments_ < kFirstJudgement ? " leaking (too early)" : " leaking"));
}

std::chrono::milliseconds WatchLoop::pause() {
  ++moments_;
  if (moments_ >= next_judgement_) {
    const steady_clock::time_point begin = steady_clock::now();
    judge_all();
    spent_ += steady_clock::now() - begin;
    look_inside();
    next_judgement_ = moments_ + std::max<std::size_t>(5, moments_ / 10);
  }
  ask();
  hooks_.look();
  show_progress();
  const double by_time = settings_.seconds > 0 ? settings_.seconds / 600 : 1;
  const double wanted =
      settings_.every > 0 ? settings_.every : std::min(kLongestPause, std::max(kShortestPause, by_time));
  const double least = std::chrono::duration<double>(spent_).count() * (kShareOfTime - 1);
  spent_ = {};
  double next = std::max(wanted, least);
  if (settings_.seconds > 0)
    next = std::min(next, std::max(0.001, settings_.seconds - seconds_between(begin_, steady_clock::now())));
  return std::chrono::milliseconds(static_cast<std::int64_t>(next * 1000) + 1);
}

bool WatchLoop::is_over() const {
  return settings_.seconds > 0 && seconds_between(begin_, steady_clock::now()) >= settings_.seconds;
}

// A program that frees at its end all that it leaked before has leaked it.
void WatchLoop::undo_wind_down(const Watched& watched, std::vector<JudgedRow>* rows) {
  const std::size_t samples = watched.process.history().samples();
  for (JudgedRow& row : *rows) {
    const auto leak = watched.leaks.find(row.row->id);
    if (row.judgement.verdict == WatchVerdict::kLeaking || leak == watched.leaks.end()) continue;
    const bool late = samples - leak->second.samples <= std::max(kFirstJudgement, samples / kShareOfWindDown);
    if (late && row.live < leak->second.row.live) row = leak->second.row;
  }
  std::stable_sort(rows->begin(), rows->end(), is_before);
}

// Its time has a limit of its own, and makes the samples no rarer.
void WatchLoop::look_inside() {
  for (auto& [name, watched] : watched_) {
    if (settings_.tensors && watched->tensors_leak && watched->torch) watched->views.look(watched->torch->pid());
  }
}

void WatchLoop::look_inside_at_the_end() {
  for (auto& [name, watched] : watched_) {
    if (!watched->ended && watched->torch) watched->views.look_at_the_end(watched->torch->pid());
  }
}

WatchResult WatchLoop::finish(bool ended) {
  WatchResult result;
  for (auto& [name, watched] : watched_) {
    WatchedRows rows;
    rows.process = &watched->process;
    rows.rows = watched->process.judge(settings_.least_per_minute);
    if (ended || watched->ended) undo_wind_down(*watched, &rows.rows);
    for (const JudgedRow& row : rows.rows) {
      if (row.judgement.verdict == WatchVerdict::kLeaking) tell(watched.get(), row);
    }
    if (watched->views.is_begun()) {
      rows.grown = watched->views.grown();
      rows.grown_seconds = watched->views.seconds();
      rows.grown_problem = watched->views.problem();
    }
    // The segments were watched: the verdict is known.
    if (watched->torch && !watched->torch->problem().empty())
      log::note("the inside of PyTorch's cache was not watched: " + watched->torch->problem());
    for (const std::string& gap : watched->process.gaps()) result.reasons.push_back(gap);
    const std::size_t samples = watched->process.history().samples();
    if (samples == 0) {
      result.reasons.push_back("recording was off: nothing was watched of process " +
                               std::to_string(watched->process.pid()));
    } else if (samples < kLeastTimes) {
      result.reasons.push_back("process " + std::to_string(watched->process.pid()) +
                               " was watched for too short a time: " + plural(samples, "sample", "samples") + ", and " +
                               std::to_string(kLeastTimes) + " are needed");
    } else if (watched->process.left_out() != 0) {
      result.reasons.push_back("process " + std::to_string(watched->process.pid()) +
                               " has more stacks than there is room for");
    }
    result.processes.push_back(std::move(rows));
  }
  hooks_.finish();
  return result;
}

}  // namespace culprit::report
