// Writes protocol-buffer messages field by field (https://protobuf.dev/programming-guides/encoding), and the gzip
// envelope around them. The formats of pprof and Perfetto need only this, which does not justify a library and its
// compiler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

// A message under construction. A field of value 0 is left out, because readers assume 0.
class ProtobufMessage {
 public:
  void number(unsigned field, std::uint64_t value);
  // Likewise, but 0 is written, too: of a member of a oneof its presence says which one it is.
  void member(unsigned field, std::uint64_t value);
  void text(unsigned field, const std::string& value);
  void message(unsigned field, const ProtobufMessage& value) { text(field, value.bytes_); }
  void packed(unsigned field, const std::vector<std::uint64_t>& values);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// `data` as a gzip file (RFC 1952) without compression.
std::string gzip_stored(const std::string& data);

}  // namespace culprit::report
