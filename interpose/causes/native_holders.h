// Chunks of malloc that lead to blocks of a framework's cache, or to objects of an interpreter that C code alone has,
// and the variable of a module, or the other object of the interpreter, with which the way begins.
//
//     g_cache, of libext.so --> a node of a map --> at::Tensor's object --> its storage: address, deleter, address
//     model._c, of Python ----> torch::jit's object --> ...
//
// Searched from the blocks upwards. Each step is one pass over the memory of malloc and of modules, and the search ends
// at the step at which a beginning is found: the interpreter's state, farther away, has everything. A variable of the
// framework itself, or what may be a weak pointer, is a doubtful beginning: a few more steps look for another one. The
// unused parts of strings and vectors, and objects that have ended, lead nowhere. The allocator of the blocks has the
// address of each in records of its own. A block is therefore known by what c10::DataPtr looks like (c10/core/
// Allocator.h: the address, its deleter, the deleter's argument, which is the address again), or by a variable of a
// module.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <link.h>

#include <cstdint>

#include "interpose/causes/heap_blocks.h"
#include "interpose/causes/heap_chunks.h"
#include "interpose/system/private_array.h"
#include "interpose/system/written_memory.h"

namespace culprit {

class NativeHolders {
 public:
  static constexpr std::uint64_t kMostWanted = 256;  // blocks and objects

  // From one chunk to another, or to what is wanted: blocks and then objects are the first nodes, in their order.
  struct Step {
    std::uint32_t from, to;
  };
  // A variable that leads to a node. `address`: in the file of the module; format::kHolderThreadLocal marks one in a
  // thread-local segment. `file`: for file_of().
  struct Variable {
    std::uint64_t address;
    std::uint32_t file;
    std::uint32_t node;
  };
  // A module's file: its absolute path is for path_of(), its build ID may be empty.
  struct File {
    std::uint64_t path;
    std::uint8_t build_id[31];
    std::uint8_t build_id_bytes;
  };
  // An object of the interpreter that leads to a node.
  struct Object {
    std::uint64_t object;
    std::uint32_t node;
  };

  NativeHolders() = default;
  ~NativeHolders();
  NativeHolders(const NativeHolders&) = delete;
  NativeHolders& operator=(const NativeHolders&) = delete;

  // Finds malloc's chunks and the data of modules. `interpreter`: an address in a module whose data leads nowhere here;
  // 0: there is none. `frame_type`: that of the interpreter's frames, whose variables lead nowhere either. False
  // without memory, or where malloc is not glibc's.
  bool open(std::uint64_t interpreter, std::uint64_t frame_type);

  // Adds what is looked for; too much is left out. False without memory. Blocks come before objects, whose lowest bit
  // may be set in a pointer (c10/core/impl/PyObjectSlot.h).
  bool want_block(std::uint64_t address);
  bool want_object(std::uint64_t object);

  // Whether an address lies in a chunk of malloc.
  bool is_in_heap(std::uint64_t address) const { return blocks_.find(address) != HeapBlocks::kNone; }
  // An object whose references the caller knows: where it has a chunk of malloc, that chunk leads nowhere here.
  void leave_out(std::uint64_t object);
  // Words of an object of the interpreter, of which those that lead into a chunk of malloc are noted. False without
  // memory.
  bool add_object(std::uint64_t object, const std::uint64_t* words, std::uint64_t count);

  // When CLOCK_MONOTONIC passes `deadline_ns`, ways that were found before stay. False: there is none. Changes errno.
  bool search(std::uint64_t deadline_ns);

  // After search(): each leads to something wanted, and a variable or an object leads to each.
  template <typename Visit>
  void for_each_step(Visit visit) const {
    for (const Step& step : steps_) {
      if (nodes_[step.from].rooted && nodes_[step.to].rooted) visit(step);
    }
  }
  const PrivateArray<Variable>& variables() const { return variables_; }
  // Valid as long as this object.
  const File& file_of(const Variable& variable) const { return files_[variable.file]; }
  const char* path_of(const File& file) const { return paths_.data() + file.path; }
  const PrivateArray<Object>& objects() const { return found_objects_; }

 private:
  struct Node {
    std::uint64_t begin, end;
    std::uint64_t leads_to[kMostWanted / 64];  // of what is wanted, a bit each
    std::uint32_t holders;                     // chunks that lead to it
    bool rooted;                               // a beginning leads to it
    std::uint8_t doubtful;                     // the pass since which a doubtful one does; 0: none
    std::uint64_t first_pointer;               // of those in it that lead on: the offset
  };
  struct Target {
    std::uint64_t begin, end;
    std::uint32_t node;
  };
  struct Word {
    std::uint64_t word, object;
  };
  // Of a module's data. `module`: the address that those in the file are counted from.
  struct Data {
    MemoryRange range;
    std::uint64_t module, flags;
    std::uint32_t file;  // in files_
    bool allocators;     // of the library with the records of blocks
    bool framework;      // of the blocks' framework itself
  };

  bool want(std::uint64_t address);
  void add_modules(std::uint64_t interpreter);
  std::uint32_t add_file(const struct dl_phdr_info& module);
  void set_targets(std::uint64_t first);
  void pass();
  bool leads_to(std::uint64_t word, const Target& target);
  bool is_shared(std::uint64_t begin);
  std::uint64_t used_bytes(std::uint64_t place, const Target& target);
  bool look_at(const std::uint64_t* words, std::uint64_t count, std::uint64_t address);
  void look_at_objects();
  void note(const Target& target, std::uint64_t place, bool is_pointer);
  bool looks_owned(const std::uint64_t* words, std::uint64_t count, std::uint64_t address);
  bool is_wanted_object(std::uint64_t object) const;
  std::uint64_t counts_at(std::uint64_t begin);
  std::uint64_t counts_behind(std::uint64_t place, const Target& target);
  bool is_beside_counts(std::uint64_t counts);
  bool is_in_short_text(std::uint64_t place, std::uint64_t chunk);
  bool is_frame(std::uint64_t chunk);
  std::uint32_t node_of(std::uint64_t begin, std::uint64_t end);
  void leave_hubs(std::uint64_t first);
  void spread();
  void keep_nearest();
  void take_doubtful();
  bool is_wanted(const Node& node, int most_passes) const;

  HeapChunks* chunks_ = nullptr;
  HeapBlocks blocks_;
  PrivateArray<Data> data_;
  PrivateArray<File> files_;
  PrivateArray<char> paths_;  // with a NUL behind each: another thread may unload a library
  PrivateArray<MemoryRange> heap_;
  PrivateArray<Word> words_;
  PrivateArray<Node> nodes_;
  PrivateArray<std::uint32_t> table_;  // node + 1 by the hash of its begin
  PrivateArray<Target> targets_;       // of this pass, sorted
  PrivateArray<Step> steps_;
  PrivateArray<Variable> variables_, doubtful_;
  PrivateArray<Object> found_objects_;
  PrivateArray<std::uint64_t> pages_;  // a bit for the hash of each page of a target
  const Data* in_data_ = nullptr;      // nullptr: a chunk of malloc is read
  std::uint64_t least_ = 0, span_ = 0;
  std::uint64_t block_count_ = 0, wanted_count_ = 0, deadline_ns_ = 0, frame_type_ = 0;
  int passes_ = 0;
  char path_[1024];  // of the module that is being added
  bool failed_ = false;
};

}  // namespace culprit
