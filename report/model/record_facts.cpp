#include "report/model/record_facts.h"

#include <cstring>

#include "report/base/words.h"
#include "report/cuda/cuda_names.h"
#include "report/model/frames.h"

namespace culprit::report {

using namespace format;

std::optional<unsigned> device_of(std::uint8_t device) {
  if (device == kNoDevice) return std::nullopt;
  return device;
}

std::string uuid_text(const DeviceRecord& device) {
  std::string text = hex_bytes(device.uuid, sizeof(device.uuid));
  for (const std::size_t dash : {20, 16, 12, 8}) text.insert(dash, 1, '-');
  return ((device.flags & kDeviceMig) != 0 ? "MIG-" : "GPU-") + text;
}

std::optional<ThreadInfo> thread_of(const Dump& dump, std::uint32_t index) {
  ThreadRecord record;
  if (!dump.thread(index, &record)) return std::nullopt;
  ThreadInfo info;
  info.tid = record.tid;
  Ref name = 0;
  std::memcpy(&name, record.name + kThreadNameRef, sizeof(name));
  if (record.name[0] == '\0' && name != 0) {
    info.name = dump.string(name);
  } else {
    info.name.assign(record.name, ::strnlen(record.name, sizeof(record.name)));
  }
  info.ended = record.state == ThreadState::kEnded;
  info.ended_ns = info.ended ? record.ended_ns : 0;
  return info;
}

std::string api_of(const Dump& dump, std::uint16_t api, const ResolvedStack& stack) {
  return stack.runtime_api.empty() ? source_api_name(dump.api_name(api)) : stack.runtime_api;
}

}  // namespace culprit::report
