#include "report/render/formats.h"

#include <cctype>
#include <sstream>

#include "report/model/report.h"
#include "report/render/html/render_diff_html.h"
#include "report/render/html/render_html.h"
#include "report/render/json/render_diff_json.h"
#include "report/render/json/render_json.h"
#include "report/render/render_folded.h"
#include "report/render/render_gcc.h"
#include "report/render/render_github.h"
#include "report/render/render_junit.h"
#include "report/render/render_markdown.h"
#include "report/render/render_memory_viz.h"
#include "report/render/render_perfetto.h"
#include "report/render/render_pprof.h"
#include "report/render/render_sarif.h"
#include "report/render/text/render_diff.h"
#include "report/render/text/render_text.h"

namespace culprit::report {
namespace {

// JSON and the page of a diff have everything, whatever the options are.
void write_json(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  render_json(reports, out, options.nothing_known);
}
void write_diff_json(const Diff& diff, const RenderOptions&, std::ostream& out) { render_diff_json(diff, out); }
void write_diff_html(const Diff& diff, const RenderOptions&, std::ostream& out) { render_diff_html(diff, out); }

// clang-format off
constexpr Format kFormats[] = {
    // name,       endings of files,           of reports,        verdict, of a diff,       needs
    {"text",       ".txt",                     render_text,       true,  render_diff_text},
    {"json",       ".json",                    write_json,        true,  write_diff_json},
    {"html",       ".html .htm",               render_html,       true,  write_diff_html},
    {"markdown",   ".md .markdown",            render_markdown,   true,  render_diff_markdown},
    {"sarif",      ".sarif .sarif.json",       render_sarif,      true,  nullptr},
    {"junit",      ".xml",                     render_junit,      true,  nullptr},
    {"folded",     ".folded",                  render_folded,     false, nullptr},
    {"pprof",      ".pb.gz .pprof",            render_pprof,      false, nullptr},  // only in comments that no view shows
    {"perfetto",   ".perfetto-trace .pftrace", render_perfetto,   false, nullptr, kProcessesApart},  // at the right end
    {"memory-viz", ".pickle .pkl",             render_memory_viz, false, nullptr, kProcessesApart | kEachAllocation},
    {"github",     "",                         render_github,     true,  nullptr},
    {"gcc",        "",                         render_gcc,        true,  nullptr},
};
// clang-format on

}  // namespace

const Format* find_format(const std::string& name) {
  for (const Format& format : kFormats) {
    if (name == format.name) return &format;
  }
  return nullptr;
}

const Format& format_for_file(const std::string& path) {
  std::string name = path;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const Format* found = &kFormats[0];
  std::size_t longest = 0;
  for (const Format& format : kFormats) {
    std::istringstream endings(format.endings);
    for (std::string ending; endings >> ending;) {
      if (ending.size() <= longest || name.size() < ending.size()) continue;
      if (name.compare(name.size() - ending.size(), ending.size(), ending) != 0) continue;
      found = &format;
      longest = ending.size();
    }
  }
  return *found;
}

std::vector<std::string> report_formats() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) names.emplace_back(format.name);
  return names;
}

std::vector<std::string> diff_formats() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) {
    if (format.write_diff != nullptr) names.emplace_back(format.name);
  }
  return names;
}

}  // namespace culprit::report
