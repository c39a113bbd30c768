#include "report/symbols/debug_downloads.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <mutex>

#include "report/base/log.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kVariable[] = "DEBUGINFOD_URLS";
// After this time a command without a terminal says what it waits for.
constexpr auto kTellAfter = std::chrono::seconds(1);

// All downloads of the process.
struct State {
  std::mutex mutex;
  unsigned sessions = 0;
  unsigned running = 0;
  unsigned limit_seconds = 0;
  Clock::time_point since;  // while some are running
  Clock::duration spent = {};
  bool told = false;
  bool told_end = false;
  char* urls = nullptr;  // the variable's value in the environment
  char first = 0;        // its first character
};

State& state() {
  static State one;
  return one;
}

// The next four with the mutex held.
bool is_over(const State& all) {
  const Clock::duration running = all.running != 0 ? Clock::now() - all.since : Clock::duration();
  return all.spent + running >= std::chrono::seconds(all.limit_seconds);
}

// libdebuginfod reads the variable at each question, and libdw has no switch. The first character is the switch:
// unsetenv() would move the whole environment while other threads read it.
void stop_asking(State* all) {
  if (all->urls != nullptr) __atomic_store_n(all->urls, '\0', __ATOMIC_RELAXED);
}

void ask_again(State* all) {
  if (all->urls != nullptr) __atomic_store_n(all->urls, all->first, __ATOMIC_RELAXED);
  all->urls = nullptr;
}

void tell_end(State* all) {
  if (all->told_end || all->limit_seconds == 0) return;
  all->told_end = true;
  log::warning("debug information was downloaded for " + std::to_string(all->limit_seconds) +
               " s, which is the limit: the rest is missing (--debuginfod-limit SECONDS)");
}

// Of this thread.
thread_local const std::string* current_path = nullptr;
thread_local const std::function<void(const std::string&)>* current_progress = nullptr;

// Called by libdebuginfod at least once a second. Other than 0: the download ends.
int follow(debuginfod_client* /*client*/, long done, long total) {
  State& all = state();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (is_over(all)) {
      tell_end(&all);
      return 1;
    }
    if (!all.told && Clock::now() - all.since >= kTellAfter) {
      all.told = true;
      log::note("waiting for debug information of DEBUGINFOD_URLS, at most " + std::to_string(all.limit_seconds) +
                " s for all files (--debuginfod-limit SECONDS)");
    }
  }
  if (current_progress == nullptr || !*current_progress || current_path == nullptr) return 0;
  std::string text = "downloading debug information of " + *current_path;
  if (done > 0 && total > 0)
    text += ", " + format_bytes(static_cast<std::uint64_t>(done)) + " of " +
            format_bytes(static_cast<std::uint64_t>(total));
  (*current_progress)(text);
  return 0;
}

}  // namespace

DebugDownloads::DebugDownloads(unsigned limit_seconds) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.limit_seconds = limit_seconds;
  if (all.sessions++ != 0) return;
  all.urls = std::getenv(kVariable);
  all.first = all.urls != nullptr ? all.urls[0] : '\0';
  if (all.first == '\0') all.urls = nullptr;
  if (is_over(all)) stop_asking(&all);
}

DebugDownloads::~DebugDownloads() {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  // A program that is started later gets the variable as it was.
  if (--all.sessions == 0) ask_again(&all);
}

bool has_debug_servers() {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.urls != nullptr;
}

void limit_downloads(Dwfl* dwfl, const std::function<void(const std::string&)>& progress) {
  current_progress = &progress;
  // libdebuginfod comes with a dozen libraries, which take as long to load as a small report.
  if (!has_debug_servers()) return;
  debuginfod_client* const client = ::dwfl_get_debuginfod_client(dwfl);
  if (client == nullptr) return;
  // libdw has loaded it by now.
  static void* const library = ::dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  using SetProgress = void (*)(debuginfod_client*, int (*)(debuginfod_client*, long, long));
  static const auto set_progress = reinterpret_cast<SetProgress>(::dlsym(library, "debuginfod_set_progressfn"));
  if (set_progress != nullptr) set_progress(client, follow);
}

DebugDownload::DebugDownload(const std::string& path) {
  current_path = &path;
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.running++ == 0) all.since = Clock::now();
}

DebugDownload::~DebugDownload() {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  current_path = nullptr;
  const bool over = is_over(all);
  if (--all.running == 0) all.spent += Clock::now() - all.since;
  if (!over || all.urls == nullptr) return;
  tell_end(&all);
  stop_asking(&all);
}

}  // namespace culprit::report
