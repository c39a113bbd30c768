// The process that a finding is about.
#pragma once

#include <cstdint>
#include <string>

namespace culprit::report {

struct Report;

// The subject of a sentence: "rank 3", "process 4242 on node7" of a job; "the process" of a report of one without rank.
std::string whose(const Report& report, std::uint32_t process);

// "rank 3: " before a sentence in a report of a job; "" in that of one process, which says it above.
std::string whose_prefix(const Report& report, std::uint32_t process);

}  // namespace culprit::report
