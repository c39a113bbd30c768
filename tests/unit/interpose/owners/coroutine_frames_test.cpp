// Which words of a function's registers and stack are the address of its coroutine frame.
#include "interpose/owners/coroutine_frames.h"

#include "tests/catch.h"

using namespace culprit;

namespace {

// Functions of 256 bytes from this address on.
constexpr std::uint64_t kCode = 0x10000000;
constexpr std::uint64_t kFunctionBytes = 256;
constexpr std::uint64_t function_number(std::uint64_t number) { return kCode + number * kFunctionBytes; }

bool known_function_at(std::uint64_t return_address, FunctionInfo* info) {
  const std::uint64_t at = return_address - 1;
  if (at < kCode || at >= function_number(8)) return false;
  const std::uint64_t begin = at / kFunctionBytes * kFunctionBytes;
  *info = {begin, begin + kFunctionBytes, false, false, nullptr, nullptr};
  return true;
}

struct alignas(16) HeapFrame {
  std::uint64_t head[2];
  std::uint64_t variables[6];
};
std::uint64_t address_of(const HeapFrame& frame) { return reinterpret_cast<std::uint64_t>(&frame); }

std::uint64_t frame_found(std::uint64_t function, std::vector<std::uint64_t> registers,
                          std::vector<std::uint64_t> stack = {}) {
  FunctionInfo info = {};
  REQUIRE(known_function_at(function + 1, &info));
  return find_coroutine_frame(info, registers.data(), static_cast<int>(registers.size()), stack.data(),
                              stack.data() + stack.size(), known_function_at)
      .address;
}

}  // namespace

TEST_CASE("the frame of a coroutine is found in registers and on the stack", "[coroutines]") {
  const HeapFrame own = {{function_number(1), function_number(2)}, {}};
  const HeapFrame other = {{function_number(3), function_number(4)}, {}};
  const std::uint64_t body = function_number(1);
  CHECK(frame_found(body, {0, address_of(own), 7}) == address_of(own));
  CHECK(frame_found(body, {1, 2}, {address_of(own), 5}) == address_of(own));
  CHECK(frame_found(body, {address_of(other), address_of(own), address_of(own)}) == address_of(own));
  // Until the first suspension the body may run in the function that makes the frame.
  CHECK(frame_found(function_number(5), {address_of(other)}) == address_of(other));
}

TEST_CASE("where several frames may be the one there is none", "[coroutines]") {
  const HeapFrame own = {{function_number(1), function_number(2)}, {}};
  const HeapFrame again = own;
  const HeapFrame other = {{function_number(3), function_number(4)}, {}};
  CHECK(frame_found(function_number(1), {address_of(own), address_of(again)}) == 0);
  CHECK(frame_found(function_number(5), {address_of(own), address_of(other)}) == 0);
}

TEST_CASE("other memory is no frame of a coroutine", "[coroutines]") {
  const HeapFrame one_function = {{function_number(1), 5}, {}};
  const HeapFrame middle = {{function_number(1) + 16, function_number(2)}, {}};
  const HeapFrame no_code = {{function_number(9), function_number(10)}, {}};
  for (const HeapFrame* frame : {&one_function, &middle, &no_code})
    CHECK(frame_found(function_number(1), {address_of(*frame)}) == 0);
  CHECK(frame_found(function_number(1), {0, 1, 0x7fff12345670, ~0ULL, address_of(middle) + 8}) == 0);
}
