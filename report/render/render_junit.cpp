#include "report/render/render_junit.h"

#include <cstdio>
#include <map>

#include "report/base/entities.h"
#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/findings/finding.h"
#include "report/model/frame_text.h"
#include "report/model/group_names.h"
#include "report/model/marks.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : printable_lines(text)) {
    if (c == '"') {
      result += "&quot;";
    } else if (!append_entity(c, &result)) {
      result += c;
    }
  }
  return result;
}

std::string stack_text(const ResolvedStack& stack) {
  std::string text;
  for (const Frame* frame : stack.frames) text += "  " + frame_place(*frame) + "  " + frame_function(*frame) + "\n";
  return text.empty() ? "  (stack not recorded)\n" : text;
}

// Without a line or an offset, which would make another test case of it in the next build.
std::string name_of(const ResolvedStack& stack, const std::string& api) {
  const Frame* frame = naming_frame(stack);
  if (frame == nullptr) return api;
  if (frame->function.empty() || frame->approximate) return api + " in " + printable(library_name(*frame));
  const std::string file = frame->python ? " of " + std::string(base_name(frame->file)) : "";
  return printable(api + " in " + frame->function + file);
}

void print_case(const std::string& class_name, const std::string& name, const std::string& element,
                const std::string& message, const std::string& type, const std::string& text, std::ostream& out) {
  out << "    <testcase classname=\"" << escaped(class_name) << "\" name=\"" << escaped(name) << "\"";
  if (element.empty()) {
    out << "/>\n";
    return;
  }
  out << ">\n      <" << element << " message=\"" << escaped(message) << "\"";
  if (element != "skipped") {
    out << " type=\"" << escaped(type) << "\">" << escaped(text) << "</" << element << ">\n";
  } else {
    out << "/>\n";
  }
  out << "    </testcase>\n";
}

std::string message_of(const Report& report, const Group& group, std::uint64_t bytes, std::uint64_t count) {
  return format_bytes(bytes) + " in " + plural(count, "allocation", "allocations") + " " +
         words_of(report, group.cause).fate + ": " + cause_name(group.cause);
}

// The allocating stack and all evidence.
std::string story_of(const Group& group, const Report& report) {
  std::string text = stack_text(*group.stack);
  for (const Evidence& evidence : group.evidence) {
    const std::string title = printable(functions_of(evidence.type).title(evidence));
    const bool has_stack = evidence.stack != nullptr && !evidence.stack->frames.empty();
    if (title.empty() && !has_stack) continue;
    text += std::string(evidence_name(evidence.type)) + (title.empty() ? "" : ": " + title) + "\n";
    if (has_stack) text += stack_text(*evidence.stack);
  }
  const std::string hint = hint_for(group, words_of(report, group.cause).may_be_freed);
  if (!hint.empty()) text += "hint: " + hint + "\n";
  const std::string not_searched = not_searched_text(report, group);
  return not_searched.empty() ? text : text + "not searched: " + not_searched + "\n";
}

std::string text_of_finding(const Finding& finding) {
  std::string text = sentence_of(finding) + "\n";
  for (const std::string& line : lines_below(finding)) text += "  " + line + "\n";
  for (const FindingPlace& place : finding.places) text += "  " + place.label + "\n" + stack_text(*place.stack);
  return text;
}

// A test that a mark names, and its part of the leaks.
struct TestCase {
  std::string name;
  struct Leak {
    const Group* group;
    std::uint64_t bytes;
    std::uint64_t count;
  };
  std::vector<Leak> leaks;
};

// Assigns the leaks to the tests. `groups` keeps those that were allocated, at least in part, outside of tests.
std::vector<TestCase> take_tests(const Report& report, std::vector<const Group*>* groups) {
  std::vector<TestCase> tests;
  std::map<std::string, std::size_t> index;
  for (const MarkInfo& mark : report.marks) {
    const std::string name = test_name(mark.name);
    if (mark.kind == format::MarkKind::kMark && !name.empty() && index.emplace(mark.name, tests.size()).second)
      tests.push_back({name, {}});
  }
  if (tests.empty()) return tests;
  std::vector<const Group*> rest;
  for (const Group* group : *groups) {
    std::uint64_t in_tests = 0;
    if (group->comparison != Comparison::kKnown) {
      for (const MarkShare& share : group->marks) {
        const auto test = index.find(share.mark);
        if (test == index.end()) continue;
        tests[test->second].leaks.push_back({group, share.bytes, share.count});
        in_tests += share.count;
      }
    }
    if (in_tests < group->count) rest.push_back(group);
  }
  *groups = std::move(rest);
  return tests;
}

void print_test(const std::string& program, const TestCase& test, const Report& report, std::ostream& out) {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string text;
  for (const TestCase::Leak& leak : test.leaks) {
    bytes += leak.bytes;
    count += leak.count;
    text += message_of(report, *leak.group, leak.bytes, leak.count) + " [" + leak.group->id + "]\n" +
            story_of(*leak.group, report);
  }
  const std::string message =
      format_bytes(bytes) + " in " + plural(count, "allocation", "allocations") + " " + words_of(report).fate;
  print_case(program + ".tests", test.name, test.leaks.empty() ? "" : "failure", message, "leak", text, out);
}

void print_suite(const Report& report, const RenderOptions& options, std::ostream& out) {
  std::vector<const Group*> groups;
  for (const Group& group : report.leaks) {
    if (counts_as_leak(group, options.strict)) groups.push_back(&group);
  }
  const std::vector<TestCase> tests = take_tests(report, &groups);
  std::size_t skipped = 0;
  for (const Group* group : groups) skipped += group->comparison == Comparison::kKnown ? 1 : 0;
  std::size_t failures = groups.size() - skipped + report.errors.size();
  for (const TestCase& test : tests) failures += test.leaks.empty() ? 0 : 1;
  // An error, which is red everywhere: memory that was not recorded may have leaked.
  const std::string missing = reasons_text(report);
  const bool incomplete = !missing.empty();
  const std::size_t cases = groups.size() + report.errors.size() + tests.size() + (incomplete ? 1 : 0);
  const std::string program = std::string(base_name(report.process.executable));
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.3f", static_cast<double>(report.process.end_time_ns) / 1e9);
  out << "  <testsuite name=\"" << escaped("culprit: " + program + " [" + std::to_string(report.process.pid) + "]")
      << "\" tests=\"" << (cases == 0 ? 1 : cases) << "\" failures=\"" << failures << "\" errors=\""
      << (incomplete ? 1 : 0) << "\" skipped=\"" << skipped << "\" time=\"" << seconds << "\" hostname=\""
      << escaped(report.process.host) << "\">\n";
  const std::string leaks = program + ".leaks";
  const GroupNames names(report);
  if (incomplete)
    print_case(leaks, "everything was recorded", "error", "not known: " + missing, "not-known", missing, out);
  for (const TestCase& test : tests) print_test(program, test, report, out);
  for (const Group* group : groups) {
    const std::string message = message_of(report, *group, group->bytes, group->count);
    const std::string text = message + "\n" + story_of(*group, report);
    const bool known = group->comparison == Comparison::kKnown;
    print_case(leaks, name_of(*group->stack, group->api) + " [" + names.of(*group) + "]", known ? "skipped" : "failure",
               known ? "in the baseline: " + message : message, cause_name(group->cause), text, out);
  }
  std::size_t number = 0;
  for (const ErrorGroup& error : report.errors) {
    const std::string message = std::string(error_type_name(error.type)) + ": " + error.api + " returned " +
                                error.code_name + ", " + plural(error.count, "time", "times");
    print_case(program + ".errors", name_of(*error.stack, error.api) + " [E" + std::to_string(++number) + "]",
               "failure", message, error_type_name(error.type), message + "\n" + stack_text(*error.stack), out);
  }
  if (cases == 0) print_case(leaks, "nothing leaked", "", "", "", "", out);
  // No test case: what fails a job is decided by its --fail-on class.
  const std::vector<Finding> findings = shown_findings(report, kNowhere);
  if (!findings.empty()) {
    out << "    <system-out>";
    for (const Finding& finding : findings) out << escaped(text_of_finding(finding));
    out << "</system-out>\n";
  }
  out << "  </testsuite>\n";
}

}  // namespace

void render_junit(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const Report& report : reports) print_suite(report, options, out);
  out << "</testsuites>\n";
}

}  // namespace culprit::report
