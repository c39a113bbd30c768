#include "report/screen/snapshot_file.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <vector>

#include "interpose/format/dump_file.h"
#include "interpose/format/dump_records.h"
#include "report/base/clock.h"
#include "report/base/input_file.h"
#include "report/base/output_file.h"
#include "report/dump/dump_error.h"
#include "report/dump/dump_reader.h"
#include "report/model/report.h"
#include "report/screen/live_process.h"

namespace culprit::report {

using namespace format;

namespace {

constexpr std::size_t kPieceBytes = 256 << 10;
constexpr std::size_t kLongestName = 40;
static_assert(kPieceBytes % sizeof(AllocationRecord) == 0);

// Reads without a mapping: a program that cuts its dump off would end this process by SIGBUS.
void read_at(const InputFile& file, const std::string& name, void* data, std::size_t bytes, std::uint64_t at) {
  auto* to = static_cast<unsigned char*>(data);
  while (bytes != 0) {
    const ssize_t got = ::pread(file.file.get(), to, bytes, static_cast<off_t>(at));
    if (got <= 0) throw DumpError(DumpProblem::kTruncated, name + ": was cut off while it was copied");
    to += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

// A record whose generation has changed since it was read may be half old and half new.
void drop_changed(std::vector<unsigned char>* copy, const std::vector<unsigned char>& now) {
  for (std::size_t at = 0; at + sizeof(AllocationRecord) <= copy->size(); at += sizeof(AllocationRecord)) {
    std::uint32_t before = 0;
    std::uint32_t after = 0;
    std::memcpy(&before, copy->data() + at, sizeof(before));
    std::memcpy(&after, now.data() + at, sizeof(after));
    if (before >> kStateBits != after >> kStateBits) std::memset(copy->data() + at, 0, sizeof(before));
  }
}

void copy_chunk(const InputFile& file, const std::string& name, std::uint64_t offset, const ChunkHeader& chunk,
                std::ostream& out) {
  out.write(reinterpret_cast<const char*>(&chunk), sizeof(chunk));
  std::vector<unsigned char> piece;
  std::vector<unsigned char> again;
  for (std::uint64_t at = sizeof(chunk); at < chunk.bytes; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(chunk.bytes - at, kPieceBytes)));
    read_at(file, name, piece.data(), piece.size(), offset + at);
    if (chunk.type == ChunkType::kAllocations) {
      again.resize(piece.size());
      read_at(file, name, again.data(), again.size(), offset + at);
      drop_changed(&piece, again);
    }
    out.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
  }
}

}  // namespace

void copy_dump(const std::string& from, const std::string& to, std::uint64_t start_realtime_ns, std::uint64_t now_ns) {
  {
    const Dump dump = Dump::open(from);  // throws for a file that has another structure
    if (dump.header().start_realtime_ns != start_realtime_ns)
      throw DumpError(DumpProblem::kCannotOpen, "the process has ended, and its dump is gone");
  }
  const InputFile file = open_input(from);
  if (!file.file.is_open()) throw DumpError(DumpProblem::kCannotOpen, from + ": " + file.problem);
  alignas(Header) unsigned char header[kHeaderBytes] = {};
  static_assert(sizeof(Header) <= kHeaderBytes);
  read_at(file, from, header, sizeof(header), 0);
  std::uint64_t end = 0;
  std::memcpy(&end, header + offsetof(Header, file_bytes), sizeof(end));
  // A chunk that was reserved and is not there yet ends the copy, as it ends what a reader sees.
  std::vector<ChunkHeader> chunks;
  std::uint64_t offset = kHeaderBytes;
  while (offset < end) {
    ChunkHeader chunk = {};
    read_at(file, from, &chunk, sizeof(chunk), offset);
    if (chunk.magic != kChunkMagic || chunk.bytes < sizeof(chunk) || chunk.bytes > end - offset) break;
    chunks.push_back(chunk);
    offset += chunk.bytes;
  }
  std::memcpy(header + offsetof(Header, file_bytes), &offset, sizeof(offset));
  if (now_ns != 0) std::memcpy(header + offsetof(Header, snapshot_ns), &now_ns, sizeof(now_ns));
  OutputFile out(to, from);  // with the permissions of the dump
  out.stream().write(reinterpret_cast<const char*>(header), sizeof(header));
  offset = kHeaderBytes;
  for (const ChunkHeader& chunk : chunks) {
    copy_chunk(file, from, offset, chunk, out.stream());
    offset += chunk.bytes;
  }
  out.commit();
}

std::string save_snapshot(const LiveProcess& process) {
  std::string name;
  for (const char c : process.name.substr(0, kLongestName))
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ? c : '_';
  std::string path;
  for (unsigned number = 1; path.empty() || ::access(path.c_str(), F_OK) == 0; ++number)
    path = "culprit." + name + "." + std::to_string(process.pid) + ".snapshot-" + std::to_string(number) + ".dump";
  const bool runs = process.state == LiveState::kRecording || process.state == LiveState::kOff;
  const std::uint64_t start = process.report->process.start_realtime_ns;
  const std::uint64_t now = realtime_ns();
  copy_dump(process.dump, path, start, runs ? now - std::min(now - 1, start) : 0);
  return path;
}

}  // namespace culprit::report
