// Reads the words of one walk of the calling thread's stack, and lists them.
//
// Code without unwind information (assembly, a JIT) has any value in rbp, and a walk that follows it can arrive at any
// address. So every address is tested before it is read:
//
//   the registers, and the          read in place
//   tracker's own stack
//   the program's stack             its pages, beginning with the first one that is read and without a gap: each is
//                                   tested by a system call, then read in place
//   anything else, and all pages    copied by a system call, which fails where a read would end the process: another
//   that are new after a guess      thread may unmap the page at any moment, and a read may change a device's memory
//
// The list: a walk is decided by the words that it read, by the unwind information of modules, and by the first frame.
// WalkMemo finds a walk again by comparing these words. Of a register that may be a frame pointer, and of a word that
// may be a return address, only the answer matters where it is no.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/stacks/walked_words.h"

namespace culprit {

class WalkReader {
 public:
  // The calling thread's reader until its end, one at a time, of a walk that begins with these registers.
  explicit WalkReader(const ucontext_t* registers);
  ~WalkReader();
  WalkReader(const WalkReader&) = delete;
  WalkReader& operator=(const WalkReader&) = delete;

  // From now on words are listed in `list`, the first one being the hook's return address at `frame` + 8. A list that
  // would not determine the walk is marked as incomplete.
  void begin_list(WalkedWords* list, const std::uint64_t* frame);

  // Reads eight bytes. Returns false when that is impossible. `kind`: what the word may be; the CFA of its frame, for
  // frame pointers. `list` = false: the value does not matter.
  bool read(std::uint64_t address, std::uint64_t* value, WalkedWords::Kind kind = WalkedWords::Kind::kWord,
            std::uint64_t cfa = 0, bool listed = true);

  // The walk goes on without unwind information.
  void begin_guessing() { ++guesses_; }
  bool is_guessing() const { return guesses_ != 0; }
  int guesses() const { return guesses_; }
  // A frame of a running function is at `address`: from the first such address on all of it is the program's stack.
  void trust(std::uint64_t address);

 private:
  static constexpr std::uint64_t kPage = 4096;  // the smallest page size of any machine
  bool fetch(std::uint64_t address, std::uint64_t* value);
  bool fetch_copy(std::uint64_t address, std::uint64_t* value);

  bool is_own(std::uint64_t address) const;

  std::uint64_t registers_;
  std::uint64_t begin_ = 0;  // of the program's stack, as far as it was tested
  std::uint64_t end_ = 0;
  std::uint64_t copied_ = 1;  // the page in `copy_`; 1 = none
  int guesses_ = 0;
  WalkedWords* list_ = nullptr;
  alignas(8) unsigned char copy_[kPage];
};

// The eight bytes at any address, which must be readable.
__attribute__((no_sanitize("address", "thread"))) inline std::uint64_t read_in_place(std::uint64_t address) {
  struct __attribute__((packed, may_alias)) Word {
    std::uint64_t value;
  };
  return reinterpret_cast<const Word*>(address)->value;
}

// The calling thread's reader, nullptr between walks.
extern CULPRIT_OWN __thread WalkReader* walk_reader __attribute__((tls_model("initial-exec")));

}  // namespace culprit
