// A report as messages about lines of the source, for formats that other programs show beside these lines.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Report;
struct RenderOptions;

// A place in the source, and a sentence about it. Every text is printable and without line breaks.
struct Annotation {
  std::string file;   // empty: unknown
  unsigned line = 0;  // 0: unknown
  std::string text;
};

// A leak, a bad free, or a finding.
struct Message {
  enum class Level { kLeak, kKnownLeak, kError, kNotKnown, kWarning, kNote };
  Level level = Level::kLeak;
  std::string title;             // "1.00 GiB never given back"
  Annotation place;              // its text: the whole message
  std::vector<Annotation> more;  // the other frames of the stack, and the evidence
  std::string hint;              // empty: none
};

// Whether the messages are of findings alone that leave the verdict as it is: a format then prints the verdict, too.
bool need_verdict(const std::vector<Message>& messages);

// The reasons why the verdict is not known first, then the leaks of the report in its order, then its errors, then its
// findings. Files
// below one of `folders` are relative to it, and a stack is placed at its innermost frame below them.
std::vector<Message> messages_of(const Report& report, const std::vector<std::string>& folders,
                                 const RenderOptions& options);

}  // namespace culprit::report
