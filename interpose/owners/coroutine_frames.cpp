#include "interpose/owners/coroutine_frames.h"

#include <cstring>

#include "interpose/format/dump_format.h"
#include "interpose/owners/cxx_types.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

constexpr std::uint64_t kLeastAddress = 65536;
constexpr std::uint64_t kMostAddress = std::uint64_t{1} << 47;
constexpr std::uint64_t kAlignment = 16;  // of what operator new returns
constexpr int kMostCandidates = 64;       // each is a system call
constexpr std::uint64_t kChunkFlags = 7;  // glibc's malloc, in the size of a chunk
constexpr std::uint64_t kSmallest = 32;
constexpr std::uint64_t kLargest = 65536;
constexpr std::uint64_t kUnknownSize = 512;
constexpr std::uint64_t kMostCode = 65536;

bool is_beginning(std::uint64_t address, FunctionAt function_at, FunctionInfo* info) {
  // The tables are asked for the address before a return address.
  return address > kLeastAddress && address < kMostAddress && function_at(address + 1, info) &&
         info->begin == address && !info->is_part;
}

// Whether a function has a jump into a part that the compiler split off from it, or from another one.
bool jumps_into(const FunctionInfo& function, const FunctionInfo& part) {
#if defined(__x86_64__)
  // jmp rel32, or jcc rel32 (0f 80 to 0f 8f)
  const auto byte = [](std::uint64_t at) { return *reinterpret_cast<const std::uint8_t*>(at); };
  for (std::uint64_t next = function.begin + 6; next <= function.end && next - function.begin < kMostCode; ++next) {
    if (byte(next - 5) != 0xe9 && (byte(next - 6) != 0x0f || byte(next - 5) >> 4 != 8)) continue;
    std::int32_t distance;
    std::memcpy(&distance, reinterpret_cast<const void*>(next - 4), sizeof(distance));
    const std::uint64_t target = next + static_cast<std::uint64_t>(std::int64_t{distance});
    if (target >= part.begin && target < part.end) return true;
  }
#else
  (void)function;
  (void)part;
#endif
  return false;
}

// Collects the words that are addresses of coroutine frames.
class Candidates {
 public:
  Candidates(const FunctionInfo& function, FunctionAt function_at) : function_(function), function_at_(function_at) {}

  void look_at(std::uint64_t word) {
    if (word < kLeastAddress || word >= kMostAddress || word % kAlignment != 0 || word == own_ || word == other_ ||
        tried_ == kMostCandidates)
      return;
    ++tried_;
    std::uint64_t head[2] = {};
    if (os.read_own_memory(head, word, sizeof(head)) != static_cast<std::int64_t>(sizeof(head))) return;
    FunctionInfo resume = {}, destroy = {};
    if (!is_beginning(head[0], function_at_, &resume) || !is_beginning(head[1], function_at_, &destroy)) return;
    const bool own = function_.is_part ? jumps_into(resume, function_) : head[0] == function_.begin;
    std::uint64_t* slot = own ? &own_ : &other_;
    bool* several = own ? &several_own_ : &several_others_;
    *several = *several || *slot != 0;
    *slot = word;
  }

  // The frame whose body is this function; else the only other one: until the first suspension, clang++ runs the body
  // in the function that makes the frame.
  std::uint64_t result() const {
    if (own_ != 0) return several_own_ ? 0 : own_;
    return several_others_ ? 0 : other_;
  }

 private:
  const FunctionInfo function_;
  const FunctionAt function_at_;
  std::uint64_t own_ = 0, other_ = 0;
  bool several_own_ = false, several_others_ = false;
  int tried_ = 0;
};

// By the header that glibc's malloc has before what it returns.
std::uint64_t size_at(std::uint64_t address) {
  std::uint64_t size = 0;
  if (os.read_own_memory(&size, address - sizeof(size), sizeof(size)) != static_cast<std::int64_t>(sizeof(size)))
    return kUnknownSize;
  size &= ~kChunkFlags;
  if (size % kAlignment != 0 || size < kSmallest) return kUnknownSize;
  const std::uint64_t usable = size - sizeof(size);
  return usable < kLargest ? usable : kUnknownSize;
}

}  // namespace

CoroutineFrame find_coroutine_frame(const FunctionInfo& function, const std::uint64_t* registers, int register_count,
                                    const std::uint64_t* begin, const std::uint64_t* end, FunctionAt function_at) {
  Candidates candidates(function, function_at);
  for (int i = 0; i < register_count; ++i) candidates.look_at(registers[i]);
  for (const std::uint64_t* word = begin; word < end; ++word) candidates.look_at(*word);
  const std::uint64_t address = candidates.result();
  return {address, address == 0 ? 0 : size_at(address)};
}

bool is_handler_of_body(std::uint64_t thrown, std::uint64_t catch_call, TypeInfo type, FunctionAt function_at) {
  FunctionInfo at_throw = {};
  if (!function_at(thrown, &at_throw) || at_throw.lsda == nullptr) return false;
  const Lsda lsda(at_throw.lsda, at_throw.lsda_end, at_throw.begin);
  const Lsda::CallSite site = lsda.call_site(thrown);
  for (int i = 0; i < site.count; ++i) {
    TypeInfo handler = nullptr;
    if (!lsda.type_of(site.filters[i], &handler)) return false;
    const bool catches_all = handler == nullptr;
    if (catches_all) return i + 1 == site.count && has_one_handler(thrown, catch_call, function_at);
    if (is_caught_by(type, handler) != 0) return false;
  }
  return false;
}

}  // namespace culprit
