#include "report/dump/growing_dump.h"

#include <unistd.h>

#include <cstring>

#include "report/base/input_file.h"

namespace culprit::report {

using namespace format;

namespace {

bool read_at(int file, std::uint64_t offset, void* data, std::size_t bytes) {
  return ::pread(file, data, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// A record that is being written has the state 0, or differs at the second reading.
template <typename Record>
bool read_record(int file, std::uint64_t offset, Record* record) {
  Record again;
  return read_at(file, offset, record, sizeof(*record)) && record->state != 0 &&
         read_at(file, offset, &again, sizeof(again)) && std::memcmp(record, &again, sizeof(again)) == 0;
}

}  // namespace

bool GrowingDump::read_header(int file) {
  Header header;
  if (!read_at(file, 0, &header, sizeof(header)) || std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      header.byte_order != kByteOrderMark || header.version > kVersion || header.version < kOldestReadableVersion ||
      header.header_bytes != kHeaderBytes)
    return false;
  header_ = header;
  return true;
}

bool GrowingDump::find_chunks(int file) {
  while (end_ < header_.file_bytes) {
    ChunkHeader chunk;
    if (!read_at(file, end_, &chunk, sizeof(chunk))) return false;
    if (chunk.magic == 0) return true;  // reserved, not published yet
    if (chunk.magic != kChunkMagic || chunk.bytes < kChunkAlignment || chunk.bytes % kChunkAlignment != 0 ||
        chunk.bytes > header_.file_bytes - end_)
      return false;
    if (chunk.type == ChunkType::kDevices || chunk.type == ChunkType::kBreakdowns)
      chunks_.push_back({end_, chunk.type});
    end_ += chunk.bytes;
  }
  return true;
}

void GrowingDump::read_records(int file) {
  constexpr std::size_t kMost = 4096;  // of either; a process has far fewer
  devices_.clear();
  failures_.clear();
  for (const Chunk& one : chunks_) {
    ChunkHeader chunk;
    if (!read_at(file, one.offset, &chunk, sizeof(chunk)) || chunk.used > chunk.bytes) continue;
    const std::uint64_t first = one.offset + sizeof(chunk);
    if (one.type == ChunkType::kDevices) {
      DeviceRecord device;
      for (std::uint64_t i = 0; i < chunk.used / sizeof(device) && devices_.size() < kMost; ++i) {
        if (read_record(file, first + i * sizeof(device), &device)) devices_.push_back(device);
      }
      continue;
    }
    BreakdownRecord breakdown;
    for (std::uint64_t i = 0; i < chunk.used / sizeof(breakdown) && failures_.size() < kMost; ++i) {
      const bool failed = read_record(file, first + i * sizeof(breakdown), &breakdown) &&
                          breakdown.reason == BreakdownReason::kOutOfMemory && breakdown.device != kNoDevice;
      if (failed) failures_.push_back({breakdown.device, breakdown.time_ns});
    }
  }
}

bool GrowingDump::look() {
  const InputFile input = open_input(path_);
  if (!input.file.is_open() || !read_header(input.file.get()) || !find_chunks(input.file.get())) return false;
  read_records(input.file.get());
  return true;
}

}  // namespace culprit::report
