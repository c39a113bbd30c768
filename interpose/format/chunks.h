// The properties of the chunks of a dump, for both programs: made from chunks.def. Part of dump_format.h.
// Nothing here allocates or fails; callable from any thread and from signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "interpose/format/dump_balance.h"
#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"
#include "interpose/format/dump_marks.h"
#include "interpose/format/dump_records.h"
#include "interpose/format/dump_sharing.h"

namespace culprit::format {

struct ChunkRow {
  ChunkType type;
  std::uint32_t record_bytes;  // 0 = packed
  std::uint32_t first_kib;
  std::uint32_t next_kib;
  std::uint32_t own_room;   // in 32nds of the dump's limit
  std::uint32_t file_room;  // likewise
};

constexpr ChunkRow kChunkRows[] = {
#define CHUNK(number, enumerator, record, member, first, next, own_room, file_room) \
  {ChunkType::enumerator, sizeof(record), first, next, own_room, file_room},
#define CHUNK_PACKED(number, enumerator, record, member, first, next, own_room, file_room) \
  {ChunkType::enumerator, 0, first, next, own_room, file_room},
#include "interpose/format/chunks.def"
};
constexpr std::uint32_t kChunkTypes = sizeof(kChunkRows) / sizeof(kChunkRows[0]);

// The row of a type; nullptr for a type that this version does not know.
constexpr const ChunkRow* chunk_row(ChunkType type) {
  const std::uint32_t number = static_cast<std::uint32_t>(type);
  return number == 0 || number > kChunkTypes ? nullptr : &kChunkRows[number - 1];
}

// The ChunkFlags of a type that this version knows.
constexpr std::uint32_t chunk_flags(ChunkType type) {
  const bool may_be_skipped =
      type == ChunkType::kMarkTimes || type == ChunkType::kMarkSums || type == ChunkType::kLastHolders;
  return may_be_skipped ? std::uint32_t{kChunkMayBeSkipped} : 0;
}

namespace chunks {

// A mistake in a row that the types do not show. (Header::limited_types has 32 bits; no type has number 0.)
constexpr bool rows_are_right() {
  std::uint32_t first_kib = 0;
  for (std::uint32_t i = 0; i < kChunkTypes; ++i) {
    const ChunkRow& row = kChunkRows[i];
    if (static_cast<std::uint32_t>(row.type) != i + 1 || i + 1 > 32) return false;
    if (row.own_room > 32 || row.file_room > 32 || row.first_kib % 4 != 0 || row.next_kib % 4 != 0) return false;
    if (row.first_kib * 1024 < sizeof(ChunkHeader) + row.record_bytes) return false;
    first_kib += row.first_kib;
  }
  return first_kib < 1024;
}
static_assert(rows_are_right(), "numbers with a gap, chunks that are no pages or too small, or too large together");

// A Ref counts 16 bytes, and readers copy records as bytes.
#define CHUNK(number, enumerator, record, ...)                                                                    \
  static_assert(sizeof(record) % kRefUnit == 0 && std::is_trivial_v<record> && std::is_standard_layout_v<record>, \
                #record " has a size that a Ref cannot count, or is no plain data");
#include "interpose/format/chunks.def"

template <typename Record>
struct TypeOf;
#define CHUNK(number, enumerator, record, ...)                \
  template <>                                                 \
  struct TypeOf<record> {                                     \
    static constexpr ChunkType value = ChunkType::enumerator; \
  };
#include "interpose/format/chunks.def"

}  // namespace chunks

// The type of the chunks that hold these records.
template <typename Record>
constexpr ChunkType kChunkTypeOf = chunks::TypeOf<Record>::value;

}  // namespace culprit::format
