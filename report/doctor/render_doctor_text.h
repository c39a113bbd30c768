// Writes a diagnosis for a terminal.
#pragma once

#include <ostream>

namespace culprit::report {

struct Diagnosis;

void render_doctor_text(const Diagnosis& diagnosis, bool colours, std::ostream& out);

}  // namespace culprit::report
