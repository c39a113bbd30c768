// Room in the dump for records of different sizes that come and go: call stacks, Python frames and their texts.
//
// The room consists of pieces, each one chunk of the dump. A piece has three bitmaps in private memory, one bit for
// each 16 bytes (a Ref's unit), 2.3% of the room:
//
//     starts   a record begins here
//     used     a record lies here
//     marks    of the units where a record begins: somebody needs it (see stack_collection.h)
//
// Records are put one behind the other into a stretch of free units, then into the next stretch that is large enough.
// sweep() frees every record without a mark, and neighbouring free records become one stretch: records of all sizes
// share the room, and what was used by small ones serves large ones later.
//
// Growth: new pieces are added without asking until the room has its goal's size: 4 MiB, or twice what the last sweep
// left. From then on wants_sweep() says so as soon as three quarters are used, because a sweep may have to wait for
// other threads. While nobody sweeps the room grows on, up to its limit.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/dump/dump_writer.h"

namespace culprit {

// All zeros = empty. Not thread-safe, except for mark(), wants_sweep() and is_overgrown(): its owner locks.
class PackedSpace {
 public:
  static constexpr std::uint64_t kFirstGoal = 4ULL << 20;
  static constexpr std::uint64_t kDefaultLimit = 512ULL << 20;
  // take() with `kLast` may go beyond the limit by this much, for what stands for the records that found no room.
  static constexpr std::uint64_t kBeyond = 64ULL << 10;
  static constexpr std::uint64_t kPiece = 512ULL << 10;
  enum class Want { kNormal, kLast };

  // Room for a record of `units`, which is marked and holds whatever was there before. 0: there is none.
  format::Ref take(format::ChunkType type, std::uint32_t units, Want want, DumpWriter& dump);

  // The limit in bytes; 0 = kDefaultLimit. `goal`: instead of kFirstGoal, for tests; 0 = that.
  void set_limit(std::uint64_t limit, std::uint64_t goal = 0) {
    limit_ = limit;
    first_goal_ = goal;
  }

  // A sweep is worth its while. Thread-safe.
  bool wants_sweep() const { return __atomic_load_n(&wants_sweep_, __ATOMIC_RELAXED); }

  // The last sweep left more than half of what may be: what is kept out of courtesy should go.
  bool is_tight() const { return live_units_ * format::kRefUnit > limit() / 2; }

  // Much has been added beyond the goal, and is used. Thread-safe.
  bool is_overgrown() const { return __atomic_load_n(&is_overgrown_, __ATOMIC_RELAXED); }

  void clear_marks();

  // Marks the record at `ref`, which may be any number. True when there is one and it had no mark. Thread-safe.
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

  // Frees every record without a mark; calls gone(ref) for each before.
  template <typename Gone>
  void sweep(Gone gone) {
    for_each_bit([](const Piece& piece, std::uint32_t word) { return piece.starts[word] & ~piece.marks[word]; }, gone);
    free_unmarked();
  }

  // Bytes of the dump that this has; of those, bytes of records.
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
  // A stretch of free units, or where to look for the next one.
  struct Stretch {
    std::uint32_t piece;
    std::uint32_t begin;
    std::uint32_t end;
  };

  // Sizes grow with the room, so that there are never many. 64 GiB, the most that a dump can have, takes 120.
  static constexpr std::uint32_t kMostPieces = 192;
  // Larger records have a cursor of their own: looking for room for one must not pass over what fits the others.
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
    while (low < high) {  // the first piece that begins behind it
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
  std::uint64_t passed_units_;  // free, but in stretches that were too short for what was looked for
  std::uint64_t live_units_;    // that the last sweep left
  std::uint64_t takes_;         // since the last sweep
  std::uint64_t least_takes_;   // before the next one: its cost is shared by as many new records
  Stretch small_, large_;
  bool wants_sweep_;
  bool is_overgrown_;
  std::uint32_t piece_count_;
  Piece pieces_[kMostPieces];
};

}  // namespace culprit
