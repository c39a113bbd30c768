// The words and colours of causes and evidence in HTML pages: the table of report/model/causes.def.
#pragma once

#include <string>

namespace culprit::report {

// JSON text: {"causes": {NAME: {"title", "running"}}, "evidence": {NAME: {"label", "event"}}}. The causes are in the
// order of the bar of causes: memory that an allocator keeps counts with --strict only, and comes last.
std::string page_causes();

// Style rules: the fill of `.cause-NAME`, and the background of the label in `.evidence-NAME`.
std::string page_cause_colours();

}  // namespace culprit::report
