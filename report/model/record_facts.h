// Converts small facts from a dump's records into the report's form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/dump/dump_reader.h"
#include "report/model/thread_info.h"

namespace culprit::report {

struct ResolvedStack;

// The device's ordinal; empty when the record belongs to no device.
std::optional<unsigned> device_of(std::uint8_t device);

// "GPU-5f3a...", "MIG-...": as NVML and nvidia-smi have it.
std::string uuid_text(const format::DeviceRecord& device);

// The thread with that index; empty when the dump has none.
std::optional<ThreadInfo> thread_of(const Dump& dump, std::uint32_t index);

// The call in the user's code: the runtime call in the stack, else the driver's without the suffixes of its symbol.
std::string api_of(const Dump& dump, std::uint16_t api, const ResolvedStack& stack);

}  // namespace culprit::report
