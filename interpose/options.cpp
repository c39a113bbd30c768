#include "interpose/options.h"

#include "interpose/fail_rules.h"
#include "interpose/process_names.h"
#include "interpose/restrictions.h"
#include "interpose/signal_names.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace culprit {
namespace {

void read_text(char* member, std::size_t capacity, const char* variable, const char* otherwise) {
  const char* value = getenv(variable);
  std::snprintf(member, capacity, "%s", value != nullptr && value[0] != '\0' ? value : otherwise);
}

bool read_number(int* member, const char* variable, int otherwise, int least, int most) {
  *member = otherwise;
  const char* value = getenv(variable);
  if (value == nullptr || value[0] == '\0') return true;
  char* end = nullptr;
  long number = std::strtol(value, &end, 10);
  if (*end != '\0' || number < least || number > most) return false;
  *member = static_cast<int>(number);
  return true;
}

// "4096", "64K", "64KiB", "2GB": K, M and G are powers of 1024, in any case.
bool read_bytes(std::uint64_t* member, const char* variable, std::uint64_t otherwise, std::uint64_t least,
                std::uint64_t most) {
  *member = otherwise;
  const char* value = getenv(variable);
  if (value == nullptr || value[0] == '\0') return true;
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

bool read_flag(bool* member, const char* variable, bool otherwise) {
  *member = otherwise;
  const char* value = getenv(variable);
  if (value == nullptr || value[0] == '\0') return true;
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

bool parse_scan(const char* text, bool* search_holders) {
  *search_holders = strcasecmp(text, "off") != 0;
  return !*search_holders || strcasecmp(text, "exit") == 0;
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

// Appends at most what fits, keeping room for the NUL.
struct Appender {
  char* text;
  int capacity;
  int length = 0;
  void add(const char* what, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes && length + 1 < capacity; ++i) text[length++] = what[i];
    text[length] = '\0';
  }
  void add(const char* what) { add(what, std::strlen(what)); }
};

// Values of variables become part of one file name: a slash in them must not become a folder.
void add_as_name(Appender& to, const char* value) {
  for (; *value != '\0'; ++value) to.add(*value == '/' ? "_" : value, 1);
}

void add_program_name(Appender& to) {
  char program[4096];
  program_path(program, sizeof(program));
  const char* slash = std::strrchr(program, '/');
  add_as_name(to, slash != nullptr ? slash + 1 : "unknown");
}

}  // namespace

void read_options(Options* options) {
  options->malformed = nullptr;
#define OPTION_TEXT(member, variable, value, help) read_text(options->member, sizeof(options->member), variable, value);
#define OPTION_NUMBER(member, variable, value, least, most, help) \
  if (!read_number(&options->member, variable, value, least, most)) options->malformed = variable;
#define OPTION_BYTES(member, variable, value, least, most, help) \
  if (!read_bytes(&options->member, variable, value, least, most)) options->malformed = variable;
#define OPTION_FLAG(member, variable, value, help) \
  if (!read_flag(&options->member, variable, value)) options->malformed = variable;
#include "interpose/options.def"
  if (!parse_log_level(options->log, &options->log_level)) options->malformed = "CULPRIT_LOG";
  // What can not be understood fails nothing: see fault_injection.cpp, which had to decide at load.
  FailRules rules;
  if (!parse_fail_rules(getenv("CULPRIT_FAIL"), &rules)) options->malformed = "CULPRIT_FAIL";
  if (strcasecmp(options->start, "signal") != 0 && strcasecmp(options->start, "now") != 0)
    options->malformed = "CULPRIT_START";
  if (parse_signal(options->signal) == 0) options->malformed = "CULPRIT_SIGNAL";
  if (!parse_scan(options->scan, &options->search_holders)) options->malformed = "CULPRIT_SCAN";
}

int expand_path(const char* pattern, int pid, char* path, int capacity) {
  Appender to = {path, capacity};
  path[0] = '\0';
  if (pattern[0] != '/') {
    if (calls_restricted() || syscall(SYS_getcwd, path, capacity) < 0)
      std::snprintf(path, static_cast<std::size_t>(capacity), ".");
    to.length = static_cast<int>(std::strlen(path));
    to.add("/");
  }
  for (const char* p = pattern; *p != '\0'; ++p) {
    const char* end = nullptr;
    char number[16];
    if (p[0] != '%' || p[1] == '\0') {
      to.add(p, 1);
    } else if (p[1] == 'p') {
      std::snprintf(number, sizeof(number), "%d", pid);
      to.add(number);
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
      to.add("%");
      ++p;
    } else if (p[1] == 'q' && p[2] == '{' && (end = std::strchr(p, '}')) != nullptr && end - p - 3 < 255) {
      char name[256];
      std::size_t length = static_cast<std::size_t>(end - p - 3);
      std::memcpy(name, p + 3, length);
      name[length] = '\0';
      const char* value = getenv(name);
      add_as_name(to, value != nullptr ? value : "");
      p = end;
    } else {
      to.add(p, 1);
    }
  }
  return to.length;
}

}  // namespace culprit
