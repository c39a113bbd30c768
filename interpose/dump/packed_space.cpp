#include "interpose/dump/packed_space.h"

#include <cstring>

#include "interpose/system/own_memory.h"

namespace culprit {

using format::Ref;

namespace {

// The first unit from `unit` on whose bit is `wanted`; `end` when there is none.
std::uint32_t find_bit(const std::uint64_t* words, std::uint32_t unit, std::uint32_t end, bool wanted) {
  while (unit < end) {
    std::uint64_t word = wanted ? words[unit / 64] : ~words[unit / 64];
    word >>= unit % 64;
    if (word != 0) {
      unit += static_cast<std::uint32_t>(__builtin_ctzll(word));
      return unit < end ? unit : end;
    }
    unit = (unit / 64 + 1) * 64;
  }
  return end;
}

}  // namespace

void PackedSpace::note_need(bool found_none) {
  __atomic_store_n(&is_overgrown_, used_bytes() > goal() + goal() / 4, __ATOMIC_RELAXED);
  const std::uint64_t free_bytes = (total_units_ - used_units_ - passed_units_) * format::kRefUnit;
  if (bytes() + kPiece > goal() && free_bytes < bytes() / 4 && takes_ >= (found_none ? least_takes_ / 8 : least_takes_))
    __atomic_store_n(&wants_sweep_, true, __ATOMIC_RELAXED);
}

Ref PackedSpace::take(format::ChunkType type, std::uint32_t units, Want want, DumpWriter& dump) {
  Stretch& stretch = units > kLarge ? large_ : small_;
  while (stretch.end - stretch.begin < units) {
    if (next_stretch(&stretch, units)) break;
    if (!grow(type, units, want, dump)) {
      ++takes_;
      note_need(true);
      return 0;
    }
  }
  const Piece& piece = pieces_[stretch.piece];
  const std::uint32_t unit = stretch.begin;
  stretch.begin += units;
  // Both cursors may have found the same run: the other one searches again.
  Stretch& other = units > kLarge ? small_ : large_;
  if (other.piece == stretch.piece && other.begin < stretch.begin && other.end > unit) other.end = other.begin;
  occupy(piece, unit, unit + units);
  used_units_ += units;
  ++takes_;
  note_need(false);
  return piece.first + unit;
}

namespace {

// Calls change(&word, bits) for the bits from `begin` to `end`.
template <typename Change>
void change_bits(std::uint64_t* words, std::uint32_t begin, std::uint32_t end, Change change) {
  for (std::uint32_t unit = begin; unit < end;) {
    const std::uint32_t last = (unit / 64 + 1) * 64 < end ? (unit / 64 + 1) * 64 : end;
    const std::uint64_t count = last - unit;
    change(words + unit / 64, (count == 64 ? ~0ULL : (1ULL << count) - 1) << unit % 64);
    unit = last;
  }
}

}  // namespace

void PackedSpace::release(const Piece& piece, std::uint32_t begin, std::uint32_t end) {
  change_bits(piece.used, begin, end, [](std::uint64_t* word, std::uint64_t bits) { *word &= ~bits; });
}

void PackedSpace::occupy(const Piece& piece, std::uint32_t begin, std::uint32_t end) {
  change_bits(piece.used, begin, end, [](std::uint64_t* word, std::uint64_t bits) { *word |= bits; });
  const std::uint64_t bit = 1ULL << begin % 64;
  __atomic_fetch_or(piece.marks + begin / 64, bit, __ATOMIC_RELAXED);
  __atomic_fetch_or(piece.starts + begin / 64, bit, __ATOMIC_RELEASE);
}

bool PackedSpace::next_stretch(Stretch* stretch, std::uint32_t units) {
  const bool small = stretch == &small_;
  if (small) passed_units_ += stretch->end - stretch->begin;
  std::uint32_t unit = stretch->end;
  for (; stretch->piece < piece_count_; ++stretch->piece, unit = 0) {
    const Piece& piece = pieces_[stretch->piece];
    for (;;) {
      const std::uint32_t begin = find_bit(piece.used, unit, piece.units, false);
      if (begin == piece.units) break;
      const std::uint32_t end = find_bit(piece.used, begin, piece.units, true);
      if (end - begin >= units) {
        stretch->begin = begin;
        stretch->end = end;
        return true;
      }
      if (small) passed_units_ += end - begin;
      unit = end;
    }
  }
  // At the end: a piece that is added later is found from here.
  stretch->begin = stretch->end = 0;
  return false;
}

bool PackedSpace::grow(format::ChunkType type, std::uint32_t units, Want want, DumpWriter& dump) {
  if (piece_count_ == kMostPieces) return false;
  const std::uint64_t needed = units * format::kRefUnit + sizeof(format::ChunkHeader);
  // Small first pieces, so that a program with one allocation leaves a small file.
  const bool large = type == format::ChunkType::kStacks;
  std::uint64_t size = large ? kPiece : kPiece / 8;
  if (bytes() == 0) size /= 4;
  if (bytes() / 8 > size) size = bytes() / 8;
  if (size < needed) size = needed;
  std::uint64_t most = limit() + (want == Want::kLast ? kBeyond : 0);
  if (bytes() + size > most) {
    if (bytes() + needed > most) return false;
    size = most - bytes();
  }
  std::uint64_t got = 0;
  const Ref first = dump.allocate_chunk(type, size, &got);
  if (first == 0) {
    goal_ = bytes() + 1;  // the whole dump has reached its limit: no more growth
    return false;
  }
  Piece piece = {first, static_cast<std::uint32_t>(got / format::kRefUnit), nullptr, nullptr, nullptr};
  int error = 0;
  const std::uint64_t words = words_of(piece);
  piece.starts = static_cast<std::uint64_t*>(map_private(3 * 8 * words, &error));
  if (piece.starts == nullptr) return false;
  piece.used = piece.starts + words;
  piece.marks = piece.used + words;
  pieces_[piece_count_] = piece;
  __atomic_store_n(&piece_count_, piece_count_ + 1, __ATOMIC_RELEASE);
  total_units_ += piece.units;
  return true;
}

void PackedSpace::clear_marks() {
  for (std::uint32_t i = 0; i < piece_count_; ++i) std::memset(pieces_[i].marks, 0, 8 * words_of(pieces_[i]));
  __atomic_store_n(&wants_sweep_, false, __ATOMIC_RELAXED);
}

void PackedSpace::free_unmarked() {
  std::uint64_t live = 0;
  used_units_ = 0;
  for (std::uint32_t i = 0; i < piece_count_; ++i) {
    const Piece& piece = pieces_[i];
    // A record ends at the next record, or at free units.
    for (std::uint32_t start = find_bit(piece.starts, 0, piece.units, true); start < piece.units;) {
      const std::uint32_t next = find_bit(piece.starts, start + 1, piece.units, true);
      const std::uint32_t end = find_bit(piece.used, start, next, false);
      if (bit_at(piece.marks, start)) {
        used_units_ += end - start;
        ++live;
      } else {
        __atomic_fetch_and(piece.starts + start / 64, ~(1ULL << start % 64), __ATOMIC_RELAXED);
        release(piece, start, end);
      }
      start = next;
    }
  }
  live_units_ = used_units_;
  passed_units_ = 0;
  takes_ = 0;
  least_takes_ = live / 4 + 256;
  small_ = large_ = {};
  const std::uint64_t least = first_goal_ != 0 ? first_goal_ : kFirstGoal;
  goal_ = 2 * used_bytes() > least ? 2 * used_bytes() : least;
  if (goal_ > limit()) goal_ = limit();
  __atomic_store_n(&is_overgrown_, false, __ATOMIC_RELAXED);
}

void PackedSpace::free_memory() {
  for (std::uint32_t i = 0; i < piece_count_; ++i) unmap_private(pieces_[i].starts, 3 * 8 * words_of(pieces_[i]));
  *this = {};
}

}  // namespace culprit
