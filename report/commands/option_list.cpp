#include "report/commands/option_list.h"

#include <strings.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include "report/base/words.h"

namespace culprit::report {
namespace {

// The number that the text from `begin` on starts with; `rest` becomes the place after it. Empty: it starts with none.
template <typename Number>
std::optional<Number> leading_number(const std::string& text, const char** rest) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  *rest = end;
  if (error != std::errc() || !std::isfinite(static_cast<double>(number))) return {};
  return number;
}

// The number that the whole text is, in decimal digits; empty: it is none, or no `whole` one.
std::optional<double> number_of(const std::string& text, bool whole) {
  const char* rest = nullptr;
  std::optional<double> number;
  if (whole) {
    if (const auto digits = leading_number<std::int64_t>(text, &rest)) number = static_cast<double>(*digits);
  } else {
    number = leading_number<double>(text, &rest);
  }
  return rest == text.data() + text.size() ? number : std::nullopt;
}

// The seconds of a text such as "10s", "1.5 m" or "300ms"; without a unit it is seconds. Empty: it is no time.
std::optional<double> seconds_of(const std::string& text) {
  const char* rest = nullptr;
  const std::optional<double> number = leading_number<double>(text, &rest);
  if (!number) return {};
  while (*rest == ' ') ++rest;
  for (const auto& [unit, seconds] : {std::pair("", 1.0), {"s", 1.0}, {"ms", 0.001}, {"m", 60.0}, {"h", 3600.0}}) {
    if (::strcasecmp(rest, unit) == 0) return *number * seconds;
  }
  return {};
}

// A number in decimal digits, without an exponent and without needless digits.
std::string number_text(double number) {
  std::ostringstream text;
  text.precision(10);
  text << number;
  return text.str();
}

// Replaces the text by the number in the form that CLI11 reads: it takes "010" for 8. Returns the problem.
std::string check_number(std::string* text, double least, double most, bool whole) {
  const std::optional<double> number = number_of(*text, whole);
  if (!number || *number < least || *number > most) {
    return short_word(*text) + " is no " + (whole ? "whole number" : "number") + " from " + number_text(least) +
           " to " + number_text(most);
  }
  if (whole) *text = std::to_string(static_cast<std::int64_t>(*number));
  return {};
}

template <typename Number>
CLI::Validator number_check(Number least, Number most, const std::string& in_help) {
  return CLI::Validator(
      [least, most](std::string& text) {
        return check_number(&text, static_cast<double>(least), static_cast<double>(most), std::is_integral_v<Number>);
      },
      in_help);
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

// CLI11 converts numbers, too, but says of a wrong one neither the range nor the value.
struct AddCheck {
  CLI::Option* option;
  const Option::Value& value;
  void operator()(std::monostate) const {
    const auto all_of = [&](auto zero) {
      using Limits = std::numeric_limits<decltype(zero)>;
      option->transform(number_check(Limits::lowest(), Limits::max(), ""));
    };
    if (std::holds_alternative<unsigned*>(value) || std::holds_alternative<std::optional<unsigned>*>(value)) all_of(0U);
    if (std::holds_alternative<int*>(value)) all_of(0);
  }
  void operator()(const Option::Test& test) const { option->check(test); }
  void operator()(const Option::OneOf& list) const { option->check(CLI::IsMember(list.values)); }
  template <typename Number>
  void operator()(const Option::Range<Number>& range) const {
    option->transform(number_check(range.least, range.most, CLI::Range(range.least, range.most).get_description()));
  }
  void operator()(Option::Positive) const {
    option->transform(number_check(1, std::numeric_limits<int>::max(), "POSITIVE"));
  }
  void operator()(Option::Seconds range) const {
    option->transform(CLI::Validator(
        [range](std::string& text) {
          const std::optional<double> seconds = seconds_of(text);
          if (!seconds || *seconds < range.least || *seconds > range.most) {
            return short_word(text) + " is no time from " + number_text(range.least * 1000) + "ms to " +
                   number_text(range.most / 3600) + "h, such as 10s or 5m";
          }
          text = std::to_string(*seconds);
          return std::string();
        },
        "TIME"));
  }
};

void declare(const Option& option, CLI::App* app) {
  CLI::Option* const declared = declare_value(option, app);
  std::visit(AddCheck{declared, option.value}, option.check);
  if (option.type_name) declared->type_name(*option.type_name);
  if (option.required) declared->required();
  if (option.default_shown) declared->capture_default_str();
  if (option.commas) declared->delimiter(',');
  if (!option.needed.empty()) declared->needs(app->get_option(option.needed));
  if (!option.excluded.empty()) declared->excludes(app->get_option(option.excluded));
  if (!option.group.empty()) declared->group(option.group);
}

// The help of CLI11 with lines that fit a screen, and with the program that a sub-command starts.
class Help : public CLI::Formatter {
 public:
  explicit Help(std::map<const CLI::App*, const OptionList*>* lists) : lists_(lists) { column_width(kColumn); }

  std::string make_option_desc(const CLI::Option* option) const override { return wrapped(option->get_description()); }

  // One empty line between groups: the base writes one before and one after.
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override {
    const bool first = positional || group == "Options";
    const std::string text = CLI::Formatter::make_group(std::move(group), positional, std::move(options));
    return first ? text : text.substr(1);
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    const auto found = lists_->find(app);
    if (found == lists_->end() || !found->second->program()) return usage;
    const bool optional = found->second->program()->instead != nullptr;
    return usage.substr(0, usage.size() - 1) +
           (optional ? " | -- COMMAND [ARGUMENT...]\n" : " -- COMMAND [ARGUMENT...]\n");
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), wrapped(command->get_description()), kColumn);
    return out.str();
  }

 private:
  static constexpr std::size_t kColumn = 30;  // descriptions begin here
  static constexpr std::size_t kWidth = 100;

  static std::string wrapped(const std::string& text) {
    std::string result;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!result.empty()) result += '\n';
      std::size_t used = 0;
      std::istringstream words(line);
      for (std::string word; words >> word; used += word.size()) {
        if (used != 0 && used + 1 + word.size() > kWidth - kColumn) {
          result += '\n';
          used = 0;
        } else if (used != 0) {
          result += ' ';
          ++used;
        }
        result += word;
      }
    }
    return result;
  }

  std::map<const CLI::App*, const OptionList*>* lists_;
};

// The number of letters that were left out, added, exchanged or swapped with the next one.
std::size_t mistakes(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      table[i][j] =
          std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

// `used`: without it, only the command's name and help. To declare the options of all commands takes 2 ms.
CLI::App* declare(const OptionList& list, const Usage& usage, bool used, CLI::App* app) {
  CLI::App* const command = app->add_subcommand(list.command(), list.help());
  if (!used) return command;
  if (list.program()) {
    command->footer("Give the command after --:  " + list.program()->example + "\n\n" + usage.footer);
    if (list.program()->instead == nullptr) command->prefix_command();
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
  check = Seconds{0.001, 3.6e7};
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

std::vector<std::string> names_of(const Option& option) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < option.names.size();) {
    const std::size_t end = std::min(option.names.find(',', begin), option.names.size());
    names.push_back(option.names.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool takes_value(const Option& option) {
  return !std::holds_alternative<bool*>(option.value) && !std::holds_alternative<std::function<void()>>(option.value) &&
         !std::holds_alternative<Option::Count>(option.value);
}

std::string similar_word(const std::string& word, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  std::string best;
  std::size_t fewest = std::min<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& one : known) {
    const std::size_t count = mistakes(word, one);
    if (count >= fewest) continue;
    fewest = count;
    best = one;
  }
  return best;
}

std::string unknown_command(const std::string& name, const std::vector<const OptionList*>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const OptionList* list : commands) names.push_back(list->command());
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  const std::string meant = similar_word(name, names);
  return short_word(name) + " is no command" + (meant.empty() ? "" : " (did you mean " + meant + "?)");
}

std::string similar_option(const std::string& word, const Usage& usage, const OptionList& command) {
  std::vector<std::string> known = {"--help"};
  for (const std::list<Option>* list : {&usage.everywhere, &command.options()}) {
    for (const Option& option : *list) {
      for (const std::string& name : names_of(option)) known.push_back(name);
    }
  }
  const std::string meant = similar_word(word.substr(0, word.find('=')), known);
  return meant.empty() ? "" : " (did you mean " + meant + "?)";
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

void OptionList::group(const std::map<std::string, std::string>& headings) {
  for (Option& option : options_) {
    for (const std::string& name : names_of(option)) {
      const auto heading = headings.find(name);
      if (heading != headings.end()) option.group = heading->second;
    }
  }
}

void OptionList::add_check(std::function<std::string()> problem) { checks_.push_back(std::move(problem)); }

void OptionList::takes_program(std::vector<std::string>* words, std::string example, const std::string* instead) {
  program_ = Program{words, std::move(example), instead};
}

Parsed parse_arguments(const Usage& usage, const std::vector<const OptionList*>& commands,
                       std::vector<std::string> arguments) {
  CLI::App app(usage.about, usage.program);
  app.set_version_flag("-V,--version", usage.version);
  app.require_subcommand(1);
  app.footer(usage.footer);
  for (const Option& option : usage.everywhere) declare(option, &app);
  std::map<const CLI::App*, const OptionList*> lists;
  app.formatter(std::make_shared<Help>(&lists));
  const std::vector<std::string> words = arguments;
  for (const OptionList* list : commands) {
    const bool used = std::find(words.begin(), words.end(), list->command()) != words.end();
    lists[declare(*list, usage, used, &app)] = list;
  }

  Parsed parsed;
  bool extra = false;  // a word that is no option of the command
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    parsed.outcome = error.get_exit_code() == 0 ? Parsed::Outcome::kShown : Parsed::Outcome::kWrong;
    if (parsed.outcome == Parsed::Outcome::kShown) app.exit(error);
    parsed.problem = error.what();
    extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    // CLI11 says that a sub-command is missing.
    const auto word = std::find_if(words.begin(), words.end(), [](const std::string& one) { return one[0] != '-'; });
    if (parsed.outcome == Parsed::Outcome::kWrong && word != words.end()) {
      const std::string problem = unknown_command(*word, commands);
      if (!problem.empty()) parsed.problem = problem;
    }
    return parsed;
  }
  parsed.command = lists[chosen.front()];
  if (extra) {
    // The names of an option that is known, and values, have passed; the first word that is left over is the unknown
    // one.
    for (const std::string& word : chosen.front()->remaining()) {
      if (word.compare(0, 2, "--") == 0) {
        parsed.problem += similar_option(word, usage, *parsed.command);
        break;
      }
    }
  }
  parsed.program_words = chosen.front()->remaining();
  return parsed;
}

}  // namespace culprit::report
