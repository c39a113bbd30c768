#include "interpose/process/options.h"

#include <fcntl.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "interpose/base/text_writer.h"
#include "interpose/driver/fail_rules.h"
#include "interpose/format/signal_names.h"
#include "interpose/process/variables.h"
#include "interpose/system/process_names.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

// Returns false when the text is cut off.
bool read_text(char* member, std::size_t capacity, const char* value, const char* otherwise) {
  TextWriter to(member, capacity);
  to << (value != nullptr ? value : otherwise);
  return !to.cut();
}

bool read_number(int* member, const char* value, int otherwise, int least, int most) {
  *member = otherwise;
  if (value == nullptr) return true;
  char* end = nullptr;
  long number = std::strtol(value, &end, 10);
  if (*end != '\0' || number < least || number > most) return false;
  *member = static_cast<int>(number);
  return true;
}

// "4096", "64K", "64KiB", "2GB": K, M and G are powers of 1024, in any case.
bool read_bytes(std::uint64_t* member, const char* value, std::uint64_t otherwise, std::uint64_t least,
                std::uint64_t most) {
  *member = otherwise;
  if (value == nullptr) return true;
  std::uint64_t bytes = 0;
  const char* p = value;
  for (; *p >= '0' && *p <= '9' && bytes <= most; ++p) bytes = bytes * 10 + static_cast<std::uint64_t>(*p - '0');
  if (p == value) return false;
  const char* units = "kmg";
  const char* unit = *p == '\0' ? nullptr : std::strchr(units, *p | 0x20);
  if (unit != nullptr) {
    bytes <<= 10 * (unit - units + 1);
    ++p;
    if ((*p | 0x20) == 'i') ++p;
  }
  if ((*p | 0x20) == 'b') ++p;
  if (*p != '\0' || bytes < least || bytes > most) return false;
  *member = bytes;
  return true;
}

bool read_flag(bool* member, const char* value, bool otherwise) {
  *member = otherwise;
  if (value == nullptr) return true;
  for (const char* yes : {"1", "on", "yes", "true"}) {
    if (strcasecmp(value, yes) == 0) return *member = true;
  }
  for (const char* no : {"0", "off", "no", "false"}) {
    if (strcasecmp(value, no) == 0) {
      *member = false;
      return true;
    }
  }
  return false;
}

bool parse_scan(const char* text, Options* options) {
  options->search_holders = strcasecmp(text, "off") != 0;  // an invalid value is treated as unset
  options->search_lost = strcasecmp(text, "lost") == 0;
  return !options->search_holders || options->search_lost || strcasecmp(text, "exit") == 0;
}

// "4G"
struct Gigabytes {
  explicit Gigabytes(std::uint64_t bytes) { TextWriter(text, sizeof(text)) << (bytes >> 30) << "G"; }
  char text[16];
};

void refuse(Options* options, const Variables& variables, const char* variable, const char* used) {
  if (options->refused_count == Options::kMostRefused) return;
  RefusedOption& refused = options->refused[options->refused_count++];
  refused.variable = variable;
  copy_text(refused.value, sizeof(refused.value), variables.value(variable));
  copy_text(refused.used, sizeof(refused.used), used);
}

bool parse_log_level(const char* text, LogLevel* level) {
  constexpr const char* kNames[] = {"off", "error", "warn", "info", "debug"};
  for (int i = 0; i < 5; ++i) {
    if (strcasecmp(text, kNames[i]) == 0) {
      *level = static_cast<LogLevel>(i);
      return true;
    }
  }
  *level = LogLevel::kWarn;
  return false;
}

// Values of variables become part of one file name: a slash in them must not become a folder.
void add_as_name(TextWriter& to, const char* value) {
  for (; *value != '\0'; ++value) to.add(*value == '/' ? "_" : value, 1);
}

void add_program_name(TextWriter& to) {
  char program[4096];
  program_path(program, sizeof(program));
  const char* slash = std::strrchr(program, '/');
  add_as_name(to, slash != nullptr ? slash + 1 : "unknown");
}

}  // namespace

void read_options(const Variables& variables, Options* options) {
  options->refused_count = 0;
  options->paths_cut = false;
  const auto set = [&](const char* name) { return variables.value(name); };
#define OPTION_TEXT(member, variable, value, help) \
  read_text(options->member, sizeof(options->member), set(variable), value);
#define OPTION_PATH(member, variable, value, help) \
  if (!read_text(options->member, sizeof(options->member), set(variable), value)) options->paths_cut = true;
#define OPTION_NUMBER(member, variable, value, least, most, help) \
  if (!read_number(&options->member, set(variable), value, least, most)) refuse(options, variables, variable, #value);
#define OPTION_BYTES(member, variable, value, least, most, help)        \
  if (!read_bytes(&options->member, set(variable), value, least, most)) \
    refuse(options, variables, variable, Gigabytes(value).text);
#define OPTION_FLAG(member, variable, value, help) \
  if (!read_flag(&options->member, set(variable), value)) refuse(options, variables, variable, value ? "1" : "0");
#include "interpose/process/options.def"
  if (!parse_log_level(options->log, &options->log_level)) refuse(options, variables, "CULPRIT_LOG", "warn");
  // Only checked here: fault_injection.cpp reads the rules at the first call, and ignores an invalid value.
  FailRules rules;
  if (!parse_fail_rules(set("CULPRIT_FAIL"), &rules)) refuse(options, variables, "CULPRIT_FAIL", "no rule");
  if (strcasecmp(options->start, "signal") != 0 && strcasecmp(options->start, "now") != 0)
    refuse(options, variables, "CULPRIT_START", "now");
  if (!parse_scan(options->scan, options)) refuse(options, variables, "CULPRIT_SCAN", "exit");
}

LogLevel chosen_log_level() {
  LogLevel level = LogLevel::kWarn;
  const Variables variables;
  const char* value = variables.value("CULPRIT_LOG");
  if (value != nullptr) parse_log_level(value, &level);
  return level;
}

bool expand_path(const char* pattern, int pid, const Variables& variables, char* path, std::size_t capacity) {
  TextWriter to(path, capacity);
  if (pattern[0] != '/') {
    char folder[4096];
    long bytes = calls_restricted() ? 0 : system_call(SYS_getcwd, folder, sizeof(folder));
    to << (bytes > 0 ? folder : ".") << "/";
  }
  for (const char* p = pattern; *p != '\0'; ++p) {
    const char* end = nullptr;
    if (p[0] != '%' || p[1] == '\0') {
      to.add(p, 1);
    } else if (p[1] == 'p') {
      to << pid;
      ++p;
    } else if (p[1] == 'h') {
      char host[256];
      host_name(host, sizeof(host));
      add_as_name(to, host);
      ++p;
    } else if (p[1] == 'n') {
      add_program_name(to);
      ++p;
    } else if (p[1] == '%') {
      to << "%";
      ++p;
    } else if (p[1] == 'q' && p[2] == '{' && (end = std::strchr(p, '}')) != nullptr && end - p - 3 < 255) {
      char name[256];
      std::size_t length = static_cast<std::size_t>(end - p - 3);
      std::memcpy(name, p + 3, length);
      name[length] = '\0';
      const char* value = variables.value(name);
      add_as_name(to, value != nullptr ? value : "");
      p = end;
    } else {
      to.add(p, 1);
    }
  }
  return !to.cut();
}

}  // namespace culprit
