#include "interpose/log.h"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstring>

#include "interpose/process.h"

namespace culprit {
namespace {

// One line to stderr, cut when it is very long. Formatted in place: {fmt} allocates nothing for that, where a logger
// would call malloc, which a signal handler that ends the process may have interrupted.
template <std::size_t kLongest = 4600, typename... Args>
void write_line(fmt::format_string<const Args&...> form, const Args&... args) {
  char line[kLongest];
  auto written = fmt::format_to_n(line, sizeof(line) - 1, form, args...);
  std::size_t length = written.size < sizeof(line) - 1 ? written.size : sizeof(line) - 1;
  line[length++] = '\n';
  write_stderr(line, length);
}

// Of what is said on the program's own stack.
constexpr std::size_t kShortLine = 400;

// "USR2", or the number of a signal that has no name.
const char* signal_text(int number, char* text, std::size_t capacity) {
  const char* name = sigabbrev_np(number);
  if (name != nullptr) return name;
  *fmt::format_to_n(text, capacity - 1, "{}", number).out = '\0';
  return text;
}

struct ReadableBytes {
  char text[32];
};

ReadableBytes readable_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  ReadableBytes readable = {};
  if (unit == 0) {
    fmt::format_to_n(readable.text, sizeof(readable.text) - 1, "{} B", bytes);
  } else {
    fmt::format_to_n(readable.text, sizeof(readable.text) - 1, "{:.2f} {}", value, kUnits[unit]);
  }
  return readable;
}

struct Unfreed {
  std::uint64_t bytes;
  std::uint64_t count;
};

Unfreed count_unfreed(Process& process) {
  Unfreed unfreed = {};
  process.live.sweep(process.dump, [&](const format::AllocationRecord& record, format::Ref, EndedBy*) {
    bool physical = (record.flags & format::kFlagNotPhysical) == 0 && record.bytes != 0;
    if (record.kind < format::Kind::kContext && physical) {
      unfreed.bytes += record.bytes;
      ++unfreed.count;
    }
    return false;
  });
  process.releases.for_each(process.dump, [&](const format::ReleaseRecord& record) {
    unfreed.bytes += record.bytes;
    unfreed.count += record.bytes == 0 ? 0 : record.count;
  });
  return unfreed;
}

const char* reason_text(format::StopReason reason) {
  switch (reason) {
    case format::StopReason::kFileSizeLimit:
      return "the file size limit (ulimit -f) is reached";
    case format::StopReason::kTooLarge:
      return "the dump has reached its largest size";
    case format::StopReason::kFileReplaced:
      return "the dump's descriptor was closed and the file is not there any more";
    case format::StopReason::kNoMemory:
      return "no memory for the index";
    case format::StopReason::kNoDescriptor:
      return "no descriptor was free (ulimit -n) when the dump had to grow";
    case format::StopReason::kNoSpace:
    case format::StopReason::kNone:
      break;
  }
  return "the dump can not grow";
}

}  // namespace

void warn_not_recording(const Options& options, const char* path, int error) {
  if (options.log_level < LogLevel::kWarn) return;
  write_line("culprit: warning: nothing is recorded: can not create {}: {}. {} with CULPRIT_OUT.", path,
             error == ESPIPE ? "a dump is mapped memory, which this can not hold" : strerrordesc_np(error),
             error == EISDIR ? "Name a file in it" : "Name a writable place");
}

void warn_signal_refused(const char* chosen, int used) {
  if (chosen_log_level() < LogLevel::kWarn) return;
  char name[16];
  write_line<kShortLine>("culprit: warning: CULPRIT_SIGNAL={:.40}: no signal that can be used; {} is used", chosen,
                         signal_text(used, name, sizeof(name)));
}

void warn_signal_taken(int number, bool ignored) {
  if (chosen_log_level() < LogLevel::kWarn) return;
  char name[16];
  write_line<kShortLine>(
      "culprit: warning: signal {} {}: nothing is recorded, and no signal switches it on. Name another with "
      "CULPRIT_SIGNAL.",
      signal_text(number, name, sizeof(name)), ignored ? "is ignored" : "is handled by the program itself");
}

void warn_refused_options(const Options& options) {
  static std::atomic<bool> told{false};  // inherited by fork children
  if (options.refused_count == 0 || options.log_level < LogLevel::kWarn || told.exchange(true)) return;
  for (int i = 0; i < options.refused_count; ++i) {
    const RefusedOption& refused = options.refused[i];
    write_line<kShortLine>("culprit: warning: {}={:.60}: this value cannot be used; {} is used", refused.variable,
                           refused.value, refused.used);
  }
}

namespace {

void warn_of_stop(Process& process) {
  if (!process.dump.stopped() || process.stop_warned.exchange(1) != 0) return;
  if (process.options.log_level < LogLevel::kWarn) return;
  const format::Header* header = process.dump.header();
  int error = header->stop_errno;
  write_line(
      "culprit: warning: recording stopped: {}{}{}. The program runs on; the report counts what is missing ({}).",
      reason_text(header->stop_reason), error != 0 ? ": " : "", error != 0 ? strerrordesc_np(error) : "",
      process.dump.path());
}

}  // namespace

void warn_if_stopped(Process& process) {
  if (process.stop_warned.load(std::memory_order_relaxed) == 0) on_own_stack([&] { warn_of_stop(process); });
}

void log_summary(Process& process) {
  const LogLevel level = process.options.log_level;
  const format::Header* header = process.dump.header();
  if (level >= LogLevel::kInfo) {
    std::uint64_t allocations = 0, frees = 0;
    process.counters.sum(&allocations, &frees, process.dump);
    write_line("culprit: info: {} things made, {} given back, {} late; dump {} ({})", allocations, frees,
               header->late_frees, process.dump.path(), readable_bytes(header->file_bytes).text);
  }
  if (level >= LogLevel::kDebug) {
    write_line("culprit: debug: dropped: {} allocations, {} stacks, {} others", header->dropped_allocations,
               header->dropped_stacks, header->dropped_others);
  }
  if (process.options.quiet) return;
  if (header->unseen_users != 0) {
    // The first one: its kind, then its path and a NUL.
    const char* entry = process.dump.at<char>(header->unseen_users) + sizeof(format::StringRecord);
    write_line(
        "culprit: {} calls the CUDA driver past culprit ({}): nothing of that was recorded. See: culprit report {}",
        entry + 1,
        static_cast<format::UnseenHow>(entry[0]) == format::UnseenHow::kNamespace ? "dlmopen" : "RTLD_DEEPBIND",
        process.dump.path());
  }
  Unfreed unfreed = count_unfreed(process);
  if (unfreed.count == 0) return;
  const bool kept = process.dump.leaves_file();
  write_line("culprit: {} in {} allocation{} not freed. {} {}", readable_bytes(unfreed.bytes).text, unfreed.count,
             unfreed.count == 1 ? "" : "s", kept ? "See: culprit report" : "No dump was kept: CULPRIT_OUT is",
             process.dump.path());
}

}  // namespace culprit
