// Protocol-buffer messages, written field by field (https://protobuf.dev/programming-guides/encoding), and the gzip
// envelope around them: all that the pprof format needs, too little to depend on a library and its compiler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit {

// A message that is being written. A field of value 0 is left out, as its reader assumes 0.
class ProtobufMessage {
 public:
  void number(unsigned field, std::uint64_t value);
  void text(unsigned field, const std::string& value);
  void message(unsigned field, const ProtobufMessage& value) { text(field, value.bytes_); }
  void packed(unsigned field, const std::vector<std::uint64_t>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// `data` as a gzip file (RFC 1952) without compression.
std::string gzip_stored(const std::string& data);

}  // namespace culprit
