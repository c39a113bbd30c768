// The properties of the kinds of allocations and resources, for both programs: made from kinds.def. Part of
// dump_format.h. Nothing here allocates or fails; callable from any thread and from signal handlers.
#pragma once

#include <cstdint>

namespace culprit::format {

// The kind of an allocation or resource, as dumps store it.
enum class Kind : std::uint8_t {
  kNone = 0,
#define KIND(number, enumerator, ...) enumerator = (number),
#include "interpose/format/kinds.def"
};

enum class KindSort : std::uint8_t {
  kDeviceMemory,  // GPU memory of this process
  kHostMemory,    // pinned or registered host memory
  kNoBytes,       // concerns memory and counts 0 bytes: address ranges, imports, pools
  kInside,        // a part of other memory, whose bytes are counted there
  kObject,        // streams, events, code, ...
  kNeverCounted,  // no leak: an object of the CUDA runtime, an announcement
};

enum class Lifetime : std::uint8_t {
  kContext,      // released with its context
  kIndependent,  // stays until it is ended
};

enum class FailedCalls : std::uint8_t { kIgnored, kRecorded };

struct KindRow {
  Kind kind;
  const char* name;
  const char* one;
  const char* many;
  KindSort sort;
  Kind handles;
  Lifetime lifetime;
  std::uint64_t also_ended;  // bit N: the functions that end kind N end this one, too
  FailedCalls failures;
};

namespace kinds {

// The numbers, for the column `also ended`.
enum Number : unsigned {
#define KIND(number, enumerator, ...) enumerator = (number),
#include "interpose/format/kinds.def"
};

template <typename... Number>
constexpr std::uint64_t by(Number... numbers) {
  return (std::uint64_t{0} | ... | (std::uint64_t{1} << numbers));
}

constexpr KindRow kRows[] = {
#define KIND(number, enumerator, name, one, many, sort, handles, lifetime, also_ended, failures)           \
  {Kind::enumerator,     name, one, many, KindSort::sort, Kind::handles, Lifetime::lifetime, (also_ended), \
   FailedCalls::failures},
#include "interpose/format/kinds.def"
};

constexpr const KindRow* find(Kind kind) {
  for (const KindRow& row : kRows) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

// Bit N: `holds` is true for the row of kind N.
template <typename Predicate>
constexpr std::uint64_t where(Predicate holds) {
  std::uint64_t set = 0;
  for (const KindRow& row : kRows) {
    if (holds(row)) set |= std::uint64_t{1} << static_cast<unsigned>(row.kind);
  }
  return set;
}

// For a kind without a row (kNone, or one that a newer version wrote) below 64: false.
constexpr bool has(std::uint64_t set, Kind kind) { return (set >> (static_cast<unsigned>(kind) & 63) & 1) != 0; }

constexpr std::uint64_t kMemory = where([](const KindRow& row) {
  return row.sort == KindSort::kDeviceMemory || row.sort == KindSort::kHostMemory || row.sort == KindSort::kNoBytes ||
         row.sort == KindSort::kInside;
});
constexpr std::uint64_t kOnDevice =
    where([](const KindRow& row) { return row.sort == KindSort::kDeviceMemory || row.sort == KindSort::kNoBytes; });
constexpr std::uint64_t kPhysical =
    where([](const KindRow& row) { return row.sort == KindSort::kDeviceMemory || row.sort == KindSort::kHostMemory; });
constexpr std::uint64_t kInContext = where([](const KindRow& row) { return row.lifetime == Lifetime::kContext; });
constexpr std::uint64_t kFailureRecorded =
    where([](const KindRow& row) { return row.failures == FailedCalls::kRecorded; });

// A mistake in a row that the types do not show.
constexpr bool rows_are_right() {
  std::uint64_t seen = 0;
  for (const KindRow& row : kRows) {
    const unsigned number = static_cast<unsigned>(row.kind);
    if (number == 0 || number > 63 || (seen >> number & 1) != 0) return false;
    seen |= std::uint64_t{1} << number;
    const KindRow* owner = find(row.handles);
    if (owner == nullptr || owner->handles != owner->kind) return false;
  }
  return true;
}
static_assert(rows_are_right(),
              "a number is used twice or out of range, or a row of `handles` has another row's space");

// The columns that are looked up while a program runs, by number.
struct Columns {
  std::uint8_t handles[64];
  std::uint64_t also_ended[64];
};
constexpr Columns make_columns() {
  Columns columns = {};
  for (const KindRow& row : kRows) {
    columns.handles[static_cast<unsigned>(row.kind)] = static_cast<std::uint8_t>(row.handles);
    columns.also_ended[static_cast<unsigned>(row.kind)] = row.also_ended;
  }
  return columns;
}
inline constexpr Columns kColumns = make_columns();

}  // namespace kinds

// Memory, an address range, something that stands for memory of others, or a part of other memory.
constexpr bool is_memory(Kind kind) { return kinds::has(kinds::kMemory, kind); }
// Part of a device's "used" figure, or of its address space with 0 bytes.
constexpr bool is_on_device(Kind kind) { return kinds::has(kinds::kOnDevice, kind); }
// Takes device or host memory of its own.
constexpr bool is_physical(Kind kind) { return kinds::has(kinds::kPhysical, kind); }
// Released with its context.
constexpr bool lives_in_context(Kind kind) { return kinds::has(kinds::kInContext, kind); }
// A failed call that would have made one is recorded.
constexpr bool has_recorded_failures(Kind kind) { return kinds::has(kinds::kFailureRecorded, kind); }
// The functions that end kind `by` also end kind `what`.
constexpr bool ends(Kind by, Kind what) {
  return by == what || kinds::has(kinds::kColumns.also_ended[static_cast<unsigned>(what) & 63], by);
}
// The space in which a handle of this kind is looked up: a set of kinds with distinct handles, never 0.
constexpr std::uint8_t space_of(Kind kind) { return kinds::kColumns.handles[static_cast<unsigned>(kind) & 63]; }

}  // namespace culprit::format
