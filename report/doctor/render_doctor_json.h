// Writes a diagnosis as JSON: report/doctor/json.md.
#pragma once

#include <ostream>

namespace culprit::report {

struct Diagnosis;

// One object of schema culprit.doctor/1. Invalid UTF-8 is replaced.
void render_doctor_json(const Diagnosis& diagnosis, std::ostream& out);

}  // namespace culprit::report
