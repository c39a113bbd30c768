// A trace in Perfetto's format under construction: tracks, and events in any order.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "report/render/protobuf.h"

namespace culprit::report {

// Arguments of an event, each with a name of its own. Texts become printable.
class PerfettoArgs {
 public:
  void add(const std::string& name, std::uint64_t value);
  void add(const std::string& name, const std::string& text);
  void add(const std::string& name, const std::vector<std::string>& texts);

 private:
  friend class PerfettoTrace;
  std::vector<ProtobufMessage> list_;
};

// Times are nanoseconds since 1970, as Perfetto's own clock, so that the processes of several machines stand side by
// side. Names become printable. Track numbers are never 0.
class PerfettoTrace {
 public:
  // A track for a process. A pid that is 0 or that another track has, of another machine or container, is replaced by a
  // number that Linux gives to no process, because Perfetto would make one process of both.
  std::uint64_t add_process(const std::string& name, std::uint64_t pid, const std::vector<std::string>& command);
  // Tracks with one name below one parent are drawn as one, with as many rows as overlap.
  std::uint64_t add_track(const std::string& name, std::uint64_t parent);
  std::uint64_t add_counter(const std::string& name, std::uint64_t parent);  // of bytes

  void count(std::uint64_t track, std::uint64_t time_ns, std::uint64_t value);
  void instant(std::uint64_t track, std::uint64_t time_ns, const std::string& name, const PerfettoArgs& args);
  void slice(std::uint64_t track, std::uint64_t begin_ns, std::uint64_t end_ns, const std::string& name,
             const PerfettoArgs& args);

  // The tracks, then the events by time.
  void write(std::ostream& out) const;

 private:
  enum class Type : std::uint64_t { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4 };
  struct Event {
    std::uint64_t time_ns;
    ProtobufMessage track_event;
  };

  static ProtobufMessage track_event(Type type, std::uint64_t track);
  void add(Type type, std::uint64_t track, std::uint64_t time_ns, const std::string& name, const PerfettoArgs& args);
  std::uint64_t add_track(ProtobufMessage descriptor, const std::string& name, std::uint64_t parent);

  std::vector<ProtobufMessage> tracks_;
  std::vector<std::uint64_t> pids_;
  std::vector<Event> events_;
};

}  // namespace culprit::report
