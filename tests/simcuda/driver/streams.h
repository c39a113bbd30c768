#pragma once

#include <memory>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

struct Capture;
struct GraphNode;

struct Stream : Object {
  static constexpr ObjectType kType = ObjectType::kStream;
  explicit Stream(Context* stream_context) : Object(kType, stream_context) {}
  void release(DriverState& state) override;

  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  bool legacy = false;  // stream 0, which cannot be captured
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> capture_tail;  // dependencies of the next captured node
  bool takes_memory = false;             // own_memory.h
};

struct Event : Object {
  static constexpr ObjectType kType = ObjectType::kEvent;
  explicit Event(Context* event_context) : Object(kType, event_context) {}

  unsigned flags = 0;
  bool recorded = false;
  std::uint64_t time_ns = 0;
  std::shared_ptr<Capture> capture;  // recorded in a stream that was being captured
  std::vector<GraphNode*> capture_nodes;
};

// The stream of a handle; 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are the default streams of `context`. nullptr
// for an invalid handle.
Stream* find_stream(DriverState& state, Context& context, CUstream handle);
std::uint64_t now_ns();

}  // namespace simcuda
