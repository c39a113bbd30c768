// Reads a function's exception table (the language-specific data area, section .gcc_except_table), as the personality
// routines of g++ and clang++ do: Itanium C++ ABI "Exception Handling Tables", gcc/except.cc
// (output_one_function_exception_table), libstdc++ eh_personality.cc.
//
//     header | call sites: (begin, length, landing pad, action) | actions: (filter, next) | type table, backwards
//
// A call that throws enters its call site's landing pad. The chain of actions describes it: filter 0 = cleanup,
// positive = a handler of that type, negative = an exception specification.
//
// Every read is bounded: a damaged table gives "not found", never a read outside the given range.
#pragma once

#include <cstdint>

namespace culprit {

// A handler's type or thrown type: its std::type_info; nullptr as a handler's type = catch (...).
using TypeInfo = const void*;

class Lsda {
 public:
  // The table at `data`; nothing at or above `end` is read. `function`: where the function (or the part of it that this
  // table belongs to) begins. valid() is false for an unreadable table.
  Lsda(const std::uint8_t* data, const std::uint8_t* end, std::uint64_t function);
  bool valid() const { return valid_; }
  bool same_table(const Lsda& other) const { return begin_ == other.begin_; }

  static constexpr int kMostActions = 32;
  struct CallSite {
    bool found;                 // false: no call site holds this address (an exception there ends the program)
    std::uint64_t landing_pad;  // 0 = none
    bool cleans_up;             // the chain has a cleanup
    int count;                  // handlers, inner ones first
    std::int64_t filters[kMostActions];
  };
  // The call site with the call that returns to `return_address`.
  CallSite call_site(std::uint64_t return_address) const;

  // The type of a positive filter. Returns false when the table does not contain it.
  bool type_of(std::int64_t filter, TypeInfo* type) const;

 private:
  template <typename Visit>
  void for_each_call_site(Visit visit) const;
  void read_actions(std::uint64_t first, CallSite* site) const;

  bool valid_ = false;
  std::uint8_t type_encoding_ = 0;
  std::uint8_t call_site_encoding_ = 0;
  std::uint64_t function_ = 0;
  std::uint64_t landing_pads_ = 0;
  const std::uint8_t* call_sites_ = nullptr;
  const std::uint8_t* actions_ = nullptr;  // also the end of the call sites
  const std::uint8_t* types_ = nullptr;    // one past the first type, nullptr = none
  const std::uint8_t* begin_ = nullptr;
  const std::uint8_t* end_ = nullptr;
};

enum class SameHandler {
  kNo,
  kYes,
  kPerhaps,  // perhaps another try block of this function with the same handlers
};

// Whether `type` is caught by a handler of `handler_type`: 1 yes, 0 no, -1 not known.
using Catches = int (*)(TypeInfo type, TypeInfo handler_type);

// Whether the handler that caught `type`, thrown out of the call at `thrown` of a function, also covers the call at
// `other` of that function. The two tables differ when the compiler put the calls into different parts of the function.
// `only_handler`: that function has one handler only.
SameHandler same_handler(const Lsda& thrown_lsda, std::uint64_t thrown, const Lsda& other_lsda, std::uint64_t other,
                         bool only_handler, TypeInfo type, Catches catches);

}  // namespace culprit
