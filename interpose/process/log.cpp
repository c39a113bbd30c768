#include "interpose/process/log.h"

#include <errno.h>

#include <atomic>

#include "interpose/base/text_writer.h"
#include "interpose/base/utf8.h"
#include "interpose/format/shell_word.h"
#include "interpose/format/signal_names.h"
#include "interpose/loader/late_load.h"
#include "interpose/system/own_stack.h"

namespace culprit {
namespace {

// One line for stderr, cut if it is very long.
class Line {
 public:
  Line() : writer_(text_, sizeof(text_) - 1) { writer_ << "culprit: "; }
  ~Line() {
    std::size_t length = writer_.length();
    text_[length++] = '\n';
    write_stderr(text_, length);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  TextWriter& operator*() { return writer_; }

 private:
  char text_[4600];
  TextWriter writer_;
};

// The text of an error number, from libc if it has one, untranslated.
void add_error(TextWriter& to, int error) {
  auto* describe = reinterpret_cast<const char* (*)(int)>(libc_function("strerrordesc_np"));
  const char* text = describe != nullptr ? describe(error) : nullptr;
  if (text != nullptr) {
    to << text;
  } else {
    to << "error " << error;
  }
}

// Adds a user's value, cut at a maximum length.
void add_value(TextWriter& to, const char* value) {
  constexpr std::size_t kMost = 60;
  to.add(value, length_up_to(value, kMost));
}

void add_signal(TextWriter& to, int number) {
  const char* name = signal_name(number);
  if (name != nullptr) {
    to << name;
  } else {
    to << number;
  }
}

struct Unfreed {
  std::uint64_t bytes;
  std::uint64_t count;
};

Unfreed count_unfreed(DumpWriter& dump, DumpTables& tables) {
  Unfreed unfreed = {};
  // In the dump and not in the index, which has no record of a driver that was closed.
  dump.for_each_record<format::AllocationRecord>(
      format::ChunkType::kAllocations, [&](const format::AllocationRecord& record) {
        const bool physical = (record.flags & format::kFlagNotPhysical) == 0 && record.bytes != 0;
        if (!is_live_now(record) || !is_memory(record.kind) || !physical) return;
        unfreed.bytes += record.bytes;
        ++unfreed.count;
      });
  tables.releases.for_each(dump, [&](const format::ReleaseRecord& record) {
    unfreed.bytes += record.bytes;
    unfreed.count += record.bytes == 0 ? 0 : record.count;
  });
  return unfreed;
}

// The dump as a word of a command to type.
void add_path(TextWriter& line, const char* path) {
  std::size_t length = 0;
  while (path[length] != '\0') ++length;
  format::put_shell_word(path, length, format::ShellWord::kPath, false, [&](char c) { line.add(&c, 1); });
}

const char* reason_text(format::StopReason reason, int error) {
  switch (reason) {
    case format::StopReason::kFileSizeLimit:
      return "the file size limit (ulimit -f) is reached";
    case format::StopReason::kTooLarge:
      return "the dump has reached its largest size";
    case format::StopReason::kFileReplaced:
      if (error == EACCES || error == EPERM) return "the dump cannot be opened again as this user";
      return "the dump is no longer under its name (deleted, or another root directory)";
    case format::StopReason::kNoMemory:
      return "no memory for the index";
    case format::StopReason::kNoAddresses:
      return "the address space is limited (ulimit -v), and the dump has its share of it";
    case format::StopReason::kTruncated:
      return "the dump was truncated, and its content is lost";
    case format::StopReason::kNoDescriptor:
      return "no descriptor was free (ulimit -n) when the dump had to grow";
    case format::StopReason::kNoSpace:
    case format::StopReason::kNone:
      break;
  }
  return "the dump cannot grow";
}

}  // namespace

void warn_not_recording(const Options& options, const char* path, int error) {
  static std::atomic<bool> told{false};  // inherited by fork children
  if (options.log_level < LogLevel::kWarn || told.exchange(true)) return;
  on_own_stack([&] {
    Line line;
    *line << "warning: nothing is recorded: cannot create " << path << ": ";
    if (error == ESPIPE) {
      *line << "a dump is mapped memory, and this file cannot be mapped";
    } else {
      add_error(*line, error);
    }
    *line << ". " << (error == EISDIR ? "Name a file in it" : "Name a writable place") << " with CULPRIT_OUT.";
  });
}

void warn_no_memory(const Options& options) {
  if (options.log_level < LogLevel::kWarn) return;
  on_own_stack([] {
    Line line;
    *line << "warning: nothing is recorded: the limits of this process leave no room for the recorder's tables "
             "(ulimit -v, -d and -n).";
  });
}

void warn_signal_refused(const char* chosen, int used) {
  on_own_stack([&] {
    if (chosen_log_level() < LogLevel::kWarn) return;
    Line line;
    *line << "warning: CULPRIT_SIGNAL=";
    add_value(*line, chosen);
    *line << ": this signal cannot be used; ";
    add_signal(*line, used);
    *line << " is used";
  });
}

void warn_signal_taken(int number, bool ignored) {
  on_own_stack([&] {
    if (chosen_log_level() < LogLevel::kWarn) return;
    Line line;
    *line << "warning: signal ";
    add_signal(*line, number);
    *line << " is " << (ignored ? "ignored" : "handled by the program itself")
          << ": nothing is recorded, and no signal switches it on. Name another with CULPRIT_SIGNAL.";
  });
}

void warn_refused_options(const Options& options) {
  static std::atomic<bool> told{false};  // inherited by fork children
  if (options.refused_count == 0 || options.log_level < LogLevel::kWarn || told.exchange(true)) return;
  for (int i = 0; i < options.refused_count; ++i) {
    const RefusedOption& refused = options.refused[i];
    Line line;
    *line << "warning: " << refused.variable << "=";
    add_value(*line, refused.value);
    *line << ": this value cannot be used; " << refused.used << " is used";
  }
}

void warn_stopped(DumpWriter& dump) {
  Line line;
  if (!dump.stopped()) {
    *line << "warning: the dump has the size that CULPRIT_MAX_DUMP allows (";
    (*line).bytes(dump.header()->size_limit) << "): new events are recorded in the space of old ones";
  } else {
    *line << "warning: recording stopped: " << reason_text(dump.stop_reason(), dump.stop_errno());
    if (dump.stop_errno() != 0) add_error(*line << ": ", dump.stop_errno());
  }
  *line << ". The program runs on; the report counts the missing events (" << dump.path() << ").";
}

void log_pointer(const Options& options, std::uint64_t memory, std::uint64_t pointer, const char* place) {
  if (options.log_level < LogLevel::kDebug) return;
  Line line;
  *line << "debug: 0x";
  (*line).hex(memory) << " is referred to by 0x";
  (*line).hex(pointer) << ", " << place;
}

void log_not_held(const Options& options, const char* why) {
  if (options.log_level < LogLevel::kInfo) return;
  Line line;
  *line << "info: the other threads could not be stopped for the search at exit: " << why;
}

void log_summary(DumpWriter& dump, DumpTables& tables, const Options& options) {
  const LogLevel level = options.log_level;
  const format::Header* header = dump.header();
  if (level >= LogLevel::kInfo) {
    std::uint64_t allocations = 0, frees = 0;
    tables.counters.sum(&allocations, &frees, dump);
    Line line;
    *line << "info: " << allocations << " resources made, " << frees << " ended, " << header->late_frees
          << " refused at exit; dump " << dump.path() << " (";
    (*line).bytes(header->file_bytes) << ")";
  }
  if (level >= LogLevel::kDebug) {
    Line line;
    *line << "debug: dropped: " << header->dropped_allocations << " allocations, " << header->dropped_stacks
          << " stacks, " << header->dropped_others << " others";
  }
  if (options.quiet) return;
  if (header->unseen_users != 0) {
    // The first entry: its kind, then its path and a NUL.
    const char* entry = dump.at<char>(header->unseen_users) + sizeof(format::StringRecord);
    Line line;
    const auto how = static_cast<format::UnseenHow>(entry[0]);
    *line << entry + 1;
    if (how == format::UnseenHow::kDriver) {
      *line << " is one driver too many";
    } else {
      *line << " calls the CUDA driver past culprit ("
            << (how == format::UnseenHow::kNamespace ? "dlmopen" : "RTLD_DEEPBIND") << ")";
    }
    *line << ": none of these calls is recorded. See: culprit report ";
    add_path(*line, dump.path());
  }
  Unfreed unfreed = count_unfreed(dump, tables);
  if (unfreed.count == 0) return;
  const bool kept = dump.leaves_file();
  if (dump.stop_reason() == format::StopReason::kTruncated) return;  // warned before; the counts are lost
  Line line;
  (*line).bytes(unfreed.bytes) << " in " << unfreed.count << " allocation" << (unfreed.count == 1 ? "" : "s")
                               << " not freed. "
                               << (kept ? "See: culprit report " : "No dump was kept: CULPRIT_OUT is ");
  add_path(*line, dump.path());
}

}  // namespace culprit
