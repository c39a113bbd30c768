#include "report/attach/session.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "report/attach/hijacked_thread.h"
#include "report/attach/hurry.h"
#include "report/attach/library_for_target.h"
#include "report/attach/loaded_list.h"
#include "report/attach/loader_locks.h"
#include "report/attach/loader_turn.h"
#include "report/attach/other_threads.h"
#include "report/attach/program_kind.h"
#include "report/attach/read_ahead.h"
#include "report/attach/remote_symbols.h"
#include "report/attach/result_words.h"
#include "report/attach/seccomp_filters.h"
#include "report/attach/stage.h"
#include "report/attach/target_libc.h"
#include "report/attach/target_limits.h"
#include "report/attach/thread_choice.h"
#include "report/attach/word_search.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/proc/loaded_library.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestExec{200};
constexpr milliseconds kPatienceForLoader{5};       // with a borrowed thread
constexpr milliseconds kLongestWaitForLoader{100};  // without one
constexpr int kMostFailures = 5;

milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

// Attaching or detaching goes through several steps, each of which borrows a thread once. Before the first, another one
// may load the library: both together would stop it for too long.
class Session {
 public:
  Session(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts)
      : process_(process), order_(order), facts_(facts), waiter_(process), choice_(process, &waiter_) {}

  // Throws AttachError with the true reason: much fails in other ways when the program ends, or is replaced.
  format::AttachRequest run() try { return work(); } catch (const AttachError&) {
    // An exec ends the other threads some time before the new program is there.
    for (const Deadline end = after(kLongestExec);;) {
      check_same_program();
      if (!thread_is_stopped_ || std::chrono::steady_clock::now() > end) break;
      waiter_.pause(milliseconds(5));
    }
    throw;
  }

 private:
  using AttachStep = format::AttachStep;
  using AttachResult = format::AttachResult;
  using Places = std::vector<std::uint64_t>;

  format::AttachRequest work() {
    const bool one_step = order_.what == Injection::kTensors || order_.what == Injection::kScan;
    format::AttachRequest answer = one_step ? step(order_.request.step, {}) : begin();
    if (answer.result == AttachResult::kMore) undo();
    if (answer.result == AttachResult::kDone && !one_step) finish(&answer);
    if (left_memory_.size != 0 && !interrupted()) unmap_left_memory();
    facts_->longest_stop = std::max(longest_stop_, choice_.longest_stop());
    facts_->repeated_calls = choice_.repeated_calls();
    facts_->cut_calls = choice_.cut_calls();
    std::strncpy(facts_->cut_call, choice_.cut_call().c_str(), sizeof(facts_->cut_call) - 1);
    return answer;
  }

  bool attaches() const { return order_.what == Injection::kAttach; }

  // The first step, in as many parts as it takes. kMore: a signal to this process ended it.
  format::AttachRequest begin() {
    if (attaches() && !undoing_) read_ahead();
    format::AttachRequest answer = step(AttachStep::kBegin, {});
    while (answer.result == AttachResult::kMore) {
      if (interrupted() && attaches() && !undoing_) break;
      // Recording has ended already, as in finish().
      waiter_.take_interrupted();
      const format::AttachRequest next = continue_slots();
      if (next.result == AttachResult::kNone) continue;
      const std::string dump = answer.dump;
      answer = next;
      std::strncpy(answer.dump, dump.c_str(), sizeof(answer.dump) - 1);
    }
    return answer;
  }

  // Not worth a message where it fails.
  void read_ahead() try {
    begin_stage("looking at the program");
    read_references_ahead(process_, LoadedList(process_, process_.mappings()).sections());
  } catch (const AttachError& error) {
    log::debug(error.what());
  }

  format::AttachRequest continue_slots() try { return step(AttachStep::kSlots, {}); } catch (const AttachError& error) {
    throw left_attached(error);
  }

  // Of a step after the first one.
  AttachError left_attached(const AttachError& error) const {
    if (!process_.is_alive() || !attaches()) return error;
    return AttachError(std::string(error.what()) + ". It is attached and does not record: culprit detach " +
                       std::to_string(process_.pid()) + " ends that");
  }

  void finish(format::AttachRequest* answer) try {
    Places places;
    if (answer->search != 0) {
      const WordSearch search(process_, answer->search);
      places = replace_words(search, answer);
    }
    format::AttachRequest last = {};
    if (attaches()) {
      if (!interrupted()) last = step(AttachStep::kEnd, places);
      if (interrupted()) {
        undo();
        return;
      }
    } else {
      last = end_detach(std::move(places));
    }
    answer->words += last.words;
    // Threads that are still in a CUDA call keep what a detach leaves; the next attach frees it.
    if (attaches() || last.result != AttachResult::kBusy) answer->result = last.result;
  } catch (const AttachError& error) {
    throw left_attached(error);
  }

  // Recording has ended already: a signal to this process no longer changes that.
  format::AttachRequest end_detach(Places places) {
    // While the program runs. From inside it takes up to 16 ms.
    threads_met_ = ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0) == 0;
    std::uint32_t words = 0;
    while (true) {
      waiter_.take_interrupted();
      format::AttachRequest answer = step(AttachStep::kEnd, places);
      words += answer.words;
      if (answer.result == AttachResult::kMore) {
        places.clear();
      } else if (!interrupted() || answer.result != AttachResult::kNone) {
        answer.words = words;
        return answer;
      }
    }
  }

  // Looks for words and has them replaced until there are no more, except on stacks, where calls leave them all the
  // time. Returns the last of them, which go with the last step.
  Places replace_words(const WordSearch& search, format::AttachRequest* answer) {
    Places places;
    for (int pass = 1;; ++pass) {
      const Deadline begin = std::chrono::steady_clock::now();
      begin_stage("searching the program's memory");
      FoundWords found = search.look([&](std::uint64_t done, std::uint64_t total) {
        still_at_stage();
        show_progress(begin, done, total);
        const auto limit = std::max<std::chrono::nanoseconds>(order_.limit, std::chrono::nanoseconds(total * 3));
        return !interrupted() && std::chrono::steady_clock::now() - begin < limit;
      });
      log::wipe_status();
      facts_->searched_bytes = std::max(facts_->searched_bytes, found.read_bytes);
      facts_->unsearched_bytes = found.unread_bytes;
      places = std::move(found.places);
      // After a detach the hooks only call the driver, so that a word may stay.
      const bool settled = pass > 1 && found.beside_stacks == 0;
      if (found.unread_bytes != 0 || !attaches() || settled) break;
      if (pass == kMostPasses) {
        facts_->unsearched_bytes = found.beside_stacks * sizeof(std::uint64_t);
        break;
      }
      while (!places.empty()) answer->words += step(AttachStep::kWords, take_first(&places)).words;
    }
    return replace_first(std::move(places), &answer->words);
  }

  // Has all of them replaced but the last ones, which it returns: they go with the last step.
  Places replace_first(Places places, std::uint32_t* words) {
    Places part = take_first(&places);
    while (!places.empty()) {
      *words += step(AttachStep::kWords, part).words;
      part = take_first(&places);
    }
    return part;
  }

  // As many as one step replaces in a short time.
  static Places take_first(Places* places) {
    std::size_t count = 0;
    std::uint64_t last_block = 0;
    for (int blocks = 0; count < std::min(places->size(), kMostPlaces); ++count) {
      const std::uint64_t block = (*places)[count] / format::kPlacesBlockBytes;
      if (block == last_block) continue;
      last_block = block;
      if (++blocks > kMostBlocks) break;
    }
    Places part(places->begin(), places->begin() + static_cast<long>(count));
    places->erase(places->begin(), places->begin() + static_cast<long>(count));
    return part;
  }

  void show_progress(Deadline begin, std::uint64_t done, std::uint64_t total) {
    const Deadline now = std::chrono::steady_clock::now();
    if (total == 0 || now - begin < milliseconds(500) || now - shown_ < milliseconds(200)) return;
    shown_ = now;
    log::show_status("searching the memory of " + printable(process_.name()) + ": " + format_bytes(done) + " of " +
                     format_bytes(total));
  }

  // After a signal to this process: ends what the attach has begun.
  void undo() {
    const int signal = waiter_.take_interrupted();
    undoing_ = true;
    const format::AttachRequest begun = begin();
    Places places;
    const auto goes_on = [](auto, auto) {
      still_at_stage();
      return true;
    };
    if (begun.search != 0) places = WordSearch(process_, begun.search).look(goes_on).places;
    std::uint32_t words = 0;
    end_detach(replace_first(std::move(places), &words));
    facts_->interrupted = signal;  // the steps have stored that they were not interrupted
  }

  bool interrupted() { return waiter_.interrupted() != 0; }

  // Where the library can be asked; while no thread is stopped, because it takes time.
  void find_functions() {
    function_ = order_.what == Injection::kTensors ? "culprit_tensors_v7"
                : order_.what == Injection::kScan  ? "culprit_scan_v7"
                : attaches() && !undoing_          ? "culprit_attach_v7"
                                                   : "culprit_detach_v7";
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

  std::vector<format::FaultEntry> read_fault_table(std::uint64_t place) const {
    std::uint64_t bounds[2] = {};
    if (place == 0 || !process_.read_memory(place, bounds, sizeof(bounds)) || bounds[1] < bounds[0]) return {};
    const std::uint64_t bytes = std::min<std::uint64_t>(bounds[1] - bounds[0], kMostOfFaultTable);
    std::vector<format::FaultEntry> table(bytes / sizeof(format::FaultEntry));
    if (!process_.read_memory(bounds[0], table.data(), table.size() * sizeof(table[0]))) return {};
    return table;
  }

  // Tries again while another thread loads a library, or is in a CUDA call of an earlier attach.
  format::AttachRequest step(AttachStep step, const Places& places) {
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

  AttachError unsafe_error() const {
    return AttachError("no moment was found at which all threads of " + process_.name() +
                       " could be stopped together (last: " + unsafe_ +
                       "): nothing was changed; try again, or with a longer --timeout");
  }

  bool stops_all(AttachStep step) const { return order_.what == Injection::kScan && step == AttachStep::kBegin; }

  // As ask(), while all other threads are stopped. kLoading: they cannot be stopped now.
  format::AttachRequest ask_alone(HijackedThread* hijacked, const ChosenThread& borrowed, AttachStep step,
                                  std::size_t room) {
    OtherThreads others(process_, borrowed, choice_.finder(), &waiter_);
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

  format::AttachRequest borrow(AttachStep step, const Places& places) {
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

  // Not worth a message where it fails.
  void unmap_left_memory() try {
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

  // Looks at the program and stops a thread of it. Begins again when the program was replaced (exec) in between,
  // because what was found is then another program's; but not after the first step.
  ChosenThread stop_thread() {
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
        if (!loaded && (begun_ || !attaches()))
          throw AttachError(describe_result(process_, AttachResult::kNotAttached));
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

  // A thread that loads a large library may have the loader's lock for seconds. Until something changes there, no
  // thread is borrowed.
  void await_loader() {
    const std::optional<LoadingLock::State> first = libc_.loading.read(process_);
    const Deadline end = after(std::min(kLongestWaitForLoader, left_until(deadline_) / 4));
    for (auto now = first; now && now->word != 0 && now->owner == first->owner && now->added == first->added;) {
      if (waiter_.interrupted() != 0 || std::chrono::steady_clock::now() > end) break;
      waiter_.pause(milliseconds(1));
      now = libc_.loading.read(process_);
    }
  }

  AttachError replaced_error() const {
    return AttachError(process_.name() + " replaced itself by another program (exec) meanwhile: try again");
  }

  void check_same_program() const {
    if (!process_.is_alive()) throw AttachError(process_.name() + " has ended");
    const std::string now = program_mark(process_);
    if (!program_.empty() && !now.empty() && now != program_) throw replaced_error();
  }

  // Whether the library was loaded since the last look, as the loader tells it.
  bool has_library() const {
    const std::optional<bool> added = libraries_->has_added("libculprit.so");
    return added ? *added : !mapped_library(process_.mappings()).empty();
  }

  // Looks at the rest, which needs a stopped thread. Throws AttachError.
  void check_stopped(pid_t thread, const TargetLibc& libc) const {
    check_filters_of_thread(process_, thread);
    // The thread is outside of the loader.
    if (owns_loader_lock(process_, libc.loader_data, thread)) throw left_lock_error();
  }

  AttachError replaced_all_the_time() const {
    return AttachError(process_.name() +
                       " is replaced by another program (exec) all the time: nothing was changed; try again later");
  }

  AttachError left_lock_error() const {
    return AttachError("a call of an earlier attach crashed in " + process_.name() +
                       ", and its loader's lock was left taken: restart the program under culprit run");
  }

  // Whether one of the running threads keeps the loader's lock. One in a short dlopen() gives it back meanwhile.
  bool keeps_loader_lock() const {
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

  // A child that another thread forks in the middle of dlopen() would have the loader in that state for ever. So the
  // lock of libc's list of open files is held meanwhile: fork() takes it first, and waits. False:
  // another thread has it. The thread was restored.
  bool hold_forks(HijackedThread* hijacked, const TargetLibc& libc) {
    if (libc.fork_lock == 0 || libc.fork_unlock == 0 || libc.idle == 0 || ++tries_to_hold_forks_ > kMostTries)
      return true;
    const CallEnd end = hijacked->hold(libc.fork_lock, libc.idle, libc.fork_unlock, deadline_);
    if (end != CallEnd::kBlocked) check(*hijacked, end);
    return end == CallEnd::kReturned;
  }

  // False: another thread has a lock of the loader, or the one of hold_forks(). The thread was restored.
  bool load(HijackedThread* hijacked, const TargetLibc& libc, const std::string& path) {
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

  format::AttachRequest ask(HijackedThread* hijacked, AttachStep step, const Places& places) {
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

  void pass(LoaderTurn* turn, const HijackedThread& hijacked) {
    turn->pass_to(hijacked.thread(), [&] { return hijacked.has_finished(); });
    note_stop(turn->longest_stop());
  }

  void note_stop(std::chrono::nanoseconds time) { longest_stop_ = std::max(longest_stop_, time); }

  void check(const HijackedThread& hijacked, CallEnd end) const {
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

  std::string crashed(const HijackedThread& hijacked) const {
    std::string left = hijacked.left_behind();
    if (process_.is_alive() && !mapped_library(process_.mappings()).empty())
      left += (left.empty() ? "" : ", and ") + std::string("libculprit.so stays loaded");
    return "the injected call crashed in " + process_.name() + " (" + hijacked.crash() +
           "). Its thread was put back where it was, but nothing should be loaded into the process any more" +
           (left.empty() ? "" : ": " + left) + ". Restart the program under culprit run";
  }

  static constexpr std::uint64_t kMostOfFaultTable = 4096;
  static constexpr int kMostTries = 20;  // for a lock that another thread may keep
  static constexpr int kMostPasses = 6;
  static constexpr std::size_t kMostPlaces = 8192;  // at once ...
  static constexpr int kMostBlocks = 64;            // ... in so many blocks

  const TracedProcess& process_;
  const InjectionOrder& order_;
  InjectionFacts* facts_;
  StopWaiter waiter_;
  ThreadChoice choice_;
  TargetLibc libc_;
  std::optional<LibraryForTarget> library_;  // when it is not loaded yet
  std::optional<LoadedList> libraries_;      // ... as they were then
  bool is_loaded_ = false;                   // libculprit.so
  std::string function_;
  std::uint64_t function_at_ = 0;  // 0: it has no such function
  std::vector<format::FaultEntry> fault_table_;
  bool undoing_ = false;
  bool threads_met_ = false;
  int tries_to_hold_forks_ = 0;
  std::chrono::nanoseconds longest_stop_{0};
  HijackedThread::Memory left_memory_;  // of a thread that ended after its call
  Deadline shown_;
  Deadline deadline_;    // of the present step
  std::string program_;  // the mark of the program that was looked at
  std::string unsafe_;   // why the other threads could not be stopped together
  bool thread_is_stopped_ = false;
  bool begun_ = false;       // a thread was borrowed once
  bool loaded_now_ = false;  // ... and has just loaded the library, and nothing else
};

}  // namespace

format::AttachRequest inject_here(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts) {
  return Session(process, order, facts).run();
}

}  // namespace culprit::report
