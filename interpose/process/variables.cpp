#include "interpose/process/variables.h"

#include <sys/mman.h>

#include <cstring>

#include "interpose/base/placement.h"
#include "interpose/loader/late_load.h"
#include "interpose/system/os.h"
#include "interpose/system/own_stack.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

struct Name {
  const char* text;
  std::size_t length;
};
template <std::size_t kBytes>
constexpr Name name_of(const char (&text)[kBytes]) {
  return {text, kBytes - 1};
}
constexpr Name kNames[] = {
#define OPTION_TEXT(member, variable, ...) name_of(variable),
#define OPTION_PATH(member, variable, ...) name_of(variable),
#define OPTION_NUMBER(member, variable, ...) name_of(variable),
#define OPTION_BYTES(member, variable, ...) name_of(variable),
#define OPTION_FLAG(member, variable, ...) name_of(variable),
#include "interpose/process/options.def"
#define LAUNCHER(rank, size, needs_size) name_of(rank), name_of(size),
#include "interpose/format/launchers.def"
};
constexpr char kOut[] = "CULPRIT_OUT";

// Which letters the names begin with: most variables of an environment are sorted out by their first one.
struct FirstLetters {
  bool is_one[256];
};
constexpr FirstLetters first_letters() {
  FirstLetters letters = {};
  for (const Name& name : kNames) letters.is_one[static_cast<unsigned char>(name.text[0])] = true;
  return letters;
}
constexpr FirstLetters kFirstLetters = first_letters();

CULPRIT_LOADING bool wants_name(const char* name, std::size_t length, const void*) {
  if (!kFirstLetters.is_one[static_cast<unsigned char>(name[0])]) return false;
  for (const Name& known : kNames) {
    if (known.length == length && std::memcmp(known.text, name, length) == 0) return true;
  }
  return false;
}

// `pattern`: the value of CULPRIT_OUT.
bool wants_part_of_path(const char* name, std::size_t length, const void* pattern) {
  const char* at = static_cast<const char*>(pattern);
  while ((at = std::strstr(at, "%q{")) != nullptr) {
    at += 3;
    if (std::strncmp(at, name, length) == 0 && at[length] == '}') return true;
  }
  return false;
}

bool has_parts(const char* pattern) { return pattern != nullptr && std::strstr(pattern, "%q{") != nullptr; }

}  // namespace

struct Variables::Copies {
  VariableCopies fixed;  // of kNames
  VariableCopies parts;  // of the variables in CULPRIT_OUT
};

namespace {

using Copies = Variables::Copies;
Copies at_load;
CULPRIT_AT_LOAD StartEnvironment start;
// Whether there are some: a process without such variables touches no page of them.
CULPRIT_AT_LOAD bool any_at_load;

const char* find(const Copies& copies, const char* name) {
  const std::size_t length = std::strlen(name);
  const char* found = copies.fixed.find(name, length);
  if (found == nullptr) found = copies.parts.find(name, length);
  return found != nullptr && found[0] != '\0' ? found : nullptr;
}

const char* find_at_load(const char* name) { return any_at_load ? find(at_load, name) : nullptr; }

// Copies by copy(wants, data, copies), which returns whether there may be some: first the variables of the list, then
// those that the pattern names.
template <typename Copy>
void copy_both(Copies* copies, const char* pattern, Copy copy) {
  const bool some = copy(wants_name, nullptr, &copies->fixed);
  if (pattern == nullptr && some) pattern = find(*copies, kOut);
  if (pattern == nullptr) pattern = find_at_load(kOut);
  if (has_parts(pattern)) copy(wants_part_of_path, pattern, &copies->parts);
}

}  // namespace

CULPRIT_LOADING void keep_variables(char* const* entries, bool remembers) {
  if (any_at_load) {
    at_load.fixed.clear();
    at_load.parts.clear();
  }
  if (entries != nullptr && !loaded_late()) {
    copy_both(&at_load, nullptr, [&](WantsVariable wants, const void* data, VariableCopies* copies) {
      const bool some = copy_variables_at_load(entries, wants, data, copies);
      if (some) any_at_load = true;
      return some;
    });
    if (remembers) start.remember(entries);
    return;
  }
  any_at_load = true;
  on_own_stack([] {
    copy_both(&at_load, nullptr, [](WantsVariable wants, const void* data, VariableCopies* copies) {
      if (loaded_late() || !copy_variables_of_start(wants, data, copies)) copy_variables(wants, data, copies);
      return true;
    });
  });
}

CULPRIT_LOADING const char* value_at_load(const char* name) { return find_at_load(name); }

Variables::Variables(const char* pattern) : now_(nullptr) {
  if (pattern == nullptr && start.is_unchanged()) return;
  int error = 0;
  now_ = static_cast<Copies*>(
      os.map(nullptr, sizeof(Copies), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &error));
  look_at_restrictions();  // the program may have a filter of system calls for some microseconds only
  if (now_ != nullptr) {
    copy_both(now_, pattern, [](WantsVariable wants, const void* data, VariableCopies* copies) {
      copy_variables(wants, data, copies);
      return true;
    });
  }
}

Variables::~Variables() {
  if (now_ != nullptr) os.unmap(now_, sizeof(Copies));
}

const char* Variables::value(const char* name) const {
  const char* found = now_ == nullptr ? nullptr : find(*now_, name);
  return found != nullptr ? found : find_at_load(name);
}

}  // namespace culprit
