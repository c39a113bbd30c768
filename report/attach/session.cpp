#include "report/attach/session.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "report/attach/loaded_list.h"
#include "report/attach/read_ahead.h"
#include "report/attach/stage.h"
#include "report/attach/step_caller.h"
#include "report/attach/word_search.h"
#include "report/base/log.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestExec{200};

// Attaching or detaching goes through several steps: see StepCaller.
class Session {
 public:
  Session(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts)
      : process_(process), order_(order), facts_(facts), caller_(process, order, facts) {}

  // Throws AttachError with the true reason: much fails in other ways when the program ends, or is replaced.
  format::AttachRequest run() try { return work(); } catch (const AttachError&) {
    // An exec ends the other threads some time before the new program is there.
    for (const Deadline end = after(kLongestExec);;) {
      caller_.check_same_program();
      if (!caller_.has_stopped_thread() || std::chrono::steady_clock::now() > end) break;
      caller_.waiter().pause(milliseconds(5));
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
    caller_.unmap_left_memory();
    caller_.tell_facts();
    return answer;
  }

  bool attaches() const { return caller_.attaches(); }
  bool interrupted() { return caller_.interrupted(); }
  format::AttachRequest step(AttachStep step, const Places& places) { return caller_.step(step, places); }

  // The first step, in as many parts as it takes. kMore: a signal to this process ended it.
  format::AttachRequest begin() {
    if (attaches() && !caller_.is_undoing()) read_ahead();
    format::AttachRequest answer = step(AttachStep::kBegin, {});
    while (answer.result == AttachResult::kMore) {
      if (interrupted() && attaches() && !caller_.is_undoing()) break;
      // Recording has ended already, as in finish().
      caller_.waiter().take_interrupted();
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
    caller_.note_threads_met(::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0) == 0);
    std::uint32_t words = 0;
    while (true) {
      caller_.waiter().take_interrupted();
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
    const int signal = caller_.waiter().take_interrupted();
    caller_.begin_undoing();
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

  static constexpr int kMostPasses = 6;
  static constexpr std::size_t kMostPlaces = 8192;  // at once ...
  static constexpr int kMostBlocks = 64;            // ... in so many blocks

  const TracedProcess& process_;
  const InjectionOrder& order_;
  InjectionFacts* facts_;
  StepCaller caller_;
  Deadline shown_;
};

}  // namespace

format::AttachRequest inject_here(const TracedProcess& process, const InjectionOrder& order, InjectionFacts* facts) {
  return Session(process, order, facts).run();
}

}  // namespace culprit::report
