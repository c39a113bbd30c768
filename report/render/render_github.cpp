#include "report/render/render_github.h"

#include <string>

#include "report/base/words.h"
#include "report/findings/headline.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/render/annotations.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostAnnotations = 50;

// The runner ends a message at a line break, and decodes these escapes (actions/toolkit, packages/core/src/command.ts).
std::string data(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '%') {
      result += "%25";
    } else if (c == '\r') {
      result += "%0D";
    } else if (c == '\n') {
      result += "%0A";
    } else {
      result += c;
    }
  }
  return result;
}

// In a property a colon and a comma would end it.
std::string property(const std::string& text) {
  std::string result;
  for (const char c : data(text)) {
    if (c == ':') {
      result += "%3A";
    } else if (c == ',') {
      result += "%2C";
    } else {
      result += c;
    }
  }
  return result;
}

const char* command_of(Message::Level level) {
  switch (level) {
    case Message::Level::kKnownLeak:
    case Message::Level::kNote:
      return "notice";
    case Message::Level::kWarning:
      return "warning";
    case Message::Level::kNotKnown:
    case Message::Level::kLeak:
    case Message::Level::kError:
      break;
  }
  return "error";
}

std::string message_of(const Message& message) {
  std::string text = message.place.text;
  for (const Annotation& one : message.more) {
    text += "\n" + one.text;
    if (!one.file.empty()) text += " (" + one.file + (one.line != 0 ? ":" + std::to_string(one.line) : "") + ")";
  }
  if (!message.hint.empty()) text += "\nhint: " + message.hint;
  return text;
}

void print_command(const Message& message, const std::string& program, std::ostream& out) {
  out << "::" << command_of(message.level) << " ";
  if (!message.place.file.empty()) {
    out << "file=" << property(message.place.file) << ",";
    if (message.place.line != 0) out << "line=" << message.place.line << ",";
  }
  out << "title=" << property("culprit: " + message.title + " (" + program + ")") << "::" << data(message_of(message))
      << "\n";
}

}  // namespace

void render_github(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  std::size_t printed = 0;
  std::size_t left_out = 0;
  for (const Report* shown : bad_first(reports)) {
    const Report& report = *shown;
    const std::string program = printable(base_name(report.process.executable));
    const std::vector<Message> messages = messages_of(report, options.repository_folders, options);
    // Without names: in a line that is no command the runner would look for commands of its older syntax.
    if (need_verdict(messages))
      out << "culprit: process " << report.process.pid << ": " << verdict_without_leaks(report) << "\n";
    for (const Message& message : messages) {
      if (printed == kMostAnnotations) {
        ++left_out;
        continue;
      }
      print_command(message, program, out);
      ++printed;
    }
  }
  if (left_out != 0)
    out << "::notice title=culprit::" << left_out << " more are left out here; other formats have them\n";
}

}  // namespace culprit::report
