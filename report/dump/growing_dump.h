// Follows a dump while its process writes it: the few records that `culprit run` looks at again and again. Each look
// reads only what may be new. The file is never mapped: a program that cuts its dump off would end this process by
// SIGBUS.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/format/dump_file.h"
#include "interpose/format/dump_records.h"

namespace culprit::report {

// The moment at which an allocation failed with out of memory.
struct FailedMoment {
  unsigned device = 0;
  std::uint64_t time_ns = 0;
};

class GrowingDump {
 public:
  explicit GrowingDump(std::string path) : path_(std::move(path)) {}

  // Reads what is new. False: the file cannot be read, or is no whole dump of a known version. Never throws for the
  // contents of the file.
  bool look();

  // As of the last look that returned true.
  const format::Header& header() const { return header_; }
  const std::vector<format::DeviceRecord>& devices() const { return devices_; }
  const std::vector<FailedMoment>& failures() const { return failures_; }

 private:
  struct Chunk {
    std::uint64_t offset = 0;
    format::ChunkType type = format::ChunkType::kDevices;
  };

  bool read_header(int file);
  bool find_chunks(int file);
  void read_records(int file);

  std::string path_;
  format::Header header_ = {};
  std::uint64_t end_ = format::kHeaderBytes;  // of the chunks that were seen
  std::vector<Chunk> chunks_;                 // those with devices or breakdowns
  std::vector<format::DeviceRecord> devices_;
  std::vector<FailedMoment> failures_;
};

}  // namespace culprit::report
