// Small facts of a dump's records, as the report has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/dump/dump_reader.h"
#include "report/model/report_model.h"

namespace culprit {

// The device's ordinal; nothing for what belongs to none.
std::optional<unsigned> device_of(std::uint8_t device);

// The thread of that index; nothing when the dump has none.
std::optional<ThreadInfo> thread_of(const Dump& dump, std::uint32_t index);

// The call as the user wrote it: the runtime's that the stack passes through, else the driver's without the suffixes of
// its symbol.
std::string api_of(const Dump& dump, std::uint16_t api, const ResolvedStack& stack);

}  // namespace culprit
