#include "interpose/causes/native_holders.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "interpose/base/hash.h"
#include "interpose/base/module_name.h"
#include "interpose/base/own_module.h"
#include "interpose/causes/holder_search.h"
#include "interpose/causes/process_facts.h"
#include "interpose/causes/thread_local_data.h"
#include "interpose/format/dump_causes.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/stacks/modules.h"
#include "interpose/system/clock.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/raw_calls.h"

namespace culprit {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint64_t);
constexpr int kMostPasses = 16;
constexpr int kMostDoubtful = 6;  // beginning with the pass that finds a doubtful beginning
constexpr std::uint32_t kMostHolders = 32;
constexpr std::uint64_t kMostNodes = 1 << 16;
constexpr std::uint64_t kMostSteps = 1 << 20;
// Larger chunks are arrays of numbers: the elements of tensors in host memory.
constexpr std::uint64_t kMostOfChunk = 16 << 20;
constexpr std::uint64_t kHead = 16;          // of std::make_shared()
constexpr std::uint64_t kMostOfCounts = 40;  // with an object's address and its deleter
constexpr std::uint64_t kMostInside = 64;
constexpr std::uint64_t kPageBits = 12, kPageSlots = 1 << 20;

// Of the counts of a std::shared_ptr: weak pointers alone, whose object's memory may be that of another by now; and
// weak pointers beside others.
bool is_over(std::uint64_t counts) { return counts >> 32 != 0 && (counts & 0xffffffff) == 0; }
bool has_weak(std::uint64_t counts) { return counts >> 32 > 1; }

std::uint64_t slot_of_page(std::uint64_t address) { return mix(address >> kPageBits) % kPageSlots; }

}  // namespace

NativeHolders::~NativeHolders() {
  blocks_.close();
  if (chunks_ == nullptr) return;
  chunks_->close();
  unmap_private(chunks_, sizeof(HeapChunks));
}

bool NativeHolders::open(std::uint64_t interpreter, std::uint64_t frame_type) {
  frame_type_ = frame_type;
  MemoryMap map;
  int error = 0;
  if (!malloc_is_glibcs() || !map.read() || !table_.fill(2 * kMostNodes) || !pages_.fill(kPageSlots / 64)) return false;
  void* memory = map_private(sizeof(HeapChunks), &error);
  if (memory == nullptr) return false;
  chunks_ = new (memory) HeapChunks;
  if (!chunks_->open() || !blocks_.open(&chunks_->pages(), chunks_->key())) return false;
  for (const Mapping* mapping = map.begin(); mapping != map.end(); ++mapping) {
    constexpr int kWritable = PROT_READ | PROT_WRITE;
    if (mapping->kernel || mapping->nvidia || mapping->shared || (mapping->protection & kWritable) != kWritable)
      continue;
    MemoryRange range = {mapping->begin, mapping->end};
    if (mapping->program_break) {
      while (mapping + 1 != map.end() && mapping[1].program_break && mapping[1].begin == range.end)
        range.end = (++mapping)->end;
      blocks_.add_break_heap(range);
    } else if (!mapping->file && !mapping->main_stack) {
      blocks_.add_mapping(range, [](std::uint64_t, std::uint64_t) {});
    }
  }
  MemoryRange joined = {};
  blocks_.for_each_range([&](std::uint64_t begin, std::uint64_t end) {
    if (end - begin > kMostOfChunk) return;
    if (begin == joined.end) {
      joined.end = end;
      return;
    }
    failed_ = failed_ || (joined.end != 0 && !heap_.push(joined));
    joined = {begin, end};
  });
  failed_ = failed_ || (joined.end != 0 && !heap_.push(joined));
  add_modules(interpreter);
  return !failed_;
}

// The interpreter's lists of freed objects have the addresses of those that were taken from them again (Python 3.13:
// pycore_freelist.h). Its other variables are known to the caller.
void NativeHolders::add_modules(std::uint64_t interpreter) {
  struct dl_phdr_info left_out = {};
  if (interpreter != 0) find_module(interpreter, &left_out);
  bool is_program = true;
  any_loaded_module([&](const struct dl_phdr_info& module) {
    const char* name = file_name(module.dlpi_name);
    if (module.dlpi_phdr != left_out.dlpi_phdr && (is_program || may_hold_handles(name))) {
      const bool allocators = begins_with(name, "libc10"), framework = allocators || begins_with(name, "libtorch");
      const std::uint32_t file = add_file(module);
      for_each_data_range(module, [&](std::uint64_t begin, std::uint64_t end) {
        if (in_own_module(begin)) return;
        failed_ = failed_ || !data_.push({{begin, end}, module.dlpi_addr, 0, file, allocators, framework});
      });
      const ThreadLocalData own = is_main_thread() ? thread_local_data_of(module, is_program) : ThreadLocalData{};
      if (own.range.begin != own.range.end && !in_own_module(own.module)) {
        failed_ = failed_ ||
                  !data_.push({own.range, own.range.begin, format::kHolderThreadLocal, file, allocators, framework});
      }
    }
    is_program = false;
    return false;
  });
}

std::uint32_t NativeHolders::add_file(const struct dl_phdr_info& module) {
  const std::size_t bytes = module_path(module, path_, sizeof(path_));
  File file = {paths_.size(), {}, 0};
  file.build_id_bytes = build_id_of(module, file.build_id, sizeof(file.build_id));
  for (std::size_t i = 0; i <= bytes; ++i) failed_ = failed_ || !paths_.push(i < bytes ? path_[i] : '\0');
  failed_ = failed_ || !files_.push(file);
  return static_cast<std::uint32_t>(files_.size()) - 1;
}

void NativeHolders::leave_out(std::uint64_t object) {
  const std::uint32_t block = blocks_.find(object);
  if (block != HeapBlocks::kNone) blocks_.mark(block);
}

bool NativeHolders::add_object(std::uint64_t object, const std::uint64_t* words, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (words[i] % kWord == 0 && blocks_.find(words[i]) != HeapBlocks::kNone && !words_.push({words[i], object}))
      return false;
  }
  return true;
}

bool NativeHolders::want(std::uint64_t address) {
  if (wanted_count_ == kMostWanted) return true;
  Node node = {address, address + 1, {}, 0, false, 0, 0};
  node.leads_to[wanted_count_ / 64] |= std::uint64_t{1} << wanted_count_ % 64;
  ++wanted_count_;
  return nodes_.push(node);
}

bool NativeHolders::want_block(std::uint64_t address) {
  const bool done = want(address);
  block_count_ = wanted_count_;
  return done;
}

bool NativeHolders::want_object(std::uint64_t object) { return want(object); }

bool NativeHolders::search(std::uint64_t deadline_ns) {
  deadline_ns_ = deadline_ns;
  std::sort(words_.begin(), words_.end(), [](const Word& one, const Word& other) { return one.word < other.word; });
  std::uint64_t first = 0;
  for (passes_ = 1; passes_ <= kMostPasses && !failed_; ++passes_) {
    set_targets(first);
    if (targets_.size() == 0) break;
    first = nodes_.size();
    const std::uint64_t first_step = steps_.size();
    pass();
    leave_hubs(first_step);
    spread();
    keep_nearest();
  }
  take_doubtful();
  return variables_.size() + found_objects_.size() != 0;
}

// The nodes from `first` on that lead to something for which no beginning is known.
void NativeHolders::set_targets(std::uint64_t first) {
  targets_.clear();
  std::fill(pages_.begin(), pages_.end(), 0);
  for (std::uint64_t i = first; i < nodes_.size() && !failed_; ++i) {
    const Node& node = nodes_[i];
    if (!is_wanted(node, kMostDoubtful)) continue;
    failed_ = !targets_.push({node.begin, node.end, static_cast<std::uint32_t>(i)});
    for (std::uint64_t page = node.begin >> kPageBits; page <= (node.end - 1) >> kPageBits; ++page) {
      const std::uint64_t slot = slot_of_page(page << kPageBits);
      pages_[slot / 64] |= std::uint64_t{1} << slot % 64;
    }
  }
  if (failed_ || targets_.size() == 0) return;
  std::sort(targets_.begin(), targets_.end(),
            [](const Target& one, const Target& other) { return one.begin < other.begin; });
  least_ = targets_[0].begin;
  span_ = targets_[targets_.size() - 1].end - least_;
}

void NativeHolders::pass() {
  const auto visit = [](void* search, const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
    return static_cast<NativeHolders*>(search)->look_at(words, count, address);
  };
  look_at_objects();
  for (const Data& data : data_) {
    in_data_ = &data;
    if (read_written_memory(&data.range, 1, deadline_ns_, visit, this).end != ReadEnd::kDone) failed_ = true;
    if (failed_) return;
  }
  in_data_ = nullptr;
  const int count = static_cast<int>(heap_.size());
  if (read_written_memory(heap_.data(), count, deadline_ns_, visit, this).end != ReadEnd::kDone) failed_ = true;
}

void NativeHolders::look_at_objects() {
  for (const Target& target : targets_) {
    const Word* word = std::lower_bound(words_.begin(), words_.end(), target.begin,
                                        [](const Word& one, std::uint64_t wanted) { return one.word < wanted; });
    for (; word != words_.end() && word->word < target.end; ++word) {
      // A tensor of Python has the object of C++ that has it.
      if (word->word - target.begin > kMostInside || is_wanted_object(word->object)) continue;
      failed_ = failed_ || !found_objects_.push({word->object, target.node});
      nodes_[target.node].rooted = true;
    }
  }
}

// A pointer to a chunk's first byte, or to an object behind the head of std::make_shared(). Others lead to parts of an
// object, as those of a list to its own head, or are left over from what was there before.
bool NativeHolders::leads_to(std::uint64_t word, const Target& target) {
  if (word == target.begin) return true;
  return word == target.begin + kHead && word < target.end && is_shared(target.begin);
}

// Whether a chunk begins like a std::make_shared(): with a virtual table, and two counts (libstdc++, libc++: one more).
bool NativeHolders::is_shared(std::uint64_t begin) {
  constexpr std::uint64_t kMostCount = 1 << 20;
  std::uint64_t table = 0, counts = 0;
  struct dl_phdr_info module = {};
  return chunks_->pages().word(begin, &table) && chunks_->pages().word(begin + kWord, &counts) &&
         (counts & 0xffffffff) < kMostCount && counts >> 32 < kMostCount && find_module(table, &module);
}

// How much of a chunk is in use where a std::vector (its begin, its end, the end of its memory) or a std::string of
// libstdc++ (its address, its length, its capacity) at `place` owns it. The rest has what was there before.
std::uint64_t NativeHolders::used_bytes(std::uint64_t place, const Target& target) {
  const std::uint64_t size = target.end - target.begin;
  std::uint64_t second = 0, third = 0, text = 0;
  if (!chunks_->pages().word(place + kWord, &second) || !chunks_->pages().word(place + 2 * kWord, &third)) return size;
  if (target.begin <= second && second <= third && third <= target.end) return second - target.begin;
  // malloc rounds the capacity and a NUL up.
  const bool may_be_text = second <= third && third < size && size - third <= 2 * kWord;
  const std::uint64_t inside = second % kWord;
  if (!may_be_text || !chunks_->pages().word(target.begin + second - inside, &text)) return size;
  return (text >> 8 * inside & 0xff) == 0 ? second : size;
}

bool NativeHolders::look_at(const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
  const std::uint64_t mark = passes_ == 1 ? 1 : 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t word = words[i] & ~mark;
    if (word - least_ >= span_ || word % kWord != 0) continue;
    const std::uint64_t slot = slot_of_page(word);
    if ((pages_[slot / 64] >> slot % 64 & 1) == 0) continue;
    const Target* behind = std::upper_bound(targets_.begin(), targets_.end(), word,
                                            [](std::uint64_t wanted, const Target& one) { return wanted < one.begin; });
    if (behind == targets_.begin() || !leads_to(word, behind[-1])) continue;
    const std::uint64_t place = address + i * kWord;
    note(behind[-1], place, behind[-1].node >= block_count_ || looks_owned(words + i, count - i, place));
  }
  return !failed_;
}

// Whether a c10::DataPtr begins there: the argument of the deleter, which is the address again, lies behind the deleter
// (libstdc++) or before it (libc++).
bool NativeHolders::looks_owned(const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
  for (std::uint64_t i = 1; i < 3; ++i) {
    std::uint64_t word = 0;
    if (i < count) {
      word = words[i];
    } else if (!chunks_->pages().word(address + i * kWord, &word)) {
      return false;
    }
    if (word == words[0]) return true;
  }
  return false;
}

// `is_pointer`: false for a word that may be one of the allocator's own records.
void NativeHolders::note(const Target& target, std::uint64_t place, bool is_pointer) {
  const std::uint64_t counts = counts_behind(place, target);
  if (is_over(counts)) return;
  if (target.node >= wanted_count_ && nodes_[target.node].first_pointer >= used_bytes(place, target)) return;
  if (in_data_ != nullptr) {
    if (!is_pointer && in_data_->allocators) return;
    const Variable variable = {(place - in_data_->module) | in_data_->flags, in_data_->file, target.node};
    if (in_data_->framework || has_weak(counts)) {
      // A framework's own weak pointer to a graph that was executed, for example.
      const bool may_keep = is_wanted(nodes_[target.node], 0) && !(in_data_->framework && has_weak(counts));
      failed_ = failed_ || (may_keep && !doubtful_.push(variable));
    } else {
      failed_ = failed_ || !variables_.push(variable);
      nodes_[target.node].rooted = true;
    }
    return;
  }
  const std::uint32_t block = is_pointer ? blocks_.find(place) : HeapBlocks::kNone;
  if (block == HeapBlocks::kNone || blocks_.is_marked(block)) return;
  const std::uint64_t begin = blocks_.begin_of(block), end = blocks_.end_of(block);
  if (begin == target.begin || place >= end || is_frame(begin) || is_in_short_text(place, begin)) return;
  if (is_over(counts_at(begin)) && (end - begin <= kMostOfCounts || is_beside_counts(begin))) return;
  const std::uint32_t node = node_of(begin, end);
  nodes_[node].first_pointer = std::min(nodes_[node].first_pointer, place - begin);
  if (!failed_ && (steps_.size() == kMostSteps || !steps_.push({node, target.node}))) failed_ = true;
}

bool NativeHolders::is_wanted_object(std::uint64_t object) const {
  for (std::uint64_t i = block_count_; i < wanted_count_; ++i) {
    if (nodes_[i].begin == object) return true;
  }
  return false;
}

// The counts of a std::shared_ptr: the uses, and above them the weak pointers and one more while the object lives. 0:
// none begin there.
std::uint64_t NativeHolders::counts_at(std::uint64_t begin) {
  std::uint64_t counts = 0;
  return is_shared(begin) && chunks_->pages().word(begin + kWord, &counts) ? counts : 0;
}

// The counts of the std::shared_ptr or std::weak_ptr (its object's address, and that of the counts) of which `place` is
// a word.
std::uint64_t NativeHolders::counts_behind(std::uint64_t place, const Target& target) {
  std::uint64_t begin = 0;
  const std::uint64_t beside = target.node >= wanted_count_ ? counts_at(target.begin) : 0;
  if (beside != 0 && is_beside_counts(target.begin)) return beside;
  if (!chunks_->pages().word(place + kWord, &begin) || begin % kWord != 0) return 0;
  const std::uint32_t block = blocks_.find(begin);
  return block != HeapBlocks::kNone && blocks_.begin_of(block) == begin ? counts_at(begin) : 0;
}

// Whether the counts are those of std::make_shared(), by the name of their type, to which the word before the virtual
// table leads (Itanium C++ ABI, 2.9.4).
bool NativeHolders::is_beside_counts(std::uint64_t counts) {
  std::uint64_t table = 0, type = 0, name = 0, words[6] = {};
  PageCopies& pages = chunks_->pages();
  if (!pages.word(counts, &table) || !pages.word(table - kWord, &type) || !pages.word(type + kWord, &name))
    return false;
  const std::uint64_t inside = name % kWord;
  for (std::uint64_t i = 0; i + 1 < sizeof(words) / kWord; ++i) pages.word(name - inside + i * kWord, &words[i]);
  const char* text = reinterpret_cast<const char*>(words) + inside;
  return std::strstr(text, "_Sp_counted_ptr_inplace") != nullptr ||
         std::strstr(text, "__shared_ptr_emplace") != nullptr;
}

// Whether a word of a chunk lies in the buffer for short texts of a std::string (libstdc++: the address of the buffer,
// the length, 16 bytes), whose unused part has what was there before.
bool NativeHolders::is_in_short_text(std::uint64_t place, std::uint64_t chunk) {
  constexpr std::uint64_t kBuffer = 16;
  for (const std::uint64_t buffer : {place, place - kWord}) {
    std::uint64_t pointer = 0, length = 0;
    if (buffer >= chunk + kBuffer && chunks_->pages().word(buffer - kBuffer, &pointer) && pointer == buffer &&
        chunks_->pages().word(buffer - kWord, &length) && length < kBuffer)
      return true;
  }
  return false;
}

// The interpreter's frames, up to Python 3.10, follow a head of the collector. One of our own code's has everything.
bool NativeHolders::is_frame(std::uint64_t chunk) {
  constexpr std::uint64_t kType = 24;
  std::uint64_t type = 0;
  return frame_type_ != 0 && chunks_->pages().word(chunk + kType, &type) && type == frame_type_;
}

std::uint32_t NativeHolders::node_of(std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t mask = table_.size() - 1;
  std::uint64_t slot = mix(begin) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (nodes_[table_[slot] - 1].begin == begin) return table_[slot] - 1;
  }
  if (nodes_.size() == kMostNodes || !nodes_.push({begin, end, {}, 0, false, 0, end - begin})) {
    failed_ = true;
    return 0;
  }
  table_[slot] = static_cast<std::uint32_t>(nodes_.size());
  return table_[slot] - 1;
}

// A node that many chunks lead to belongs to none of them: a table of functions, a stream, a pool of threads.
void NativeHolders::leave_hubs(std::uint64_t first) {
  for (std::uint64_t i = first; i < steps_.size(); ++i) ++nodes_[steps_[i].to].holders;
  steps_.keep_if([&](const Step& step) { return nodes_[step.to].holders <= kMostHolders; });
}

// A chunk that is farther away from a node than the node's beginning may have a beginning of its own later: the node is
// not kept by that one.
void NativeHolders::keep_nearest() {
  steps_.keep_if([&](const Step& step) { return nodes_[step.from].rooted || !nodes_[step.to].rooted; });
}

// Upwards what a node leads to, downwards whether a beginning leads to it, and since when a doubtful one does.
void NativeHolders::spread() {
  const auto pass = static_cast<std::uint8_t>(passes_);
  for (const Variable& variable : doubtful_) {
    Node& node = nodes_[variable.node];
    if (node.doubtful == 0) node.doubtful = pass;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Step& step : steps_) {
      Node& from = nodes_[step.from];
      Node& to = nodes_[step.to];
      for (std::size_t i = 0; i < kMostWanted / 64; ++i) {
        changed = changed || (to.leads_to[i] & ~from.leads_to[i]) != 0;
        from.leads_to[i] |= to.leads_to[i];
      }
      const bool is_doubtful = from.doubtful != 0 && to.doubtful == 0;
      changed = changed || (from.rooted && !to.rooted) || is_doubtful;
      to.rooted = to.rooted || from.rooted;
      if (is_doubtful) to.doubtful = pass;
    }
  }
}

// A framework has thousands of variables whose memory nothing has cleared (tables of operators, of types, of
// arguments), and few that keep what a program made. One of them counts where none of the next passes finds another
// beginning. Those of a search that ended early count, too.
void NativeHolders::take_doubtful() {
  for (const Variable& variable : doubtful_) {
    if (is_wanted(nodes_[variable.node], kMostPasses + 1)) variables_.push(variable);
  }
  for (const Variable& variable : variables_) nodes_[variable.node].rooted = true;
  spread();
}

// Whether a node leads to something for which no beginning is known, or a doubtful one alone for fewer than
// `most_passes`.
bool NativeHolders::is_wanted(const Node& node, int most_passes) const {
  for (std::uint64_t i = 0; i < wanted_count_ && !node.rooted; ++i) {
    const Node& wanted = nodes_[i];
    if ((node.leads_to[i / 64] >> i % 64 & 1) != 0 && !wanted.rooted &&
        (wanted.doubtful == 0 || passes_ - wanted.doubtful < most_passes))
      return true;
  }
  return false;
}

}  // namespace culprit
