#include "interpose/system/environment.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "interpose/base/hash.h"
#include "interpose/base/placement.h"
#include "interpose/system/os.h"

// libc's variable, by the name that libc itself uses. The loader binds it to a program's copy of it, if there is one.
extern "C" __attribute__((weak, visibility("default"))) char** __environ;

namespace culprit {
namespace {

constexpr int kMostTries = 20;
constexpr std::uint64_t kMostEntries = 1 << 16;  // a limit for an array without an end
constexpr std::size_t kLongestEntry = VariableCopies::kLongestName + 1 + VariableCopies::kLongestValue;

// The length of the name at the beginning of an entry, 0 when it is none.
std::size_t name_length(const char* entry, std::size_t bytes) {
  const std::size_t most = std::min(bytes, VariableCopies::kLongestName + 1);
  std::size_t length = 0;
  while (length < most && entry[length] != '=' && entry[length] != '\0') ++length;
  return length < most && entry[length] == '=' ? length : 0;
}

// A part of this process's memory, copied by a system call.
template <std::size_t kCapacity>
class Window {
 public:
  // The memory from `address` on, of which `bytes` can be read: at least `least` if they are readable at all. A part
  // that an earlier call has copied is used again.
  const char* at(std::uint64_t address, std::size_t least, std::size_t* bytes) {
    const bool is_inside = address >= begin_ && address - begin_ < bytes_;
    const bool is_enough = is_inside && (bytes_ - (address - begin_) >= least || bytes_ < kCapacity);
    if (!is_enough) {
      const std::int64_t got = os.read_own_memory(text_, address, kCapacity);
      begin_ = address;
      bytes_ = got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    *bytes = static_cast<std::size_t>(begin_ + bytes_ - address);
    return text_ + (address - begin_);
  }
  void forget() { bytes_ = 0; }

 private:
  std::uint64_t begin_ = 0;
  std::size_t bytes_ = 0;
  char text_[kCapacity];
};

bool read_word(std::uint64_t address, std::uint64_t* word) {
  return os.read_own_memory(word, address, sizeof(*word)) == static_cast<std::int64_t>(sizeof(*word));
}

class Reader {
 public:
  Reader(WantsVariable wants, const void* data, VariableCopies* copies) : wants_(wants), data_(data), copies_(copies) {}

  // Copies what it can, besides what is there already. False: an entry was not there any more when it had been copied,
  // or the array changed meanwhile. A new array may have the address of an old one, so all words are read twice.
  bool read(std::uint64_t where) {
    Pass first = {}, second = {};
    if (!pass(where, &first, true) || !pass(where, &second, false)) return false;
    return first.array == second.array && first.entries == second.entries && first.mixed == second.mixed;
  }

 private:
  struct Pass {
    std::uint64_t array;
    std::uint64_t entries;
    std::uint64_t mixed;  // all entries' addresses
  };

  bool pass(std::uint64_t where, Pass* pass, bool copies) {
    words_.forget();
    strings_.forget();
    if (!read_word(where, &pass->array)) return false;
    bool is_certain = true;
    while (pass->array != 0 && pass->entries < kMostEntries) {
      const std::uint64_t place = pass->array + pass->entries * sizeof(std::uint64_t);
      std::size_t bytes = 0;
      std::uint64_t entry = 0;
      const char* word = words_.at(place, sizeof(entry), &bytes);
      if (bytes < sizeof(entry)) return false;
      std::memcpy(&entry, word, sizeof(entry));
      if (entry == 0) break;
      ++pass->entries;
      pass->mixed = mix(pass->mixed ^ entry);
      if (copies) is_certain = read_entry(place, entry) && is_certain;
    }
    std::uint64_t now = 0;
    return is_certain && read_word(where, &now) && now == pass->array;
  }

  bool read_entry(std::uint64_t place, std::uint64_t entry) {
    std::size_t bytes = 0;
    const char* text = strings_.at(entry, VariableCopies::kLongestName + 1, &bytes);
    const std::size_t name = name_length(text, bytes);
    if (name == 0 || !wants_(text, name, data_)) return true;
    const std::size_t wanted = std::min(kLongestEntry, name + 1 + VariableCopies::kLongestValue);
    text = strings_.at(entry, wanted, &bytes);
    const std::size_t length = ::strnlen(text, std::min(bytes, wanted));
    std::uint64_t now = 0;
    if (length <= name || !read_word(place, &now) || now != entry) return false;
    if (copies_->find(text, name) == nullptr) copies_->add(text, length);
    return true;
  }

  WantsVariable wants_;
  const void* data_;
  VariableCopies* copies_;
  Window<2048> words_;
  Window<2 * VariableCopies::kLongestValue> strings_;
};

}  // namespace

const char* VariableCopies::find(const char* name, std::size_t length) const {
  for (std::size_t at = 0; at < used_; at += std::strlen(text_ + at) + 1) {
    if (std::strncmp(text_ + at, name, length) == 0 && text_[at + length] == '=') return text_ + at + length + 1;
  }
  return nullptr;
}

void VariableCopies::add(const char* entry, std::size_t length) {
  if (length + 1 > kBytes - used_) return;
  std::memcpy(text_ + used_, entry, length);
  text_[used_ + length] = '\0';
  used_ += static_cast<std::uint32_t>(length + 1);
}

CULPRIT_LOADING bool copy_variables_at_load(char* const* entries, WantsVariable wants, const void* data,
                                            VariableCopies* copies) {
  bool found = false;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::size_t name = name_length(*entries, VariableCopies::kLongestName + 1);
    if (name == 0 || !wants(*entries, name, data)) continue;
    copies->add(*entries, ::strnlen(*entries, name + 1 + VariableCopies::kLongestValue));
    found = true;
  }
  return found;
}

CULPRIT_LOADING void StartEnvironment::remember(char* const* entries) {
  entries_ = entries;
  first_ = entries == nullptr ? nullptr : entries[0];
  sum_ = first_ == nullptr ? 0 : sum();
}

bool StartEnvironment::is_unchanged() const {
  if (sum_ == 0 || &__environ == nullptr || __atomic_load_n(&__environ, __ATOMIC_RELAXED) != entries_) return false;
  return sum() == sum_;
}

// 0: larger than kMostBytes, or not as the kernel lays it out. Only strings that lie behind one another are read: a
// pointer that setenv() has stored leads to memory that may be freed meanwhile.
CULPRIT_LOADING std::uint64_t StartEnvironment::sum() const {
  std::uint64_t mixed = 1;
  std::size_t most = kMostBytes;
  const char* at = first_;
  for (std::size_t i = 0;; ++i) {
    const char* entry = __atomic_load_n(&entries_[i], __ATOMIC_RELAXED);
    if (entry == nullptr) return mixed;
    if (entry != at) return 0;
    const std::size_t bytes = ::strnlen(entry, most) + 1;
    if (bytes > most) return 0;
    most -= bytes;
    for (; at + sizeof(std::uint64_t) <= entry + bytes; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof(word));
      mixed = mix(mixed ^ word);
    }
    for (; at < entry + bytes; ++at) mixed = mix(mixed ^ static_cast<unsigned char>(*at));
  }
}

bool copy_variables_of_start(WantsVariable wants, const void* data, VariableCopies* copies) {
  const int fd = os.open_file("/proc/self/environ", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return false;
  char text[2 * kLongestEntry];
  std::int64_t got = 0;
  bool is_rest = false;  // of an entry that did not fit
  for (std::uint64_t offset = 0; (got = os.read_at(fd, text, sizeof(text), offset)) > 0;) {
    const auto bytes = static_cast<std::size_t>(got);
    std::size_t at = 0;
    while (at < bytes) {
      const std::size_t length = ::strnlen(text + at, bytes - at);
      const bool is_whole = at + length < bytes;
      if (!is_whole && at != 0) break;  // read again, from its beginning on
      const std::size_t name = is_rest ? 0 : name_length(text + at, length);
      if (name != 0 && wants(text + at, name, data))
        copies->add(text + at, std::min(length, name + 1 + VariableCopies::kLongestValue));
      is_rest = !is_whole;
      at += is_whole ? length + 1 : length;
    }
    offset += at;
  }
  os.close_file(fd);
  return true;
}

bool copy_variables_of(char** const* where, WantsVariable wants, const void* data, VariableCopies* copies) {
  copies->clear();
  Reader reader(wants, data, copies);
  for (int i = 0; i < kMostTries; ++i) {
    if (reader.read(reinterpret_cast<std::uint64_t>(where))) return true;
  }
  return false;
}

bool copy_variables(WantsVariable wants, const void* data, VariableCopies* copies) {
  return &__environ != nullptr && copy_variables_of(&__environ, wants, data, copies);
}

}  // namespace culprit
