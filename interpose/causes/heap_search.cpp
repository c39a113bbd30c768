#include "interpose/causes/heap_search.h"

#include <algorithm>
#include <new>

#include "interpose/causes/heap_chunks.h"
#include "interpose/causes/heap_nodes.h"
#include "interpose/causes/memory_pieces.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::AllocationRecord;
using format::ContextRecord;
using format::HeapHolderRecord;
using format::HeapSearch;
using format::HeapStepRecord;
using format::Ref;

std::uint64_t thread_local_place(Process& process, const ThreadLocalData& data, std::uint64_t address) {
  return (process.stacks.modules.frame_of(data.module) & ~format::kFrameOffsetMask) | format::kHolderThreadLocal |
         (address - data.range.begin);
}

namespace {

// A path that is longer tells a reader nothing.
constexpr unsigned kMostSteps = 24;
// Chunks of one size that follow one another are the nodes of a list or a tree: the first few are steps of their own,
// so that `engine->next->buffer` has its name, and the others one step together.
constexpr unsigned kNodesApart = 3;

// Of memory that is not malloc's, so many bytes behind each pointer are looked at.
constexpr std::uint64_t kLeastWindow = 16;
constexpr std::uint64_t kMostWindow = 1024;
constexpr std::uint64_t kWholeWindow = ~std::uint64_t{0};

class HeapSearcher {
 public:
  HeapSearcher(Process& process, HandleSet& handles, const HeapRoots& roots, std::uint64_t deadline_ns)
      : process_(process), handles_(handles), roots_(roots), deadline_ns_(deadline_ns) {}

  HeapSearch run(std::uint64_t* bytes) {
    if (handles_.missing() == 0) return HeapSearch::kDone;
    const bool ready = chunks_.open() && nodes_.open() && pieces_.open(process_, handles_) && collect_objects();
    if (ready && is_worth_it()) {
      follow_driver();
      follow_program();
      enter_marked();
    }
    *bytes += bytes_;
    objects_.release();
    pieces_.close();
    nodes_.close();
    chunks_.close();
    return ready && !stopped_ ? HeapSearch::kDone : HeapSearch::kStopped;
  }

 private:
  // The handles of the driver's own objects, whose memory is not entered.
  bool collect_objects() {
    std::uint64_t count = 0;
    for_each_object([&](std::uint64_t) { ++count; });
    if (!objects_.reserve(count + 1)) return false;
    for_each_object([&](std::uint64_t handle) { objects_.add(handle, 1, 1); });
    return true;
  }

  template <typename Visit>
  void for_each_object(Visit visit) {
    process_.dump.for_each_record<AllocationRecord>(format::ChunkType::kAllocations,
                                                    [&](const AllocationRecord& record) {
                                                      if (!is_memory(record.kind)) visit(record.handle);
                                                    });
    process_.dump.for_each_record<ContextRecord>(format::ChunkType::kContexts,
                                                 [&](const ContextRecord& record) { visit(record.handle); });
  }

  // Whether the program's pointers lead to any handle. In most programs with leaks they do not, and the driver's data
  // need not be followed, which takes longer (H100: 70 ms, and seconds in a large program).
  bool is_worth_it() {
    pass_ = Pass::kProbe;
    follow_program();
    const bool found = found_one_;
    found_one_ = false;
    nodes_.close();
    return found && !stopped_ && nodes_.open();
  }

  void follow_driver() {
    pass_ = Pass::kMark;
    const std::uint64_t end = deadline_ns_;
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now < end) deadline_ns_ = now + (end - now) / 4;
    read_roots(roots_.driver, roots_.driver_count);
    read_queue();
    // A node that is only marked has no way from the program's data: it has no parent.
    nodes_.drop_queue();
    // A chunk without a mark may be the driver's, too.
    all_uncertain_ = stopped_;
    stopped_ = clock_ns(CLOCK_MONOTONIC) > end;
    deadline_ns_ = end;
    pass_ = Pass::kFind;
  }

  void follow_program() {
    window_ = kLeastWindow;
    read_roots(roots_.program, roots_.program_count);
    read_queue();
    // Of an object of unknown size the first words are most likely its own, and lead to most other objects. Then an
    // object ends where the next one begins; or, as a pointer may lead into the middle of it, further behind; and what
    // may be many elements comes at last.
    widen_windows(kMostWindow, true);
    widen_windows(kMostWindow / 4, false);
    widen_windows(kWholeWindow, false);
  }

  void widen_windows(std::uint64_t most, bool to_next) {
    const std::uint32_t count = nodes_.count();
    window_ = to_next ? kLeastWindow : most;
    if (!going_on() || !has_windows_ || (to_next && !nodes_.sort_begins())) return;
    for (std::uint32_t i = 0; i < count && going_on(); ++i) {
      if ((nodes_[i].flags & kNodeWindow) == 0 || nodes_[i].read >= most) continue;
      if (most == kWholeWindow && nodes_[i].bytes <= kMostWindow) continue;
      const std::uint64_t begin = nodes_[i].begin;
      read_chunk(i, to_next ? std::min(most, nodes_.next_begin(begin) - begin) : most);
      read_queue();
    }
  }

  void enter_marked() {
    // The list grows: a marked chunk leads to others.
    for (std::uint32_t i = 0; i < nodes_.deferred_count() && going_on(); ++i) {
      nodes_.enqueue(nodes_.deferred(i));
      read_queue();
    }
  }

  bool going_on() const { return !stopped_ && !found_one_ && handles_.missing() != 0; }

  void read_roots(const MemoryRange* ranges, int count) {
    if (!going_on()) return;
    const ReadResult result = read_written_memory(
        ranges, count, deadline_ns_,
        [](void* search, const std::uint64_t* words, std::uint64_t word_count, std::uint64_t address) {
          return static_cast<HeapSearcher*>(search)->read_root(words, word_count, address);
        },
        this);
    if (result.end != ReadEnd::kDone) stopped_ = true;
  }

  bool read_root(const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
    for (std::uint64_t i = 0; i < count; ++i)
      enter(words[i], {HeapNodes::kRoot, address + i * sizeof(words[0]), i + 1 < count ? words[i + 1] : 0});
    return going_on();
  }

  void read_queue() {
    std::uint32_t node = 0;
    while (going_on() && nodes_.next(&node)) read_chunk(node, window_);
  }

  // Of memory that is not malloc's `most` bytes.
  void read_chunk(std::uint32_t number, std::uint64_t most) {
    const std::uint64_t begin = nodes_[number].begin;
    const bool window = (nodes_[number].flags & kNodeWindow) != 0;
    const std::uint64_t bytes = window ? std::min(nodes_[number].bytes, most) : nodes_[number].bytes;
    const std::uint64_t from = nodes_[number].read;
    if (window && bytes > from) nodes_[number].read = static_cast<std::uint32_t>(std::min(bytes, kMostWindow));
    for (std::uint64_t done = from; done < bytes && going_on();) {
      if (clock_ns(CLOCK_MONOTONIC) > deadline_ns_ || bytes_ > process_.options.scan_bytes) {
        stopped_ = true;
        return;
      }
      const std::uint64_t in_page = (begin + done) % PageCopies::kPage;
      std::uint64_t part = PageCopies::kPage - in_page;
      if (part > bytes - done) part = bytes - done;
      part = part / sizeof(std::uint64_t) * sizeof(std::uint64_t);
      if (part == 0) return;
      if (const std::uint64_t* page = chunks_.pages().page(begin + done)) {
        // Entering a chunk reads other pages into the place of this one.
        for (std::uint64_t i = 0; i < part / sizeof(std::uint64_t); ++i)
          block_[i] = page[in_page / sizeof(std::uint64_t) + i];
        read_block(number, done, part / sizeof(std::uint64_t));
      }
      done += part;
      bytes_ += part;
    }
  }

  void read_block(std::uint32_t number, std::uint64_t offset, std::uint64_t count) {
    if (pass_ == Pass::kProbe) {
      for (std::uint64_t i = 0; i < count; ++i) {
        found_one_ = found_one_ || handles_.is_missing(block_[i]);
        pieces_.visit_around(block_[i], [&](MemoryPiece*) { found_one_ = true; });
      }
    } else if (pass_ == Pass::kFind && (nodes_[number].flags & kNodeWindow) != 0) {
      find_in_window(number, offset, count);
    } else if (pass_ == Pass::kFind) {
      handles_.match(block_, count, [&](Ref allocation, std::uint32_t state, std::uint64_t index) {
        write(number, allocation, state, offset / sizeof(std::uint64_t) + index);
      });
      find_middles(number, offset, count);
    }
    // The word behind the block: perhaps on the next page.
    std::uint64_t behind = 0;
    chunks_.pages().word(nodes_[number].begin + offset + count * sizeof(std::uint64_t), &behind);
    for (std::uint64_t i = 0; i < count; ++i)
      enter(block_[i], {number, offset + i * sizeof(std::uint64_t), i + 1 < count ? block_[i + 1] : behind});
  }

  // It may reach into the next objects, which other pointers lead to: those are looked for, too.
  void find_in_window(std::uint32_t number, std::uint64_t offset, std::uint64_t count) {
    constexpr std::uint64_t kMostRecords = 65536;
    for (std::uint64_t i = 0; i < count && in_windows_ < kMostRecords; ++i) {
      handles_.visit_missing(block_[i], [&](Ref allocation, std::uint32_t state) {
        write(number, allocation, state, offset / sizeof(std::uint64_t) + i);
        ++in_windows_;
      });
    }
  }

  // A holder of the handle itself, which may be found later, comes before these.
  void find_middles(std::uint32_t number, std::uint64_t offset, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      pieces_.visit_around(block_[i], [&](MemoryPiece* piece) {
        write(number, piece->allocation, piece->tag, (offset / sizeof(std::uint64_t) + i) | format::kHeapMiddle);
        pieces_.set_found(piece);
      });
    }
  }

  // Where a pointer was found; see HeapNode.
  struct From {
    std::uint32_t parent;
    std::uint64_t at;
    std::uint64_t behind;
  };

  void enter(std::uint64_t pointer, const From& from) {
    HeapChunk chunk;
    if (pointer % sizeof(std::uint64_t) != 0 || pointer < HandleSet::kLeastHandle) return;
    const bool window = !chunks_.find(pointer, &chunk);
    // Memory of the driver matters only where it is malloc's, like the program's own.
    if (window && (pass_ == Pass::kMark || is_own_part(pointer, from) || !find_foreign(pointer, from.behind, &chunk)))
      return;
    if (objects_.has(pointer) || objects_.has(chunk.begin)) return;
    bool added = false;
    const std::uint32_t number = nodes_.add(chunk.begin, &added);
    if (number == HeapNodes::kNone) {
      stopped_ = true;
      return;
    }
    HeapNode& node = nodes_[number];
    if (!added && (pass_ != Pass::kFind || (node.flags & kNodeMarked) == 0)) return;
    if (added) node.bytes = chunk.bytes;
    node.flags = 0;
    node.inner = static_cast<std::uint32_t>(pointer - chunk.begin);
    if (pass_ == Pass::kMark) {
      node.flags = kNodeMarked;
      nodes_.enqueue(number);
      return;
    }
    node.parent = from.parent;
    node.at = from.at;
    node.behind = from.behind;
    node.times = 1;
    node.depth = 1;
    node.run = 1;
    if (all_uncertain_ || !added) node.flags = kNodeUncertain;
    if (window) node.flags |= kNodeWindow | kNodeUncertain;
    has_windows_ = has_windows_ || window;
    if (from.parent != HeapNodes::kRoot) follow(nodes_[from.parent], &node);
    if (node.depth > kMostSteps) return;
    if (added) {
      nodes_.enqueue(number);
    } else {
      nodes_.defer(number);
    }
  }

  // A list or a tree points to its own head, which has no value: that would lie in the next object.
  bool is_own_part(std::uint64_t pointer, const From& from) {
    if (from.parent == HeapNodes::kRoot) return false;
    const HeapNode& parent = nodes_[from.parent];
    return (parent.flags & kNodeWindow) != 0 && pointer >= parent.begin && pointer <= parent.begin + from.at;
  }

  // Memory of another allocator. Two pointers side by side may be those to a container's elements, and behind them.
  bool find_foreign(std::uint64_t pointer, std::uint64_t behind, HeapChunk* chunk) const {
    if (!chunks_.find_foreign(pointer, kMostWindow, chunk)) return false;
    HeapChunk elements;
    if (behind > pointer + chunk->bytes && behind % sizeof(behind) == 0 &&
        chunks_.find_foreign(pointer, behind - pointer, &elements) && elements.bytes == behind - pointer)
      *chunk = elements;
    return true;
  }

  // A node that the pointers of `parent` lead to.
  static void follow(const HeapNode& parent, HeapNode* node) {
    node->flags |= parent.flags & kNodeUncertain;
    node->depth = static_cast<std::uint8_t>(parent.depth + 1);
    if (parent.bytes != node->bytes || parent.inner != node->inner || (node->flags & kNodeWindow) != 0) return;
    node->run = parent.run;
    if (parent.run < kNodesApart) {
      ++node->run;
      return;
    }
    node->parent = parent.parent;
    node->at = parent.at;
    node->behind = parent.behind;
    node->times = parent.times + 1;
    node->depth = parent.depth;
  }

  void write(std::uint32_t number, Ref allocation, std::uint32_t state, std::uint64_t word) {
    const Ref step = step_of(number);
    if (step == 0) return;
    const Ref ref = process_.dump.allocate_records(format::ChunkType::kHeapHolders, 1, nullptr);
    if (ref == 0) return;
    auto* record = process_.dump.at<HeapHolderRecord>(ref);
    record->allocation = allocation;
    record->step = step;
    record->word = static_cast<std::uint32_t>(word);
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
  }

  // The record of a node, after those of the nodes that lead to it. 0 if there is no room.
  Ref step_of(std::uint32_t number) {
    std::uint32_t path[kMostSteps];
    unsigned count = 0;
    std::uint32_t node = number;
    while (node != HeapNodes::kRoot && nodes_[node].step == 0 && count < kMostSteps) {
      path[count++] = node;
      node = nodes_[node].parent;
    }
    Ref parent = node != HeapNodes::kRoot ? nodes_[node].step : 0;
    while (count != 0) {
      parent = write_step(&nodes_[path[--count]], parent);
      if (parent == 0) return 0;
    }
    return parent;
  }

  Ref write_step(HeapNode* node, Ref parent) {
    const Ref ref = process_.dump.allocate_records(format::ChunkType::kHeapSteps, 1, nullptr);
    if (ref == 0) return 0;
    auto* record = process_.dump.at<HeapStepRecord>(ref);
    record->parent = parent;
    record->at = node->parent == HeapNodes::kRoot ? place_of(node->at) : node->at;
    record->behind = node->behind;
    record->begin = node->begin;
    record->bytes = node->bytes;
    record->times = node->times;
    record->inner = node->inner;
    note_code(*node, record);
    record->flags = (node->flags & kNodeUncertain) != 0 ? format::kHeapStepUncertain : 0;
    if ((node->flags & kNodeWindow) != 0) record->flags |= format::kHeapStepWindow;
    for (std::uint64_t i = 0; i < format::kHeadWords && (i + 1) * sizeof(std::uint64_t) <= node->bytes; ++i) {
      if (!chunks_.pages().word(node->begin + i * sizeof(std::uint64_t), &record->head[i])) break;
      record->head_words = static_cast<std::uint8_t>(i + 1);
    }
    note_text(record);
    __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
    node->step = ref;
    return ref;
  }

  // A string that is too long for the object itself: a pointer and its length lie side by side, in either order. Other
  // words may look so by chance, with a small number: the longest text is taken.
  void note_text(HeapStepRecord* record) {
    std::uint64_t longest = 0;
    for (std::uint32_t i = 0; i < record->head_words; ++i) {
      for (const std::uint32_t beside : {i + 1, i - 1}) {
        if (beside >= record->head_words) continue;
        const std::uint64_t bytes = record->head[beside];
        if (bytes <= longest || !is_text(record->head[i], bytes, *record)) continue;
        longest = bytes;
        record->text_word = i;
      }
    }
    if (longest == 0 || !is_text(record->head[record->text_word], longest, *record)) return;
    record->text = process_.dump.add_string(text_, longest);
    if (record->text != 0) record->flags |= format::kHeapStepText;
  }

  // Reads it into `text_`.
  bool is_text(std::uint64_t address, std::uint64_t bytes, const HeapStepRecord& record) {
    if (bytes > sizeof(text_) || address < HandleSet::kLeastHandle ||
        (address >= record.begin && address < record.begin + record.bytes))
      return false;
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (os.read_own_memory(text_, address, wanted) != wanted) return false;
    return std::none_of(text_, text_ + bytes, [](unsigned char byte) { return byte < ' ' || byte == 0x7f; });
  }

  // The type of a functor is known by code 16 bytes behind the pointer in a std::function of libstdc++, and by the
  // virtual table that the word before the pointer leads to in that of libc++.
  void note_code(const HeapNode& node, HeapStepRecord* record) {
    constexpr std::uint64_t kToCode = 16;
    constexpr std::uint64_t kFromTable = 8;
    std::uint64_t from = node.at;
    std::uint64_t root = node.at;
    if (node.parent != HeapNodes::kRoot) from += nodes_[node.parent].begin;
    for (std::uint32_t parent = node.parent; parent != HeapNodes::kRoot; parent = nodes_[parent].parent)
      root = nodes_[parent].at;
    const ThreadLocalData* own = roots_.thread_locals.find(root);
    struct dl_phdr_info data = {};
    if (!find_module(own != nullptr ? own->module : root, &data)) return;
    std::uint64_t frame = frame_at(from + kToCode, data);
    if (frame == 0) frame = frame_at(from - kFromTable, data);
    for (std::size_t i = 0; i < sizeof(record->code); ++i) record->code[i] = static_cast<std::uint8_t>(frame >> 8 * i);
  }

  // 0: no address of the module is there.
  std::uint64_t frame_at(std::uint64_t place, const struct dl_phdr_info& data) {
    std::uint64_t address = 0;
    struct dl_phdr_info module = {};
    if (!chunks_.pages().word(place, &address) || !find_module(address, &module) || module.dlpi_phdr != data.dlpi_phdr)
      return 0;
    return process_.stacks.modules.frame_of(address);
  }

  std::uint64_t place_of(std::uint64_t address) {
    if (const ThreadLocalData* own = roots_.thread_locals.find(address))
      return thread_local_place(process_, *own, address);
    for (int i = 0; i < roots_.program_count; ++i) {
      const MemoryRange& range = roots_.program[i];
      if (address < range.begin || address >= range.end) continue;
      return process_.stacks.modules.frame_of(range.begin) + (address - range.begin);
    }
    return 0;
  }

  Process& process_;
  HandleSet& handles_;
  const HeapRoots& roots_;
  std::uint64_t deadline_ns_;
  HeapChunks chunks_;
  HeapNodes nodes_;
  MemoryPieces pieces_;
  HandleSet objects_ = {};
  std::uint64_t bytes_ = 0;
  enum class Pass { kProbe, kMark, kFind };
  Pass pass_ = Pass::kProbe;
  std::uint64_t in_windows_ = 0;
  bool has_windows_ = false;
  std::uint64_t window_ = kLeastWindow;  // of a node from the queue
  bool found_one_ = false;               // kProbe only
  bool all_uncertain_ = false;
  bool stopped_ = false;
  std::uint64_t block_[PageCopies::kPage / sizeof(std::uint64_t)];
  char text_[256];
};

}  // namespace

HeapSearch search_heap(Process& process, HandleSet& handles, const HeapRoots& roots, std::uint64_t deadline_ns,
                       std::uint64_t* bytes) {
  int error = 0;
  void* memory = map_private(sizeof(HeapSearcher), &error);
  if (memory == nullptr) return HeapSearch::kStopped;
  auto* search = new (memory) HeapSearcher(process, handles, roots, deadline_ns);
  const HeapSearch end = search->run(bytes);
  unmap_private(memory, sizeof(HeapSearcher));
  return end;
}

}  // namespace culprit
