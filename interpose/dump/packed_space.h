// Room in the dump for records of different sizes that come and go: call stacks, Python frames and their texts.
//
// The room consists of pieces, each one chunk of the dump. A piece has three bitmaps in private memory, one bit for
// each 16 bytes (a Ref's unit), 2.3% of the room:
//
//     starts   a record begins here
//     used     a record lies here
//     marks    of the units where a record begins: it is needed (see stack_collection.h)
//
// Records are placed one after the other into a run of free units, then into the next run that is large enough. sweep()
// frees every record without a mark, and neighbouring free records become one run: so records of all sizes share the
// room, and room of small records can later hold large ones.
//
// Growth: pieces are added without a sweep until the room reaches its goal: 4 MiB, or twice the bytes that the last
// sweep left. From then on wants_sweep() is true as soon as three quarters are used, because a sweep may have to wait
// for other threads. Until the sweep the room grows further, up to its limit.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/dump/dump_writer.h"

namespace culprit {

// Not thread-safe, except for mark(), wants_sweep() and is_overgrown(): the caller locks.
class PackedSpace {
 public:
  static constexpr std::uint64_t kFirstGoal = 4ULL << 20;
  static constexpr std::uint64_t kDefaultLimit = 512ULL << 20;
  // take() with `kLast` may exceed the limit by this much: for records that replace those for which there was no room.
  static constexpr std::uint64_t kBeyond = 64ULL << 10;
  static constexpr std::uint64_t kPiece = 512ULL << 10;
  enum class Want { kNormal, kLast };

  // Room for a record of `units`, marked and not cleared. 0: no room.
  format::Ref take(format::ChunkType type, std::uint32_t units, Want want, DumpWriter& dump);

  // The limit in bytes; 0 = kDefaultLimit. `goal`: replaces kFirstGoal in tests; 0 = kFirstGoal.
  void set_limit(std::uint64_t limit, std::uint64_t goal = 0) {
    limit_ = limit;
    first_goal_ = goal;
  }

  // A sweep is worth its cost. Thread-safe.
  bool wants_sweep() const { return __atomic_load_n(&wants_sweep_, __ATOMIC_RELAXED); }

  // The last sweep left more than half of the limit: optional records should be dropped.
  bool is_tight() const { return live_units_ * format::kRefUnit > limit() / 2; }

  // Much room beyond the goal has been added and used. Thread-safe.
  bool is_overgrown() const { return __atomic_load_n(&is_overgrown_, __ATOMIC_RELAXED); }

  void clear_marks();

  // Marks the record at `ref`, which may be any number. Returns true if there is a record and it had no mark.
  // Thread-safe.
  bool mark(format::Ref ref) {
    const Place place = place_of(ref);
    if (place.piece == nullptr || !bit_at(place.piece->starts, place.unit)) return false;
    const std::uint64_t bit = 1ULL << place.unit % 64;
    std::uint64_t* word = place.piece->marks + place.unit / 64;
    if ((__atomic_load_n(word, __ATOMIC_RELAXED) & bit) != 0) return false;
    return (__atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit) == 0;
  }

  // Whether a record begins there.
  bool is_record(format::Ref ref) const {
    const Place place = place_of(ref);
    return place.piece != nullptr && bit_at(place.piece->starts, place.unit);
  }

  // Calls visit(ref) for each record that has a mark.
  template <typename Visit>
  void for_each_marked(Visit visit) const {
    for_each_bit([](const Piece& piece, std::uint32_t word) { return piece.starts[word] & piece.marks[word]; }, visit);
  }

  // Frees every record without a mark; calls gone(ref) before freeing it.
  template <typename Gone>
  void sweep(Gone gone) {
    for_each_bit([](const Piece& piece, std::uint32_t word) { return piece.starts[word] & ~piece.marks[word]; }, gone);
    free_unmarked();
  }

  // Bytes of the dump in all pieces; bytes of records in them.
  std::uint64_t bytes() const { return total_units_ * format::kRefUnit; }
  std::uint64_t used_bytes() const { return used_units_ * format::kRefUnit; }

  // Gives the bitmaps back; empty afterwards.
  void free_memory();

 private:
  struct Piece {
    format::Ref first;
    std::uint32_t units;
    std::uint64_t* starts;  // three bitmaps in one mapping
    std::uint64_t* used;
    std::uint64_t* marks;
  };
  struct Place {
    const Piece* piece;  // nullptr = in none
    std::uint32_t unit;
  };
  // A run of free units, or the place to search for the next one.
  struct Stretch {
    std::uint32_t piece;
    std::uint32_t begin;
    std::uint32_t end;
  };

  // Piece sizes grow with the room, which keeps their number small: 64 GiB, the largest dump, takes 120.
  static constexpr std::uint32_t kMostPieces = 192;
  // Larger records have their own cursor, so that a search for them does not skip room that fits smaller ones.
  static constexpr std::uint32_t kLarge = 40;

  static bool bit_at(const std::uint64_t* words, std::uint32_t unit) {
    return (__atomic_load_n(words + unit / 64, __ATOMIC_RELAXED) >> unit % 64 & 1) != 0;
  }
  static std::uint32_t words_of(const Piece& piece) { return (piece.units + 63) / 64; }
  std::uint64_t limit() const { return limit_ == 0 ? kDefaultLimit : limit_; }
  std::uint64_t goal() const { return goal_ != 0 ? goal_ : first_goal_ != 0 ? first_goal_ : kFirstGoal; }

  Place place_of(format::Ref ref) const {
    std::uint32_t low = 0;
    std::uint32_t high = __atomic_load_n(&piece_count_, __ATOMIC_ACQUIRE);
    while (low < high) {  // finds the first piece that begins after `ref`
      const std::uint32_t middle = (low + high) / 2;
      if (pieces_[middle].first <= ref) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == 0 || ref - pieces_[low - 1].first >= pieces_[low - 1].units) return {nullptr, 0};
    return {&pieces_[low - 1], ref - pieces_[low - 1].first};
  }

  template <typename Bits, typename Visit>
  void for_each_bit(Bits bits, Visit visit) const {
    for (std::uint32_t i = 0; i < piece_count_; ++i) {
      for (std::uint32_t word = 0; word < words_of(pieces_[i]); ++word) {
        for (std::uint64_t rest = bits(pieces_[i], word); rest != 0; rest &= rest - 1) {
          visit(pieces_[i].first + word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(rest)));
        }
      }
    }
  }

  bool next_stretch(Stretch* stretch, std::uint32_t units);
  bool grow(format::ChunkType type, std::uint32_t units, Want want, DumpWriter& dump);
  static void occupy(const Piece& piece, std::uint32_t begin, std::uint32_t end);
  static void release(const Piece& piece, std::uint32_t begin, std::uint32_t end);
  void free_unmarked();
  void note_need(bool found_none);

  std::uint64_t limit_;
  std::uint64_t first_goal_;
  std::uint64_t goal_;         // 0 = the first one
  std::uint64_t total_units_;  // of all pieces
  std::uint64_t used_units_;
  std::uint64_t passed_units_;  // free, but in runs too short for the requested size
  std::uint64_t live_units_;    // that the last sweep left
  std::uint64_t takes_;         // since the last sweep
  std::uint64_t least_takes_;   // takes before the next sweep, which spread its cost
  Stretch small_, large_;
  bool wants_sweep_;
  bool is_overgrown_;
  std::uint32_t piece_count_;
  Piece pieces_[kMostPieces];
};

}  // namespace culprit
