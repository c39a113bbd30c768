#pragma once

#include <cstddef>
#include <string>

namespace culprit::report {

// Hexadecimal digits that cannot be guessed. Empty where the system gives no random bytes.
std::string random_text(std::size_t digits);

}  // namespace culprit::report
