// A way from a module's data through the heap to a handle, and its name in the program's words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace culprit::report {

// A chunk on the way.
struct PointerStep {
  std::uint64_t at = 0;      // of the pointer to it: its offset in the chunk before; 0 for the first chunk
  std::uint64_t behind = 0;  // the word behind that pointer
  std::uint64_t begin = 0;   // address in the program that was
  std::uint64_t bytes = 0;
  std::uint32_t times = 1;          // chunks of this size in a row, of which this is the last
  std::uint32_t inner = 0;          // where in the chunk the pointer points
  bool window = false;              // not malloc's: where the object ends is not known
  std::uint64_t code = 0;           // HeapStepRecord::code, inside the module's file; 0: there is none
  std::vector<std::uint64_t> head;  // its first words
  // The text that one of these words, a pointer beside a length, leads to; empty: there is none.
  std::string text;
  std::size_t text_word = 0;
  bool operator<(const PointerStep& other) const {
    return std::tie(at, behind, begin, bytes, times, inner, code) <
           std::tie(other.at, other.behind, other.begin, other.bytes, other.times, other.inner, other.code);
  }
};

// A place in the frame of a function that runs. Addresses inside the module's file.
struct FramePlace {
  std::uint64_t address = 0;  // of its code, where it is now
  std::uint64_t call = 0;     // of its code, where it was when it made the call that allocated
  std::int64_t offset = 0;    // from the frame's CFA
  bool operator<(const FramePlace& other) const {
    return std::tie(address, call, offset) < std::tie(other.address, other.call, other.offset);
  }
};

struct PointerPath {
  std::uint64_t data = 0;           // where the first pointer is: an address inside the module's file
  std::uint64_t bias = 0;           // what an address in the program that was has more than one inside that file
  std::optional<FramePlace> frame;  // or a place of a frame
  std::vector<PointerStep> steps;
  std::uint64_t offset = 0;  // of the handle in the last chunk
  bool operator<(const PointerPath& other) const {
    return std::tie(data, frame, offset, steps) < std::tie(other.data, other.frame, other.offset, other.steps);
  }
};

struct PointerPathName {
  std::string exact;    // behind the name of the variable: "[3]->buffer"; with its name where it is one of a function
  std::string general;  // "[*]->buffer": the same for all elements and nodes
  // The debug information has a type for each step, and a pointer or a number for the handle; and the handle is part of
  // an object that lives there. Elements of a `new T[n]` and of a deque have names, and may be memory that nothing was
  // written to yet: with what it had before, perhaps a copy of the driver's.
  bool typed = false;
  std::string function;         // of a variable of a function
  bool in_block = false;        // likewise: of a block of it
  bool stale = false;           // what has the handle is room of a vector behind its last element
  bool one_of_several = false;  // a list, an array or a container without keys is on the way
  bool keyed = false;           // a container with keys is on the way
};

}  // namespace culprit::report
