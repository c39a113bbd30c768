#include "report/render/pickle.h"

namespace culprit::report {
namespace {

enum Code : unsigned {
  kProtocol = 0x80,
  kMark = '(',
  kStop = '.',
  kEmptyDict = '}',
  kSetItems = 'u',
  kEmptyList = ']',
  kAppends = 'e',
  kBinUnicode = 'X',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
};

// As many as Python's own writer appends at once: a reader keeps them all, and one in JavaScript makes them arguments
// of a call.
constexpr std::uint64_t kBatch = 1000;

constexpr std::size_t kMostWaiting = 1 << 16;

}  // namespace

PickleWriter::PickleWriter(std::ostream& out) : out_(out) {
  byte(kProtocol);
  byte(2);
}

void PickleWriter::finish() {
  byte(kStop);
  pass_on(0);
}

void PickleWriter::begin_dict() {
  byte(kEmptyDict);
  byte(kMark);
}

void PickleWriter::end_dict() {
  byte(kSetItems);
  pass_on(kMostWaiting);
}

void PickleWriter::begin_list() { byte(kEmptyList); }

void PickleWriter::next_in_list(std::uint64_t index) {
  if (index % kBatch != 0) return;
  if (index != 0) byte(kAppends);
  byte(kMark);
}

void PickleWriter::end_list(std::uint64_t elements) {
  if (elements != 0) byte(kAppends);
}

void PickleWriter::text(const std::string& value) {
  byte(kBinUnicode);
  little(value.size(), 4);
  waiting_ += value;
}

void PickleWriter::number(std::uint64_t value) {
  if (value <= 0xff) {
    byte(kBinInt1);
    little(value, 1);
  } else if (value <= 0xffff) {
    byte(kBinInt2);
    little(value, 2);
  } else if (value <= 0x7fffffff) {
    byte(kBinInt);
    little(value, 4);
  } else {
    // Two's complement: the topmost bit is the sign.
    unsigned bytes = 4;
    while (bytes < 8 && value >> (8 * bytes - 1) != 0) ++bytes;
    const bool negative = value >> (8 * bytes - 1) != 0;
    byte(kLong1);
    byte(bytes + (negative ? 1 : 0));
    little(value, bytes);
    if (negative) byte(0);
  }
}

void PickleWriter::truth(bool value) { byte(value ? kNewTrue : kNewFalse); }

std::uint32_t PickleWriter::put() {
  const std::uint32_t number = values_++;
  byte(number <= 0xff ? kBinPut : kLongBinPut);
  little(number, number <= 0xff ? 1 : 4);
  return number;
}

void PickleWriter::get(std::uint32_t number) {
  byte(number <= 0xff ? kBinGet : kLongBinGet);
  little(number, number <= 0xff ? 1 : 4);
}

void PickleWriter::pass_on(std::size_t most) {
  if (waiting_.size() <= most) return;
  out_ << waiting_;
  waiting_.clear();
}

void PickleWriter::little(std::uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) byte(value >> (8 * i) & 0xff);
}

}  // namespace culprit::report
