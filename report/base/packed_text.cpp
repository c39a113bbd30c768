#include "report/base/packed_text.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <vector>

namespace culprit::report {
namespace {

constexpr std::size_t kPart = 256 << 10;
// zlib collects up to 16,384 symbols, each of at most 6 bytes, before it writes a block.
constexpr std::size_t kMostPending = 16384 * 6 + 1024;

}  // namespace

struct PackedText::Stream {
  z_stream z = {};
  Stream() {
    if (::deflateInit(&z, Z_DEFAULT_COMPRESSION) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { ::deflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

PackedText::PackedText() = default;
PackedText::~PackedText() = default;

void PackedText::append(std::string_view text) {
  if (text.empty()) return;
  if (stream_ == nullptr) stream_ = std::make_unique<Stream>();
  bytes_ += text.size();
  deflate_all(text, Z_NO_FLUSH);
}

std::size_t PackedText::most_bytes() const { return packed_.size() + std::min(bytes_ + 64, kMostPending); }

void PackedText::write(std::ostream& out) {
  if (stream_ == nullptr) return;
  deflate_all({}, Z_FINISH);
  z_stream z = {};
  if (::inflateInit(&z) != Z_OK) throw std::bad_alloc();
  z.next_in = reinterpret_cast<Bytef*>(packed_.data());
  z.avail_in = static_cast<uInt>(packed_.size());
  std::vector<char> part(kPart);
  int state = Z_OK;
  while (state == Z_OK) {
    z.next_out = reinterpret_cast<Bytef*>(part.data());
    z.avail_out = static_cast<uInt>(part.size());
    state = ::inflate(&z, Z_NO_FLUSH);
    out.write(part.data(), static_cast<std::streamsize>(part.size() - z.avail_out));
  }
  ::inflateEnd(&z);
}

void PackedText::deflate_all(std::string_view text, int flush) {
  z_stream& z = stream_->z;
  do {
    const std::size_t taken = std::min(text.size(), kPart);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(taken);
    text.remove_prefix(taken);
    do {
      char room[32 << 10];
      z.next_out = reinterpret_cast<Bytef*>(room);
      z.avail_out = sizeof(room);
      ::deflate(&z, flush);
      packed_.append(room, sizeof(room) - z.avail_out);
    } while (z.avail_out == 0);
  } while (!text.empty());
}

}  // namespace culprit::report
