#include "interpose/owners/lsda.h"

#include <cstring>

namespace culprit {
namespace {

// Pointer encodings: Linux Standard Base, "DWARF Exception Header Encoding".
constexpr std::uint8_t kAbsolute = 0x00;
constexpr std::uint8_t kUleb = 0x01;
constexpr std::uint8_t kUdata2 = 0x02;
constexpr std::uint8_t kUdata4 = 0x03;
constexpr std::uint8_t kUdata8 = 0x04;
constexpr std::uint8_t kSleb = 0x09;
constexpr std::uint8_t kSdata2 = 0x0a;
constexpr std::uint8_t kSdata4 = 0x0b;
constexpr std::uint8_t kSdata8 = 0x0c;
constexpr std::uint8_t kRelativeToItself = 0x10;
constexpr std::uint8_t kIndirect = 0x80;
constexpr std::uint8_t kOmitted = 0xff;

// A position in the table; `ok` turns false at the first read beyond the end.
struct Cursor {
  const std::uint8_t* at;
  const std::uint8_t* end;
  bool ok = true;

  std::uint8_t byte() {
    if (!ok || at >= end) {
      ok = false;
      return 0;
    }
    return *at++;
  }
  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      std::uint8_t next = byte();
      if (!ok) return 0;
      if (shift < 64) value |= std::uint64_t{next & 0x7fU} << shift;
      if ((next & 0x80) == 0) return value;
    }
  }
  std::int64_t sleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      std::uint8_t next = byte();
      if (!ok) return 0;
      if (shift < 64) value |= std::uint64_t{next & 0x7fU} << shift;
      shift += 7;
      if ((next & 0x80) != 0) continue;
      if (shift < 64 && (next & 0x40) != 0) value |= ~0ULL << shift;
      return static_cast<std::int64_t>(value);
    }
  }
  template <typename T>
  T fixed() {
    T value = 0;
    if (!ok || static_cast<std::uint64_t>(end - at) < sizeof(T)) {
      ok = false;
      return 0;
    }
    std::memcpy(&value, at, sizeof(T));
    at += sizeof(T);
    return value;
  }
  // The low four bits of an encoding: the form of the number.
  std::uint64_t number(std::uint8_t encoding) {
    switch (encoding & 0x0f) {
      case kAbsolute:
      case kUdata8:
      case kSdata8:
        return fixed<std::uint64_t>();
      case kUleb:
        return uleb();
      case kUdata2:
        return fixed<std::uint16_t>();
      case kUdata4:
        return fixed<std::uint32_t>();
      case kSleb:
        return static_cast<std::uint64_t>(sleb());
      case kSdata2:
        return static_cast<std::uint64_t>(std::int64_t{fixed<std::int16_t>()});
      case kSdata4:
        return static_cast<std::uint64_t>(std::int64_t{fixed<std::int32_t>()});
      default:
        ok = false;
        return 0;
    }
  }
};

// Size of an entry of the type table, 0 = no fixed size.
std::uint64_t size_of(std::uint8_t encoding) {
  switch (encoding & 0x0f) {
    case kAbsolute:
    case kUdata8:
    case kSdata8:
      return 8;
    case kUdata4:
    case kSdata4:
      return 4;
    case kUdata2:
    case kSdata2:
      return 2;
    default:
      return 0;
  }
}

}  // namespace

Lsda::Lsda(const std::uint8_t* data, const std::uint8_t* end, std::uint64_t function)
    : function_(function), landing_pads_(function), begin_(data), end_(end) {
  if (data == nullptr) return;
  Cursor cursor = {data, end};
  std::uint8_t start_encoding = cursor.byte();
  if (start_encoding != kOmitted) {
    // The base of landing pads; compilers omit it.
    if ((start_encoding & 0x70) != kAbsolute || (start_encoding & kIndirect) != 0) return;
    landing_pads_ = cursor.number(start_encoding);
  }
  type_encoding_ = cursor.byte();
  if (type_encoding_ != kOmitted) {
    std::uint64_t offset = cursor.uleb();
    if (!cursor.ok || offset > static_cast<std::uint64_t>(end - cursor.at)) return;
    types_ = cursor.at + offset;
  }
  call_site_encoding_ = cursor.byte();
  std::uint64_t bytes = cursor.uleb();
  if (!cursor.ok || bytes > static_cast<std::uint64_t>(end - cursor.at)) return;
  call_sites_ = cursor.at;
  actions_ = cursor.at + bytes;
  valid_ = true;
}

template <typename Visit>
void Lsda::for_each_call_site(Visit visit) const {
  if (!valid_) return;
  Cursor cursor = {call_sites_, actions_};
  while (cursor.at < actions_) {
    std::uint64_t begin = function_ + cursor.number(call_site_encoding_);
    std::uint64_t length = cursor.number(call_site_encoding_);
    std::uint64_t pad = cursor.number(call_site_encoding_);
    std::uint64_t action = cursor.uleb();
    if (!cursor.ok || visit(begin, begin + length, pad == 0 ? 0 : landing_pads_ + pad, action)) return;
  }
}

void Lsda::read_actions(std::uint64_t first, CallSite* site) const {
  site->cleans_up = false;
  site->count = 0;
  if (site->landing_pad == 0) return;
  if (first == 0) {
    site->cleans_up = true;
    return;
  }
  const std::uint8_t* end = types_ != nullptr && types_ > actions_ && types_ < end_ ? types_ : end_;
  if (first - 1 >= static_cast<std::uint64_t>(end - actions_)) return;
  Cursor cursor = {actions_ + (first - 1), end};
  for (int steps = 0; steps < 2 * kMostActions; ++steps) {
    std::int64_t filter = cursor.sleb();
    const std::uint8_t* place = cursor.at;
    std::int64_t next = cursor.sleb();
    if (!cursor.ok) return;
    if (filter == 0) site->cleans_up = true;
    if (filter > 0 && site->count < kMostActions) site->filters[site->count++] = filter;
    if (next == 0 || next < actions_ - place || next >= end - place) return;
    cursor.at = place + next;
  }
}

Lsda::CallSite Lsda::call_site(std::uint64_t return_address) const {
  CallSite site = {};
  for_each_call_site([&](std::uint64_t begin, std::uint64_t end, std::uint64_t pad, std::uint64_t action) {
    if (return_address - 1 < begin || return_address - 1 >= end) return false;
    site.found = true;
    site.landing_pad = pad;
    read_actions(action, &site);
    return true;
  });
  return site;
}

bool Lsda::type_of(std::int64_t filter, TypeInfo* type) const {
  std::uint64_t size = size_of(type_encoding_);
  std::uint8_t relation = type_encoding_ & 0x70;
  if (!valid_ || types_ == nullptr || size == 0 || filter <= 0 || (relation != 0 && relation != kRelativeToItself))
    return false;
  if (static_cast<std::uint64_t>(filter) > static_cast<std::uint64_t>(types_ - begin_) / size) return false;
  const std::uint8_t* place = types_ - static_cast<std::uint64_t>(filter) * size;
  Cursor cursor = {place, end_};
  std::uint64_t value = cursor.number(type_encoding_);
  if (!cursor.ok) return false;
  if (value != 0 && relation == kRelativeToItself) value += reinterpret_cast<std::uint64_t>(place);
  // The pointer was relocated by the loader, and is as valid as for the program's own use.
  if (value != 0 && (type_encoding_ & kIndirect) != 0)
    std::memcpy(&value, reinterpret_cast<void*>(value), sizeof(value));
  *type = reinterpret_cast<TypeInfo>(value);
  return true;
}

SameHandler same_handler(const Lsda& thrown_lsda, std::uint64_t thrown, const Lsda& other_lsda, std::uint64_t other,
                         bool only_handler, TypeInfo type, Catches catches) {
  const Lsda::CallSite from = thrown_lsda.call_site(thrown);
  const Lsda::CallSite to = other_lsda.call_site(other);
  if (from.count == 0 || to.count == 0) return SameHandler::kNo;
  if (from.landing_pad == to.landing_pad) return SameHandler::kYes;

  // The handler that caught the exception: the first one in the chain that accepts this type.
  int caught = -1;
  int unknown = -1;
  for (int i = 0; i < from.count && caught < 0; ++i) {
    TypeInfo handler = nullptr;
    int answer = thrown_lsda.type_of(from.filters[i], &handler) ? catches(type, handler) : -1;
    if (answer == 1) caught = i;
    if (answer < 0 && unknown < 0) unknown = i;
  }
  if (caught < 0) caught = unknown;
  if (caught < 0) return SameHandler::kNo;

  // It also covers the other call if the chain from it on is the end of the other's chain. All chains of one function
  // number their types alike.
  const std::int64_t* tail = from.filters + caught;
  int length = from.count - caught;
  if (to.count < length) return SameHandler::kNo;
  for (int i = 0; i < length; ++i) {
    if (to.filters[to.count - length + i] != tail[i]) return SameHandler::kNo;
  }
  if (only_handler) return SameHandler::kYes;

  // Several try blocks may have such handlers. Two landing pads with the same handlers, in one part of the function,
  // without cleanups in between, are two blocks; clang++ omits cleanups before a catch (...).
  TypeInfo last = nullptr;
  bool catches_all = thrown_lsda.type_of(tail[length - 1], &last) && last == nullptr;
  if (catches_all || !thrown_lsda.same_table(other_lsda)) return SameHandler::kPerhaps;
  if (caught == 0 && to.count == from.count && !from.cleans_up && !to.cleans_up) return SameHandler::kNo;
  return SameHandler::kPerhaps;
}

}  // namespace culprit
