#include "report/commands/option_list.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include "report/base/printable.h"

namespace culprit::report {
namespace {

// Converts a time with a unit (seconds, minutes, ...) into seconds.
CLI::AsNumberWithUnit duration() {
  return CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}},
                               CLI::AsNumberWithUnit::CASE_INSENSITIVE, "TIME");
}

// The number that the whole text is; empty: it is none, or no `whole` one.
std::optional<double> number_of(const std::string& text, bool whole) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(number) || (whole && number != std::floor(number))) return {};
  return number;
}

CLI::Option* declare_value(const Option& option, CLI::App* app) {
  return std::visit(
      [&](const auto& value) -> CLI::Option* {
        using Type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, bool*>) {
          return app->add_flag((option.negated ? "!" : "") + option.names, *value, option.help);
        } else if constexpr (std::is_same_v<Type, std::function<void()>>) {
          return app->add_flag_callback(option.names, value, option.help);
        } else if constexpr (std::is_same_v<Type, Option::Count>) {
          const auto add = [times = value.times](std::int64_t given) { *times += static_cast<unsigned>(given); };
          return app->add_flag_function(option.names, add, option.help);
        } else {
          CLI::Option* const declared = app->add_option(option.names, *value, option.help);
          if (std::is_same_v<Type, std::vector<std::string>*> && option.names[0] == '-')
            declared->allow_extra_args(false);
          return declared;
        }
      },
      option.value);
}

struct AddCheck {
  CLI::Option* option;
  void operator()(std::monostate) const {}
  void operator()(const Option::Test& test) const { option->check(test); }
  void operator()(const Option::OneOf& list) const { option->check(CLI::IsMember(list.values)); }
  template <typename Number>
  void operator()(const Option::Range<Number>& range) const {
    option->check(CLI::Validator(
        [range](std::string& text) {
          const std::optional<double> number = number_of(text, std::is_integral_v<Number>);
          if (number && *number >= static_cast<double>(range.least) && *number <= static_cast<double>(range.most))
            return std::string();
          std::ostringstream problem;
          problem.precision(10);
          problem << printable(text) << " is no " << (std::is_integral_v<Number> ? "whole number" : "number")
                  << " from " << range.least << " to " << range.most;
          return problem.str();
        },
        CLI::Range(range.least, range.most).get_description()));
  }
  void operator()(Option::Positive) const {
    option->check(CLI::Validator(
        [](std::string& text) {
          const std::optional<double> number = number_of(text, true);
          return number && *number > 0 ? std::string() : printable(text) + " is no whole number above 0";
        },
        "POSITIVE"));
  }
  void operator()(Option::Seconds) const { option->transform(duration()); }
};

void declare(const Option& option, CLI::App* app) {
  CLI::Option* const declared = declare_value(option, app);
  std::visit(AddCheck{declared}, option.check);
  if (option.type_name) declared->type_name(*option.type_name);
  if (option.required) declared->required();
  if (option.default_shown) declared->capture_default_str();
  if (option.commas) declared->delimiter(',');
  if (!option.needed.empty()) declared->needs(app->get_option(option.needed));
  if (!option.excluded.empty()) declared->excludes(app->get_option(option.excluded));
}

CLI::App* declare(const OptionList& list, const Usage& usage, CLI::App* app) {
  CLI::App* const command = app->add_subcommand(list.command(), list.help());
  if (list.program()) {
    command->footer("Give the command after --:  " + list.program()->example + "\n\n" + usage.footer);
    command->prefix_command();
  }
  for (const Option& option : list.options()) declare(option, command);
  for (const Option& option : usage.everywhere) declare(option, command);
  if (!list.checks().empty()) {
    command->callback([&list] {
      for (const auto& check : list.checks()) {
        const std::string problem = check();
        if (!problem.empty()) throw CLI::ValidationError(problem);
      }
    });
  }
  return command;
}

}  // namespace

Option& Option::type(std::string name) {
  type_name = std::move(name);
  return *this;
}

Option& Option::checked_by(Test test) {
  check = std::move(test);
  return *this;
}

Option& Option::one_of(std::vector<std::string> values) {
  check = OneOf{std::move(values)};
  return *this;
}

Option& Option::positive() {
  check = Positive();
  return *this;
}

Option& Option::time() {
  check = Seconds();
  return *this;
}

Option& Option::is_required() {
  required = true;
  return *this;
}

Option& Option::shows_default() {
  default_shown = true;
  return *this;
}

Option& Option::comma_separated() {
  commas = true;
  return *this;
}

Option& Option::needs(std::string other) {
  needed = std::move(other);
  return *this;
}

Option& Option::excludes(std::string other) {
  excluded = std::move(other);
  return *this;
}

Option& OptionList::add(std::string names, Option::Value value, std::string help) {
  options_.emplace_back();
  Option& option = options_.back();
  option.names = std::move(names);
  option.value = std::move(value);
  option.help = std::move(help);
  return option;
}

Option& OptionList::add_off_flag(std::string names, bool* value, std::string help) {
  Option& option = add(std::move(names), value, std::move(help));
  option.negated = true;
  return option;
}

std::list<Option>::iterator OptionList::at(const std::string& name) {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& option) {
    return ("," + option.names + ",").find("," + name + ",") != std::string::npos;
  });
  if (found == options_.end()) throw std::out_of_range(command_ + " has no option " + name);
  return found;
}

Option& OptionList::find(const std::string& name) { return *at(name); }

void OptionList::remove(const std::string& name) { options_.erase(at(name)); }

void OptionList::add_check(std::function<std::string()> problem) { checks_.push_back(std::move(problem)); }

void OptionList::takes_program(std::vector<std::string>* words, std::string example) {
  program_ = Program{words, std::move(example)};
}

Parsed parse_arguments(const Usage& usage, const std::vector<const OptionList*>& commands,
                       std::vector<std::string> arguments) {
  CLI::App app(usage.about, usage.program);
  app.set_version_flag("--version", usage.version);
  app.require_subcommand(1);
  app.footer(usage.footer);
  for (const Option& option : usage.everywhere) declare(option, &app);
  std::map<const CLI::App*, const OptionList*> lists;
  for (const OptionList* list : commands) lists[declare(*list, usage, &app)] = list;

  Parsed parsed;
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    parsed.outcome = error.get_exit_code() == 0 ? Parsed::Outcome::kShown : Parsed::Outcome::kWrong;
    if (parsed.outcome == Parsed::Outcome::kShown) app.exit(error);
    parsed.problem = error.what();
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) return parsed;
  parsed.command = lists[chosen.front()];
  parsed.program_words = chosen.front()->remaining();
  return parsed;
}

}  // namespace culprit::report
