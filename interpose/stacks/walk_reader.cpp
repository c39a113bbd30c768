#include "interpose/stacks/walk_reader.h"

#include <errno.h>

#include <cstring>

#include "interpose/system/os.h"
#include "interpose/system/own_stack.h"
#include "interpose/system/readable_word.h"

namespace culprit {

__thread WalkReader* walk_reader __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

// Whether [address, address + 8) lies in [begin, end).
bool contains(std::uint64_t begin, std::uint64_t end, std::uint64_t address) {
  return address >= begin && address < end && end - address >= sizeof(std::uint64_t);
}

}  // namespace

WalkReader::WalkReader(const ucontext_t* registers) : registers_(reinterpret_cast<std::uint64_t>(registers)) {
  walk_reader = this;
}
WalkReader::~WalkReader() { walk_reader = nullptr; }

void WalkReader::trust(std::uint64_t address) {
  const std::uint64_t page = address & ~(kPage - 1);
  if (begin_ == end_) begin_ = end_ = page;
  if (page >= end_) end_ = page + kPage;
}

void WalkReader::begin_list(WalkedWords* list, const std::uint64_t* frame) {
  list_ = list;
  list->complete = frame != nullptr;
  list->count = 0;
  std::uint64_t unused = 0;
  if (frame != nullptr) read(reinterpret_cast<std::uint64_t>(frame + 1), &unused);
}

bool WalkReader::read(std::uint64_t address, std::uint64_t* value, WalkedWords::Kind kind, std::uint64_t cfa,
                      bool listed) {
  const bool done = fetch(address, value);
  if (!listed || list_ == nullptr || !list_->complete) return done;
  WalkedWords& list = *list_;
  // A register that our own functions saved is elsewhere next time, and memory that cannot be read now may be there.
  if (!done || is_own(address) || list.count == WalkedWords::kMost) {
    list.complete = false;
    return done;
  }
  // libunwind reads most return addresses twice.
  if (list.count != 0 && list.words[list.count - 1].address == address && list.words[list.count - 1].kind == kind)
    return done;
  const bool certain = guesses_ == 0 && contains(begin_, end_, address);
  list.words[list.count++] = {address, WalkedWords::decisive(kind, *value, cfa), cfa, kind, certain};
  return done;
}

bool WalkReader::is_own(std::uint64_t address) const {
  const bool in_registers = registers_ != 0 && address - registers_ <= sizeof(ucontext_t) - sizeof(address);
  return in_registers || in_own_stack(address);
}

bool WalkReader::fetch(std::uint64_t address, std::uint64_t* value) {
  if (contains(begin_, end_, address) || is_own(address)) {
    *value = read_in_place(address);
    return true;
  }
  const std::uint64_t page = address & ~(kPage - 1);
  if (guesses_ != 0 || !contains(page, page + kPage, address)) return fetch_copy(address, value);
  const bool first = begin_ == end_;
  if (!first && page != end_ && page + kPage != begin_) return fetch_copy(address, value);
  if (!is_readable_word(address)) return false;
  if (first) begin_ = page;
  if (first || page == end_) {
    end_ = page + kPage;
  } else {
    begin_ = page;
  }
  *value = read_in_place(address);
  return true;
}

bool WalkReader::fetch_copy(std::uint64_t address, std::uint64_t* value) {
  const std::uint64_t page = address & ~(kPage - 1);
  const bool in_page = contains(page, page + kPage, address);
  std::int64_t got = 0;
  if (!in_page) {
    got = os.read_own_memory(value, address, sizeof(*value));
    if (got == static_cast<std::int64_t>(sizeof(*value))) return true;
  } else {
    got = copied_ == page ? static_cast<std::int64_t>(kPage) : os.read_own_memory(copy_, page, kPage);
    if (got == static_cast<std::int64_t>(kPage)) {
      copied_ = page;
      std::memcpy(value, copy_ + (address - page), sizeof(*value));
      return true;
    }
    copied_ = 1;
  }
  if (got >= 0 || got == -EFAULT) return false;
  // That call is forbidden here.
  if (!is_readable_word(address)) return false;
  *value = read_in_place(address);
  return true;
}

}  // namespace culprit
