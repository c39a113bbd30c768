#include "interpose/log.h"

#include <errno.h>
#include <fmt/format.h>

#include <cstring>

#include "interpose/process.h"

namespace culprit {
namespace {

// One line to stderr, cut when it is very long. Formatted in place: {fmt} allocates nothing for that, where a logger
// would call malloc, which a signal handler that ends the process may have interrupted.
template <typename... Args>
void write_line(fmt::format_string<const Args&...> form, const Args&... args) {
  char line[4600];
  auto written = fmt::format_to_n(line, sizeof(line) - 1, form, args...);
  std::size_t length = written.size < sizeof(line) - 1 ? written.size : sizeof(line) - 1;
  line[length++] = '\n';
  write_stderr(line, length);
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
    case format::StopReason::kNoAddresses:
      return "the address space is limited (ulimit -v), and the dump has its share of it";
    case format::StopReason::kTruncated:
      return "the dump was cut off by somebody else, and what it held is lost";
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

void warn_if_stopped(Process& process) {
  if (!process.dump.take_news()) return;
  format::Header* header = process.dump.header();
  if (header->stop_time_ns == 0) header->stop_time_ns = now_ns(process);
  if (process.options.log_level < LogLevel::kWarn) return;
  if (!process.dump.stopped()) {
    write_line(
        "culprit: warning: the dump has the size that CULPRIT_MAX_DUMP allows ({}): what is new is recorded where "
        "something old went. The program runs on; the report counts what is missing ({}).",
        readable_bytes(header->size_limit).text, process.dump.path());
    return;
  }
  int error = header->stop_errno;
  write_line(
      "culprit: warning: recording stopped: {}{}{}. The program runs on; the report counts what is missing ({}).",
      reason_text(header->stop_reason), error != 0 ? ": " : "", error != 0 ? strerrordesc_np(error) : "",
      process.dump.path());
}

void log_summary(Process& process) {
  if (process.dump.check_truncated()) warn_if_stopped(process);
  const LogLevel level = process.options.log_level;
  const format::Header* header = process.dump.header();
  if (process.options.malformed != nullptr && level >= LogLevel::kWarn)
    write_line("culprit: warning: {} has a value that can not be used; its default stood", process.options.malformed);
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
  Unfreed unfreed = count_unfreed(process);
  if (unfreed.count == 0) return;
  const bool kept = process.dump.leaves_file();
  if (process.dump.header()->stop_reason == format::StopReason::kTruncated) return;  // said before, and not countable
  write_line("culprit: {} in {} allocation{} not freed. {} {}", readable_bytes(unfreed.bytes).text, unfreed.count,
             unfreed.count == 1 ? "" : "s", kept ? "See: culprit report" : "No dump was kept: CULPRIT_OUT is",
             process.dump.path());
}

}  // namespace culprit
