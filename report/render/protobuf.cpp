#include "report/render/protobuf.h"

#include <algorithm>
#include <array>

namespace culprit::report {
namespace {

void put_varint(std::uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) *out += static_cast<char>(0x80 | (value & 0x7f));
  *out += static_cast<char>(value);
}

void put_little(std::uint32_t value, unsigned bytes, std::string* out) {
  for (unsigned i = 0; i < bytes; ++i) *out += static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint32_t crc32(const std::string& data) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made = {};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320U : value >> 1;
      made[i] = value;
    }
    return made;
  }();
  std::uint32_t crc = 0xffffffffU;
  for (const char c : data) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

}  // namespace

void ProtobufMessage::number(unsigned field, std::uint64_t value) {
  if (value != 0) member(field, value);
}

void ProtobufMessage::member(unsigned field, std::uint64_t value) {
  put_varint(field << 3, &bytes_);
  put_varint(value, &bytes_);
}

void ProtobufMessage::text(unsigned field, const std::string& value) {
  put_varint(field << 3 | 2, &bytes_);
  put_varint(value.size(), &bytes_);
  bytes_ += value;
}

void ProtobufMessage::packed(unsigned field, const std::vector<std::uint64_t>& values) {
  std::string content;
  for (const std::uint64_t value : values) put_varint(value, &content);
  text(field, content);
}

std::string gzip_stored(const std::string& data) {
  constexpr std::size_t kLargestBlock = 65535;
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  std::size_t at = 0;
  do {
    const std::size_t length = std::min(data.size() - at, kLargestBlock);
    out += static_cast<char>(at + length == data.size());  // bit 0: last block; type 0: stored
    put_little(static_cast<std::uint32_t>(length), 2, &out);
    put_little(~static_cast<std::uint32_t>(length), 2, &out);
    out.append(data, at, length);
    at += length;
  } while (at < data.size());
  put_little(crc32(data), 4, &out);
  put_little(static_cast<std::uint32_t>(data.size()), 4, &out);
  return out;
}

}  // namespace culprit::report
