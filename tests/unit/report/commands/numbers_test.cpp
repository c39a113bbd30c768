// The numbers that options take: each option of each command refuses a wrong one with a short message, which names the
// range, and takes the ends of the range.
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "report/commands/commands.h"
#include "report/commands/option_list.h"
#include "tests/catch.h"
#include "tests/support/text.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

constexpr std::size_t kLongestMessage = 150;

// The words of an option's range, and values of it.
struct Accepted {
  std::string words;  // "from 1 to 256"
  std::vector<std::string> values;
};

std::string text_of(double number) {
  std::ostringstream out;
  out.precision(10);
  out << number;
  return out.str();
}

template <typename Number>
Accepted range(Number least, Number most) {
  const std::string ends[] = {text_of(static_cast<double>(least)), text_of(static_cast<double>(most))};
  return {"from " + ends[0] + " to " + ends[1], {ends[0], ends[1]}};
}

struct Find {
  const Option& option;
  Accepted operator()(std::monostate) const {
    if (std::holds_alternative<int*>(option.value))
      return range(std::numeric_limits<int>::lowest(), std::numeric_limits<int>::max());
    return range(0U, std::numeric_limits<unsigned>::max());
  }
  template <typename Number>
  Accepted operator()(const Option::Range<Number>& of) const {
    return range(of.least, of.most);
  }
  Accepted operator()(Option::Positive) const { return range(1, std::numeric_limits<int>::max()); }
  Accepted operator()(Option::Seconds) const { return {"from 1ms to 10000h", {"1ms", "10000h", "0.5 s", "2m", "7"}}; }
  Accepted operator()(const Option::Test&) const { return {}; }
  Accepted operator()(const Option::OneOf&) const { return {}; }
};

bool is_number(const Option& option) {
  return std::visit(
      [](const auto& value) {
        using Type = std::decay_t<decltype(value)>;
        return std::is_same_v<Type, int*> || std::is_same_v<Type, unsigned*> || std::is_same_v<Type, double*> ||
               std::is_same_v<Type, std::optional<unsigned>*>;
      },
      option.value);
}

// "--jobs" of "-j,--jobs"; "" of a positional argument.
std::string name_of(const Option& option) {
  return option.names[0] == '-' ? option.names.substr(option.names.rfind(',') + 1) : "";
}

// The command's message about this value; "" when it is taken.
std::string answer(const OptionList& list, const Option& option, const std::string& value) {
  std::vector<std::string> words = {list.command()};
  if (name_of(option).empty()) {
    words.insert(words.end(), {"--", value});
  } else {
    words.push_back(name_of(option) + "=" + value);
    for (const Option& other : list.options()) {  // what the command needs besides
      const bool positional = name_of(other).empty();
      if (other.required || positional) words.insert(words.end(), {positional ? "1" : name_of(other) + "=1"});
    }
  }
  return parse_arguments({"culprit", "", "", "", {}}, {&list}, words).problem;
}

}  // namespace

TEST_CASE("each numeric option of each command answers a wrong value with its range, in a short message",
          "[report][numbers][one-thread]") {
  const std::string wrong[] = {"x",    "1.5x", "nan",        "inf",          "-inf", "1e400",    std::string(400, '9'),
                               "0x1",  "- 5",  "--",         "99999999999h", "1y",   "\x1b[31m", "18446744073709551617",
                               "-7.5", "1e99", "4294967297x"};
  std::size_t options = 0;
  for (const Command& command : make_commands()) {
    for (const Option& option : command.options.options()) {
      if (!is_number(option)) continue;
      ++options;
      INFO(command.options.command() << " " << option.names);
      const Accepted accepted = std::visit(Find{option}, option.check);
      REQUIRE_FALSE(accepted.words.empty());
      for (const std::string& value : accepted.values) {
        INFO(value);
        CHECK_FALSE(has(answer(command.options, option, value) + "-", "is no "));
      }
      for (const std::string& value : wrong) {
        INFO(value);
        const std::string problem = answer(command.options, option, value);
        INFO(problem);
        CHECK(has(problem, accepted.words));
        CHECK(problem.size() < kLongestMessage);
        CHECK(problem.find('\x1b') == std::string::npos);
      }
    }
  }
  // attach: 4, detach: 2, start, stop, top: 3, doctor, sweep: 4, run: 3, report: 2, diff, merge
  CHECK(options >= 23);
}

TEST_CASE("texts that are numbers are read in decimal, and refused in a short message", "[report][numbers]") {
  struct Row {
    const char* command;
    const char* option;
    const char* words;
  };
  const Row rows[] = {{"report", "--min-bytes", "a size is needed, like 4096, 64K or 1.5GiB"},
                      {"report", "--allow-growth", "a percentage or a size is needed, like 10% or 64MiB"},
                      {"report", "--devices", "a GPU's number or \"host\" is needed"},
                      {"run", "--fail-alloc", "the number of the call is needed, from 1 to 4294967295"},
                      {"run", "--fail-call", "NAME:N:CODE is needed, for example"},
                      {"sweep", "--site", "16 hex digits are needed"}};
  for (const Command& command : make_commands()) {
    for (const Row& row : rows) {
      if (command.options.command() != row.command) continue;
      for (const Option& option : command.options.options()) {
        if (name_of(option) != row.option) continue;
        for (const std::string& value : {std::string("x"), std::string(400, '9') + "x", std::string(400, '-')}) {
          INFO(row.option << "=" << value);
          const std::string problem = answer(command.options, option, value);
          INFO(problem);
          CHECK(has(problem, row.words));
          CHECK(problem.size() < kLongestMessage);
        }
      }
    }
  }
}

TEST_CASE("a number with a leading zero is decimal", "[report][numbers]") {
  unsigned jobs = 0;
  OptionList list("command", "");
  list.add("--jobs", &jobs, "").in_range(1, 256);
  CHECK(parse_arguments({"culprit", "", "", "", {}}, {&list}, {"command", "--jobs", "010"}).problem.empty());
  CHECK(jobs == 10);
  double seconds = 0;
  OptionList times("command", "");
  times.add("--for", &seconds, "").time();
  for (const auto& [text, value] : {std::pair("1.5m", 90.0), {"250ms", 0.25}, {"2 H", 7200}, {"3", 3}}) {
    CHECK(parse_arguments({"culprit", "", "", "", {}}, {&times}, {"command", "--for", text}).problem.empty());
    CHECK(seconds == Approx(value));
  }
}
