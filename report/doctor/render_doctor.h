// Writes a diagnosis out. The JSON form is described in report/doctor/json.md.
#pragma once

#include <ostream>

#include "report/doctor/diagnosis.h"

namespace culprit::report {

void render_doctor_text(const Diagnosis& diagnosis, bool colours, std::ostream& out);

// One object of schema culprit.doctor/1. Invalid UTF-8 is replaced.
void render_doctor_json(const Diagnosis& diagnosis, std::ostream& out);

}  // namespace culprit::report
