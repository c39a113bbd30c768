#include "interpose/device_code/fat_binary.h"

#include <cstring>

namespace culprit {
namespace {

struct EntryHeader {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;             // of the data, padded
  std::uint32_t compressed_bytes;  // 0: as it is
  std::uint32_t options;           // offset of the text of ptxas's options
  std::uint16_t minor;
  std::uint16_t major;
  std::uint32_t architecture;
  std::uint32_t name;  // offset and length of the source file's name
  std::uint32_t name_bytes;
  std::uint64_t flags;
  std::uint64_t unused;
  std::uint64_t image_bytes;
};
static_assert(sizeof(EntryHeader) == 64);

constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kCubin = 2;
constexpr std::uint64_t kAnyCompression = 0x1000;  // an older one, of CUDA 4
constexpr std::uint64_t kLz4 = 0x2000;
constexpr std::uint64_t kZstd = 0x8000;

FatBinaryEntry describe(const EntryHeader& header, const unsigned char* data) {
  FatBinaryEntry entry = {};
  entry.kind = header.kind == kPtx     ? FatBinaryEntry::Kind::kPtx
               : header.kind == kCubin ? FatBinaryEntry::Kind::kCubin
                                       : FatBinaryEntry::Kind::kOther;
  entry.architecture = header.architecture;
  entry.data = data;
  entry.bytes = entry.image_bytes = header.bytes;
  if ((header.flags & (kLz4 | kZstd)) != 0) {
    entry.compression = (header.flags & kZstd) != 0 ? Compression::kZstd : Compression::kLz4;
    entry.bytes = header.compressed_bytes;
    entry.image_bytes = header.image_bytes;
  } else if ((header.flags & kAnyCompression) != 0) {
    entry.kind = FatBinaryEntry::Kind::kOther;
  }
  return entry;
}

}  // namespace

bool visit_entries(const unsigned char* container, std::uint64_t bytes, EntryVisitor visit, void* argument) {
  FatBinary head;
  if (bytes < sizeof(head)) return false;
  std::memcpy(&head, container, sizeof(head));
  if (head.magic != FatBinary::kMagic || head.header_bytes < sizeof(head) || head.header_bytes > bytes ||
      head.bytes > bytes - head.header_bytes)
    return false;
  const std::uint64_t end = head.header_bytes + head.bytes;
  for (std::uint64_t at = head.header_bytes; at != end;) {
    EntryHeader header;
    if (end - at < sizeof(header)) return false;
    std::memcpy(&header, container + at, sizeof(header));
    if (header.header_bytes < sizeof(header) || header.header_bytes > end - at) return false;
    at += header.header_bytes;
    if (header.bytes > end - at || header.compressed_bytes > header.bytes) return false;
    if (!visit(describe(header, container + at), argument)) return false;
    at += header.bytes;
  }
  return true;
}

}  // namespace culprit
