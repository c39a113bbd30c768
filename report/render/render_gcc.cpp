#include "report/render/render_gcc.h"

#include <string>

#include "report/base/words.h"
#include "report/findings/headline.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/render/annotations.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

const char* word_of(Message::Level level) {
  switch (level) {
    case Message::Level::kKnownLeak:
    case Message::Level::kWarning:
      return "warning";
    case Message::Level::kNote:
      return "note";
    case Message::Level::kNotKnown:
    case Message::Level::kLeak:
    case Message::Level::kError:
      break;
  }
  return "error";
}

// gcc names itself where it knows no file.
void print_line(const Annotation& annotation, const std::string& word, std::ostream& out) {
  out << (annotation.file.empty() ? "culprit" : annotation.file);
  if (!annotation.file.empty() && annotation.line != 0) out << ":" << annotation.line;
  out << ": " << word << ": " << annotation.text << "\n";
}

}  // namespace

void render_gcc(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  for (const Report* shown : bad_first(reports)) {
    const Report& report = *shown;
    const std::string program = printable(base_name(report.process.executable));
    const std::vector<Message> messages = messages_of(report, options.working_folders, options);
    if (need_verdict(messages)) {
      out << "culprit: note: " << program << " [" << report.process.pid << "]: " << verdict_without_leaks(report)
          << "\n";
    }
    for (const Message& message : messages) {
      print_line(message.place, word_of(message.level), out);
      for (const Annotation& one : message.more) print_line(one, "note", out);
      if (!message.hint.empty()) print_line({message.place.file, message.place.line, message.hint}, "note", out);
    }
  }
}

}  // namespace culprit::report
