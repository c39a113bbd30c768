// A process at one look, as `culprit top` shows it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/doctor/dump_places.h"
#include "report/model/balance.h"
#include "report/select/grouped_rows.h"

namespace culprit::report {

struct Report;

// By what rows can be grouped, in the order of the key `g`.
const std::vector<std::string>& live_groupings();

enum class LiveState {
  kRecording,
  kOff,          // recording is switched off
  kEnded,        // also a process that was detached: no more will come
  kSnapshot,     // a copy of a dump: no more will come
  kNothingYet,   // no CUDA call yet
  kNotRecorded,  // without libculprit.so
  kUnreadable,   // of nothing below anything is known
};
// "recording", "off", "ended", ...: also in JSON.
const char* live_state_name(LiveState state);

// A device as one process sees it.
struct LiveDevice {
  std::string uuid;
  std::string title;        // "GPU 0"
  std::string name;         // "NVIDIA H200"
  std::uint64_t total = 0;  // 0: not known
  std::uint64_t live = 0;   // recorded and not freed, with the segments of caches
  std::map<BalancePart, std::int64_t> parts;
  std::optional<std::uint64_t> charged;  // NVML's figure for the process
};

struct LiveProcess {
  std::string key;  // tells processes apart, also those that have the same pid one after another
  std::uint32_t pid = 0;
  std::string name;  // texts are printable
  std::string command;
  LiveState state = LiveState::kUnreadable;
  std::string note;               // a sentence about the state; may be empty
  std::uint64_t now_ns = 0;       // on the clock of Group::first_ns
  std::uint64_t allocations = 0;  // calls since the recording began
  std::uint64_t frees = 0;
  std::uint64_t live = 0;  // bytes, of all devices and of the host
  std::optional<std::uint64_t> charged;
  std::vector<std::string> not_known;  // why rows may be missing
  std::vector<LiveDevice> devices;
  std::map<std::string, std::vector<GroupedRow>> rows;  // by grouping, largest first
  std::uint64_t left_out = 0;                           // rows beyond kMostLiveRows
  std::shared_ptr<const Report> report;                 // owns what rows refer to
  std::string dump;                                     // by which path the dump can be read here
};

inline constexpr std::size_t kMostLiveRows = 4096;

// A process whose dump was read. `users`: NVML's figures.
LiveProcess live_process_of(std::shared_ptr<const Report> report, const GpuUsers& users);

// All processes at one look.
struct LiveLook {
  double seconds = 0;  // when, on a clock that never goes back
  std::vector<LiveProcess> processes;
  GpuUsers users;
  std::uint64_t left_out = 0;  // processes beyond the limit
};

}  // namespace culprit::report
