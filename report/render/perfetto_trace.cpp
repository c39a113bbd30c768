#include "report/render/perfetto_trace.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "report/base/printable.h"

namespace culprit::report {
namespace {

// trace_packet.proto
constexpr unsigned kTracePacket = 1;
constexpr unsigned kClockSnapshot = 6;
constexpr unsigned kTimestamp = 8;
constexpr unsigned kSequenceId = 10;
constexpr unsigned kTrackEvent = 11;
constexpr unsigned kSequenceFlags = 13;
constexpr unsigned kTrackDescriptor = 60;

constexpr std::uint64_t kOneSequence = 1;
constexpr std::uint64_t kIncrementalStateCleared = 1;
constexpr std::uint64_t kClockRealtime = 1;
constexpr std::uint64_t kClockBoottime = 6;  // the clock of packets that name none
constexpr std::uint64_t kUnitSizeBytes = 3;
constexpr std::uint64_t kLargestPid = 1 << 22;  // of Linux
constexpr std::uint64_t kMostSigned = std::numeric_limits<std::int64_t>::max();

void write_packet(const ProtobufMessage& packet, std::ostream& out) {
  ProtobufMessage trace;
  trace.message(kTracePacket, packet);
  out << trace.bytes();
}

// Both clocks show the same, so that the user interface can show times of day.
ProtobufMessage clock_snapshot(std::uint64_t time_ns) {
  ProtobufMessage snapshot;
  for (const std::uint64_t clock : {kClockBoottime, kClockRealtime}) {
    ProtobufMessage reading;
    reading.member(1, clock);
    reading.member(2, time_ns);
    snapshot.message(1, reading);
  }
  return snapshot;
}

}  // namespace

void PerfettoArgs::add(const std::string& name, std::uint64_t value) {
  ProtobufMessage arg;
  arg.text(10, name);
  arg.member(3, value);
  list_.push_back(std::move(arg));
}

void PerfettoArgs::add(const std::string& name, const std::string& text) {
  ProtobufMessage arg;
  arg.text(10, name);
  arg.text(6, printable(text));
  list_.push_back(std::move(arg));
}

void PerfettoArgs::add(const std::string& name, const std::vector<std::string>& texts) {
  ProtobufMessage arg;
  arg.text(10, name);
  for (const std::string& text : texts) {
    ProtobufMessage element;
    element.text(6, printable(text));
    arg.message(12, element);
  }
  list_.push_back(std::move(arg));
}

std::uint64_t PerfettoTrace::add_process(const std::string& name, std::uint64_t pid,
                                         const std::vector<std::string>& command) {
  const bool taken = std::find(pids_.begin(), pids_.end(), pid) != pids_.end();
  if (pid == 0 || pid > kLargestPid || taken) pid = kLargestPid + 1 + pids_.size();
  pids_.push_back(pid);
  ProtobufMessage process;
  process.number(1, pid);
  for (const std::string& word : command) process.text(2, printable(word));
  process.text(6, printable(name));
  ProtobufMessage descriptor;
  descriptor.message(3, process);
  return add_track(std::move(descriptor), name, 0);
}

std::uint64_t PerfettoTrace::add_track(const std::string& name, std::uint64_t parent) {
  return add_track(ProtobufMessage(), name, parent);
}

std::uint64_t PerfettoTrace::add_counter(const std::string& name, std::uint64_t parent) {
  ProtobufMessage counter;
  counter.number(3, kUnitSizeBytes);
  ProtobufMessage descriptor;
  descriptor.message(8, counter);
  return add_track(std::move(descriptor), name, parent);
}

std::uint64_t PerfettoTrace::add_track(ProtobufMessage descriptor, const std::string& name, std::uint64_t parent) {
  const std::uint64_t uuid = tracks_.size() + 1;
  descriptor.number(1, uuid);
  descriptor.number(5, parent);
  descriptor.text(2, printable(name));
  tracks_.push_back(std::move(descriptor));
  return uuid;
}

ProtobufMessage PerfettoTrace::track_event(Type type, std::uint64_t track) {
  ProtobufMessage event;
  event.number(9, static_cast<std::uint64_t>(type));
  event.number(11, track);
  return event;
}

void PerfettoTrace::add(Type type, std::uint64_t track, std::uint64_t time_ns, const std::string& name,
                        const PerfettoArgs& args) {
  ProtobufMessage event = track_event(type, track);
  event.text(23, printable(name));
  for (const ProtobufMessage& arg : args.list_) event.message(4, arg);
  events_.push_back({time_ns, std::move(event)});
}

void PerfettoTrace::count(std::uint64_t track, std::uint64_t time_ns, std::uint64_t value) {
  ProtobufMessage event = track_event(Type::kCounter, track);
  event.member(30, std::min(value, kMostSigned));
  events_.push_back({time_ns, std::move(event)});
}

void PerfettoTrace::instant(std::uint64_t track, std::uint64_t time_ns, const std::string& name,
                            const PerfettoArgs& args) {
  add(Type::kInstant, track, time_ns, name, args);
}

void PerfettoTrace::slice(std::uint64_t track, std::uint64_t begin_ns, std::uint64_t end_ns, const std::string& name,
                          const PerfettoArgs& args) {
  add(Type::kSliceBegin, track, begin_ns, name, args);
  events_.push_back({std::max(begin_ns, end_ns), track_event(Type::kSliceEnd, track)});
}

void PerfettoTrace::write(std::ostream& out) const {
  std::vector<std::size_t> order(events_.size());
  std::iota(order.begin(), order.end(), 0);
  // The end of a slice stays behind its begin at the same time.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t left, std::size_t right) { return events_[left].time_ns < events_[right].time_ns; });
  ProtobufMessage first;
  if (!order.empty()) first.message(kClockSnapshot, clock_snapshot(events_[order.front()].time_ns));
  first.number(kSequenceId, kOneSequence);
  first.number(kSequenceFlags, kIncrementalStateCleared);
  write_packet(first, out);
  for (const ProtobufMessage& track : tracks_) {
    ProtobufMessage packet;
    packet.message(kTrackDescriptor, track);
    packet.number(kSequenceId, kOneSequence);
    write_packet(packet, out);
  }
  for (const std::size_t i : order) {
    ProtobufMessage packet;
    packet.member(kTimestamp, events_[i].time_ns);
    packet.message(kTrackEvent, events_[i].track_event);
    packet.number(kSequenceId, kOneSequence);
    write_packet(packet, out);
  }
}

}  // namespace culprit::report
