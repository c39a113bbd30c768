// A text that is kept compressed: for output that is written when its size is known, and for files that a reader takes
// up to a compressed size only.
#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

namespace culprit::report {

// Not thread-safe. Throws std::bad_alloc when memory is short.
class PackedText {
 public:
  PackedText();
  ~PackedText();
  PackedText(const PackedText&) = delete;
  PackedText& operator=(const PackedText&) = delete;

  void append(std::string_view text);

  // An upper limit of the bytes to which gzip compresses the text at its usual level, which is the level here: what
  // zlib has not given out yet is counted at its largest.
  std::size_t most_bytes() const;

  // Writes the text. Call once, after the last append().
  void write(std::ostream& out);

 private:
  struct Stream;  // zlib's
  void deflate_all(std::string_view text, int flush);

  std::unique_ptr<Stream> stream_;  // nullptr: nothing was appended
  std::size_t bytes_ = 0;           // of the text
  std::string packed_;
};

}  // namespace culprit::report
