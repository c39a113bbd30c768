// Changes a JSON text at one place, so that it stays JSON.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit::fuzz {

// For LLVMFuzzerCustomMutator. Text that is no JSON is changed by bytes.
std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most, unsigned int seed);

}  // namespace culprit::fuzz
