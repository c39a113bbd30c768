#include "interpose/log.h"

#include <errno.h>

#include <cstdio>
#include <cstring>

// spdlog's own registry and sinks are not used: they would start from static constructors and take locks that a fork
// child may find taken. One logger on the stack, one sink that writes to descriptor 2.
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include "interpose/process.h"

namespace culprit {
namespace {

class StderrSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    write_stderr(text.data(), text.size());
  }
  void flush_() override {}
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return spdlog::level::off;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::warn;
}

std::string readable_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
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
    case format::StopReason::kNoSpace:
    case format::StopReason::kNone:
      break;
  }
  return "the dump can not grow";
}

void write_line(const char* line, int length, std::size_t capacity) {
  if (length > 0)
    write_stderr(line, static_cast<std::size_t>(length) < capacity ? static_cast<std::size_t>(length) : capacity - 1);
}

}  // namespace

void warn_not_recording(const Options& options, const char* path, int error) {
  if (options.log_level < LogLevel::kWarn) return;
  char line[4600];
  int length = std::snprintf(
      line, sizeof(line),
      "culprit: warning: nothing is recorded: can not create %s: %s. Name a writable place with CULPRIT_OUT.\n", path,
      strerrordesc_np(error));
  write_line(line, length, sizeof(line));
}

void warn_if_stopped(Process& process) {
  if (!process.dump.stopped() || process.stop_warned.exchange(1) != 0) return;
  if (process.options.log_level < LogLevel::kWarn) return;
  const format::Header* header = process.dump.header();
  char line[4600];
  int error = header->stop_errno;
  int length = std::snprintf(
      line, sizeof(line),
      "culprit: warning: recording stopped: %s%s%s. The program runs on; the report counts what is missing (%s).\n",
      reason_text(header->stop_reason), error != 0 ? ": " : "", error != 0 ? strerrordesc_np(error) : "",
      process.dump.path());
  write_line(line, length, sizeof(line));
}

void log_summary(Process& process) {
  spdlog::logger log("culprit", std::make_shared<StderrSink>());
  log.set_level(spdlog_level(process.options.log_level));
  log.set_formatter(std::make_unique<spdlog::pattern_formatter>("culprit: %l: %v"));
  if (process.options.malformed != nullptr) {
    log.warn("{} has a value that can not be used; its default stood", process.options.malformed);
  }
  const format::Header* header = process.dump.header();
  std::uint64_t allocations = 0, frees = 0;
  process.counters.sum(&allocations, &frees, process.dump);
  log.info("{} things made, {} given back, {} late; dump {} ({})", allocations, frees, header->late_frees,
           process.dump.path(), readable_bytes(header->file_bytes));
  log.debug("dropped: {} allocations, {} stacks, {} others", header->dropped_allocations, header->dropped_stacks,
            header->dropped_others);
  if (process.options.quiet) return;
  Unfreed unfreed = count_unfreed(process);
  if (unfreed.count == 0) return;
  std::string line =
      fmt::format("culprit: {} in {} allocation{} not freed. See: culprit report {}\n", readable_bytes(unfreed.bytes),
                  unfreed.count, unfreed.count == 1 ? "" : "s", process.dump.path());
  write_stderr(line.data(), line.size());
}

}  // namespace culprit
