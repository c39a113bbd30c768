#include "report/attach/step_caller.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "report/attach/hurry.h"
#include "report/attach/loader_locks.h"
#include "report/attach/other_threads.h"
#include "report/attach/program_kind.h"
#include "report/attach/remote_symbols.h"
#include "report/attach/result_words.h"
#include "report/attach/seccomp_filters.h"
#include "report/attach/stage.h"
#include "report/attach/target_limits.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatienceForLoader{5};       // with a borrowed thread
constexpr milliseconds kLongestWaitForLoader{100};  // without one
constexpr int kMostFailures = 5;

milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

}  // namespace

void StepCaller::tell_facts() {
  facts_->longest_stop = std::max(longest_stop_, choice_.longest_stop());
  facts_->repeated_calls = choice_.repeated_calls();
  facts_->cut_calls = choice_.cut_calls();
  std::strncpy(facts_->cut_call, choice_.cut_call().c_str(), sizeof(facts_->cut_call) - 1);
}

void StepCaller::find_functions() {
  function_ = order_.what == Injection::kTensors ? "culprit_tensors_v8"
              : order_.what == Injection::kScan  ? "culprit_scan_v8"
              : attaches() && !undoing_          ? "culprit_attach_v8"
                                                 : "culprit_detach_v8";
  const std::vector<MappedRange> mappings = process_.mappings();
  const MappedRange* library = find_loaded(mappings, {"libculprit.so"});
  is_loaded_ = library != nullptr;
  if (!is_loaded_) return;
  const RemoteSymbols symbols(process_, library->begin);
  function_at_ = symbols.function(function_);
  if (function_at_ == 0 && !symbols.is_empty()) return;
  fault_table_ = read_fault_table(symbols.variable("culprit_faults"));
  const std::uint64_t place = symbols.variable("culprit_prepared");
  std::uint64_t prepared = 0;
  if (process_.read_memory(place, &prepared, sizeof(prepared)) && prepared == format::kPrepared) return;
  throw StillStarting("libculprit.so is loaded in " + process_.name() +
                      " in part: another attach is at work, or the process was forked by one into which culprit was "
                      "loading it. Nothing was changed; try again later, or restart the program under culprit run");
}

std::vector<format::FaultEntry> StepCaller::read_fault_table(std::uint64_t place) const {
  std::uint64_t bounds[2] = {};
  if (place == 0 || !process_.read_memory(place, bounds, sizeof(bounds)) || bounds[1] < bounds[0]) return {};
  const std::uint64_t bytes = std::min<std::uint64_t>(bounds[1] - bounds[0], kMostOfFaultTable);
  std::vector<format::FaultEntry> table(bytes / sizeof(format::FaultEntry));
  if (!process_.read_memory(bounds[0], table.data(), table.size() * sizeof(table[0]))) return {};
  return table;
}

format::AttachRequest StepCaller::step(AttachStep step, const Places& places) {
  const Deadline end = after(order_.limit);
  // A detach leaves such a call's memory to the next attach.
  const Deadline drained = attaches() ? end : after(milliseconds(1000));
  for (int loads = 0;;) {
    const format::AttachRequest answer = borrow(step, places);
    if (std::exchange(loaded_now_, false) && !interrupted()) {
      if (++loads > 1 && std::chrono::steady_clock::now() > end) throw replaced_all_the_time();
      continue;
    }
    const bool again = (answer.result == AttachResult::kLoading && std::chrono::steady_clock::now() < end) ||
                       (answer.result == AttachResult::kBusy && std::chrono::steady_clock::now() < drained);
    if (!again && answer.result == AttachResult::kLoading && !unsafe_.empty()) throw unsafe_error();
    if (!again || interrupted()) return answer;
    waiter_.pause(milliseconds(20));
  }
}

AttachError StepCaller::unsafe_error() const {
  return AttachError("no moment was found at which all threads of " + process_.name() +
                     " could be stopped together (last: " + unsafe_ +
                     "): nothing was changed; try again, or with a longer --timeout");
}

bool StepCaller::stops_all(AttachStep step) const {
  return order_.what == Injection::kScan && step == AttachStep::kBegin;
}

format::AttachRequest StepCaller::ask_alone(HijackedThread* hijacked, const ChosenThread& borrowed, AttachStep step,
                                            std::size_t room) {
  OtherThreads others(process_, hijacked->thread(), choice_.finder(), &waiter_);
  others.note_borrowed(*hijacked, borrowed.stack_floor);
  const auto begin = std::chrono::steady_clock::now();
  format::AttachRequest answer = order_.request;
  answer.result = AttachResult::kLoading;
  const bool stopped = others.stop_all();
  unsafe_ = others.where();
  if (stopped) {
    const Places words = others.words();
    if (words.size() > room) return answer;
    answer = ask(hijacked, step, words);
  }
  facts_->stopped_threads = others.count() + 1;
  longest_stop_ = std::max<std::chrono::nanoseconds>(longest_stop_, std::chrono::steady_clock::now() - begin);
  return answer;
}

format::AttachRequest StepCaller::borrow(AttachStep step, const Places& places) {
  deadline_ = after(order_.limit);
  const Hurry hurry;
  const ChosenThread chosen = stop_thread();
  if (chosen.thread == 0) {
    facts_->interrupted = waiter_.interrupted();
    return order_.request;
  }
  begin_stage("having a thread make a call");
  HijackedThread hijacked(process_, chosen.thread, libc_.code, &waiter_);
  hijacked.set_stopped(chosen.stopped);
  hijacked.set_stack_floor(chosen.stack_floor);
  hijacked.set_loader_data(libc_.loader_data);
  hijacked.set_fault_table(fault_table_);
  hijacked.unmap_too(left_memory_);
  const std::size_t words = stops_all(step) ? OtherThreads::most_words(process_) : places.size();
  hijacked.map_memory(sizeof(format::AttachRequest) + 8192 + words * sizeof(std::uint64_t), deadline_);
  std::uint64_t value = 0;
  if (libc_.error_place != 0) {
    check(hijacked, hijacked.call(libc_.error_place, {}, deadline_, &value));
    hijacked.keep_errno(value);
  }
  format::AttachRequest answer = order_.request;
  if (!is_loaded_) {
    loaded_now_ = load(&hijacked, libc_, library_->path());
    if (!loaded_now_) answer.result = AttachResult::kLoading;
    begun_ = false;  // nothing was changed but that the library is there
  } else if (!interrupted()) {
    answer = stops_all(step) ? ask_alone(&hijacked, chosen, step, words) : ask(&hijacked, step, places);
  }
  const bool is_restored = !is_loaded_ && !loaded_now_;
  // The call has ended. A thread may end after it, or wait long for a processor.
  if (!is_restored && !hijacked.put_back()) check_same_program();
  left_memory_ = hijacked.left_memory();
  longest_stop_ = std::max(longest_stop_, hijacked.longest_stop());
  log::debug("thread " + std::to_string(chosen.thread) + " of " + process_.name() + " was stopped for " +
             format_time(static_cast<std::uint64_t>(hijacked.longest_stop().count())) +
             (loaded_now_ ? ": the library was loaded"
                          : ": step " + std::to_string(static_cast<int>(step)) + ", " +
                                plural(places.size(), "word", "words")));
  facts_->interrupted = waiter_.interrupted();
  return answer;
}

void StepCaller::unmap_left_memory() try {
  if (left_memory_.size == 0 || interrupted()) return;
  deadline_ = after(order_.limit);
  const ChosenThread chosen = stop_thread();
  if (chosen.thread == 0) return;
  HijackedThread hijacked(process_, chosen.thread, libc_.code, &waiter_);
  hijacked.set_stack_floor(chosen.stack_floor);
  hijacked.unmap_too(left_memory_);
  hijacked.map_memory(0, deadline_);
  hijacked.put_back();
} catch (const AttachError& error) {
  log::debug(error.what());
}

ChosenThread StepCaller::stop_thread() {
  int failures = 0;
  while (true) {
    const auto begin = std::chrono::steady_clock::now();
    begin_stage("looking at the program");
    if (!begun_) program_ = program_mark(process_);
    // Also in the middle of an exec, when there is no mark.
    const auto replaced = [&] { return process_.is_alive() && program_mark(process_) != program_; };
    try {
      if (::access(process_.path_from_here("/").c_str(), F_OK) != 0) process_.explain_refusal(errno);
      check_not_frozen(process_);
      check_seccomp(process_);
      check_filters_are_alike(process_);
      if (!begun_) libc_ = look_at_libc(process_);
      const bool loaded = !mapped_library(process_.mappings()).empty();
      if (!loaded && (begun_ || !attaches())) throw AttachError(describe_result(process_, AttachResult::kNotAttached));
      if (!loaded) check_limits(process_);
      // A child that was forked meanwhile has no thread at work.
      if (!loaded && is_loader_at_work(process_, process_.mappings()) && libc_.loading.owner(process_) == 0) {
        throw StillStarting(
            process_.name() +
            " is loading libraries (does it still start?), or was forked by a program that did: nothing was changed; "
            "try again later");
      }
      if (!loaded && !library_) library_.emplace(process_, order_.library);
      if (!loaded) libraries_.emplace(process_, process_.mappings());
      find_functions();
      await_loader();
      begin_stage("choosing a thread");
      ChosenThread chosen = choice_.stop_one(left_until(deadline_) / 2);
      if (chosen.thread == 0) return {};
      // Once it is there, it is never unloaded.
      if (!replaced() && (loaded || !has_library())) {
        try {
          check_stopped(chosen.thread, libc_);
        } catch (...) {
          HijackedThread::release(chosen.thread);
          throw;
        }
        thread_is_stopped_ = begun_ = true;
        return chosen;
      }
      HijackedThread::release(chosen.thread);
      if (begun_) throw replaced_error();
    } catch (const StillStarting&) {
      waiter_.pause(milliseconds(1));
      if ((begun_ && replaced()) || left_until(deadline_).count() == 0) throw;
    } catch (const AttachError&) {
      if (!process_.is_alive()) throw AttachError(process_.name() + " has ended");
      // Facts that are read in the middle of an exec may fit neither program: only repeated failures count.
      const bool at_once = std::chrono::steady_clock::now() - begin < milliseconds(100);
      // After the first step the new program is no longer of interest.
      if (replaced() ? begun_ : ++failures == kMostFailures || !at_once) throw;
      waiter_.pause(milliseconds(10));
    }
    if (waiter_.interrupted() != 0) return {};
    if (left_until(deadline_).count() == 0) throw replaced_all_the_time();
  }
}

void StepCaller::await_loader() {
  const std::optional<LoadingLock::State> first = libc_.loading.read(process_);
  const Deadline end = after(std::min(kLongestWaitForLoader, left_until(deadline_) / 4));
  for (auto now = first; now && now->word != 0 && now->owner == first->owner && now->added == first->added;) {
    if (waiter_.interrupted() != 0 || std::chrono::steady_clock::now() > end) break;
    waiter_.pause(milliseconds(1));
    now = libc_.loading.read(process_);
  }
}

AttachError StepCaller::replaced_error() const {
  return AttachError(process_.name() + " replaced itself by another program (exec) meanwhile: try again");
}

void StepCaller::check_same_program() const {
  if (!process_.is_alive()) throw AttachError(process_.name() + " has ended");
  const std::string now = program_mark(process_);
  if (!program_.empty() && !now.empty() && now != program_) throw replaced_error();
}

bool StepCaller::has_library() const {
  const std::optional<bool> added = libraries_->has_added("libculprit.so");
  return added ? *added : !mapped_library(process_.mappings()).empty();
}

void StepCaller::check_stopped(pid_t thread, const TargetLibc& libc) const {
  check_filters_of_thread(process_, thread);
  // The thread is outside of the loader.
  if (owns_loader_lock(process_, libc.loader_data, thread)) throw left_lock_error();
}

AttachError StepCaller::replaced_all_the_time() const {
  return AttachError(process_.name() +
                     " is replaced by another program (exec) all the time: nothing was changed; try again later");
}

AttachError StepCaller::left_lock_error() const {
  return AttachError("a call of an earlier attach crashed in " + process_.name() +
                     ", and its loader's lock was left taken: restart the program under culprit run");
}

bool StepCaller::keeps_loader_lock() const {
  for (const std::uint32_t thread : process_.folder().threads()) {
    bool keeps = true;
    for (int look = 0; keeps && look < 5; ++look) {
      if (look != 0) std::this_thread::sleep_for(milliseconds(20));
      keeps = owns_loader_lock(process_, libc_.loader_data, static_cast<pid_t>(thread));
    }
    if (keeps) return true;
  }
  return false;
}

bool StepCaller::hold_forks(HijackedThread* hijacked, const TargetLibc& libc) {
  if (libc.fork_lock == 0 || libc.fork_unlock == 0 || libc.idle == 0 || ++tries_to_hold_forks_ > kMostTries)
    return true;
  const CallEnd end = hijacked->hold(libc.fork_lock, libc.idle, libc.fork_unlock, deadline_);
  if (end != CallEnd::kBlocked) check(*hijacked, end);
  return end == CallEnd::kReturned;
}

bool StepCaller::load(HijackedThread* hijacked, const TargetLibc& libc, const std::string& path) {
  const std::uint64_t text = hijacked->memory() + sizeof(format::AttachRequest);
  hijacked->write(text, path.c_str(), path.size() + 1);
  LoaderTurn turn(process_, libc.loading, &choice_, &waiter_);
  if (!turn.wait(after(kPatienceForLoader)) || !hold_forks(hijacked, libc)) {
    hijacked->put_back();
    note_stop(turn.longest_stop());
    return false;
  }
  const CallEnd end = hijacked->call_without_stops(libc.open_library, {text, libc.open_mode}, deadline_, libc.wait,
                                                   [&] { pass(&turn, *hijacked); });
  if (end == CallEnd::kBlocked) return false;
  check(*hijacked, end);
  if (has_library()) return true;
  std::uint64_t message = 0;
  if (libc.last_error != 0 && !hijacked->has_resumed())
    check(*hijacked, hijacked->call(libc.last_error, {}, deadline_, &message));
  std::string why = message != 0 ? hijacked->read_text(message) : "the loader does not say why";
  if (why.find("Permission denied") != std::string::npos)
    why += " (its user may not read that file, or a sandbox forbids it: Landlock, AppArmor, SELinux)";
  hijacked->put_back();
  throw AttachError("libculprit.so could not be loaded into " + process_.name() + ": " + why);
}

format::AttachRequest StepCaller::ask(HijackedThread* hijacked, AttachStep step, const Places& places) {
  if (function_at_ == 0) {
    hijacked->put_back();
    // A call that crashed in a constructor of the library; another thread than that one was stopped now.
    if (keeps_loader_lock()) throw left_lock_error();
    throw AttachError("the libculprit.so in " + process_.name() + " is of another version: it has no " + function_);
  }
  format::AttachRequest request = order_.request;
  request.version = format::kAttachVersion;
  request.step = step;
  request.unsearched_bytes = facts_->unsearched_bytes;
  request.threads_met = threads_met_ ? 1 : 0;
  request.places = hijacked->memory() + sizeof(request) + 8192;
  request.place_count = places.size();
  hijacked->write(hijacked->memory(), &request, sizeof(request));
  if (!places.empty()) hijacked->write(request.places, places.data(), places.size() * sizeof(places[0]));
  LoaderTurn turn(process_, libc_.loading, &choice_, &waiter_);
  if (!turn.wait(after(kPatienceForLoader))) {
    request.result = AttachResult::kLoading;
    return request;
  }
  check(*hijacked, hijacked->call_without_stops(function_at_, {hijacked->memory()}, deadline_, libc_.wait,
                                                [&] { pass(&turn, *hijacked); }));
  if (!hijacked->read(hijacked->memory(), &request, sizeof(request)) || request.result == AttachResult::kNone)
    throw AttachError("the libculprit.so in " + process_.name() + " gave no answer");
  return request;
}

void StepCaller::pass(LoaderTurn* turn, const HijackedThread& hijacked) {
  turn->pass_to(hijacked.thread(), [&] { return hijacked.has_finished(); });
  note_stop(turn->longest_stop());
}

void StepCaller::note_stop(std::chrono::nanoseconds time) { longest_stop_ = std::max(longest_stop_, time); }

void StepCaller::check(const HijackedThread& hijacked, CallEnd end) const {
  switch (end) {
    case CallEnd::kReturned:
      return;
    case CallEnd::kGone:
      throw AttachError("a thread of " + process_.name() + " ended in the middle of the injected call: try again");
    case CallEnd::kCrashed:
      throw AttachError(crashed(hijacked));
    case CallEnd::kBlocked:
      throw AttachError("another thread of " + process_.name() +
                        " is loading a library and does not finish: nothing was changed; try again later");
    case CallEnd::kLeftRunning:
      throw AttachError("the time-out was reached while the library was being loaded into " + process_.name() +
                        ": the thread finishes loading and then continues its own work; try again later");
  }
}

std::string StepCaller::crashed(const HijackedThread& hijacked) const {
  std::string left = hijacked.left_behind();
  if (process_.is_alive() && !mapped_library(process_.mappings()).empty())
    left += (left.empty() ? "" : ", and ") + std::string("libculprit.so stays loaded");
  return "the injected call crashed in " + process_.name() + " (" + hijacked.crash() +
         "). Its thread was put back where it was, but nothing should be loaded into the process any more" +
         (left.empty() ? "" : ": " + left) + ". Restart the program under culprit run";
}

}  // namespace culprit::report
