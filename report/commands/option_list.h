// The options of a sub-command, as it declares them. option_list.cpp, the only file that knows CLI11, parses them.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace culprit::report {

// A positional argument ("PID"), an option ("-o,--output") or a flag of a sub-command. The functions return the option
// itself.
struct Option {
  // Where the value goes; it must stay there until the command line has been parsed. bool: a flag, which takes no
  // value. Count: a flag, and how often it was given. A function: a flag, and its effect. A list: the option may be
  // repeated, each time with one value; a positional argument takes all that come.
  struct Count {
    unsigned* times;
  };
  using Value = std::variant<bool*, int*, unsigned*, double*, std::string*, std::vector<std::string>*,
                             std::optional<unsigned>*, std::function<void()>, Count>;
  // Returns the problem of a value; "" for a correct one.
  using Test = std::function<std::string(const std::string&)>;
  struct OneOf {
    std::vector<std::string> values;
  };
  template <typename Number>
  struct Range {
    Number least;
    Number most;
  };
  struct Positive {};
  struct Seconds {
    double least;
    double most;
  };
  using Check =
      std::variant<std::monostate, Test, OneOf, Range<int>, Range<unsigned>, Range<double>, Positive, Seconds>;

  // The name of the value's type in the help; without it: TEXT, UINT, ....
  Option& type(std::string name);
  // The values that are accepted: those that `test` finds no problem with, those of a list, numbers in a range, or
  // whole numbers over zero. Without any of them a number may have all values of its type.
  Option& checked_by(Test test);
  Option& one_of(std::vector<std::string> values);
  template <typename Number>
  Option& in_range(Number least, Number most) {
    check = Range<Number>{least, most};
    return *this;
  }
  Option& positive();
  // A time with a unit ("10s", "5m"), which becomes seconds: from 1ms to 10000h.
  Option& time();
  Option& is_required();
  // The help shows the value that the variable has when the option is declared.
  Option& shows_default();
  // One value may be several with commas between.
  Option& comma_separated();
  // The option is an error without, or together with, another one that was declared before.
  Option& needs(std::string other);
  Option& excludes(std::string other);

  std::string names;
  Value value;
  std::string help;
  std::optional<std::string> type_name;
  Check check;
  bool negated = false;
  bool required = false;
  bool default_shown = false;
  bool commas = false;
  std::string needed;    // "": none
  std::string excluded;  // "": none
  std::string group;     // its heading in the help; "": "Options"
};

// The names of an option or a positional argument, as the user writes them: "-o,--output" are two.
std::vector<std::string> names_of(const Option& option);

// False for flags.
bool takes_value(const Option& option);

// The options that a sub-command declares. Not thread-safe.
class OptionList {
 public:
  // The program of the user that a sub-command starts: the words after "--", or from the first that is no option.
  struct Program {
    std::vector<std::string>* words;
    std::string example;  // a command line, for the help
    // A positional argument that may be given in place of the program; then a program begins after "--" only. nullptr:
    // there is none.
    const std::string* instead = nullptr;
  };

  OptionList(std::string command, std::string help) : command_(std::move(command)), help_(std::move(help)) {}

  // The reference stays valid until the option is removed, also when the list is moved.
  Option& add(std::string names, Option::Value value, std::string help);
  // A flag that makes the variable false.
  Option& add_off_flag(std::string names, bool* value, std::string help);
  // The option with this name ("--output"). Throws std::out_of_range when there is none.
  Option& find(const std::string& name);
  void remove(const std::string& name);
  // Puts options under headings in the help: `headings` by the names of options, which may be those of other commands.
  void group(const std::map<std::string, std::string>& headings);

  // `problem` is asked once all options have their values; it returns "" when they fit together. Problems are asked for
  // in the order of these calls.
  void add_check(std::function<std::string()> problem);

  void takes_program(std::vector<std::string>* words, std::string example, const std::string* instead = nullptr);

  const std::string& command() const { return command_; }
  const std::string& help() const { return help_; }
  const std::list<Option>& options() const { return options_; }
  const std::vector<std::function<std::string()>>& checks() const { return checks_; }
  const std::optional<Program>& program() const { return program_; }

 private:
  std::list<Option>::iterator at(const std::string& name);

  std::string command_;
  std::string help_;
  std::list<Option> options_;
  std::vector<std::function<std::string()>> checks_;
  std::optional<Program> program_;
};

// The texts of the whole program.
struct Usage {
  std::string program;
  std::string version;
  std::string about;
  std::string footer;
  std::list<Option> everywhere;  // before the sub-command and among its options; values of both places add up
};

struct Parsed {
  enum class Outcome { kRun, kShown, kWrong };
  Outcome outcome = Outcome::kRun;         // kShown: the help or the version was asked for and printed
  const OptionList* command = nullptr;     // the chosen one; kShown, kWrong: nullptr if there is none
  std::string problem;                     // kWrong
  std::vector<std::string> program_words;  // the first word that is no option, and all after it
};

// The word of `known` that the user may have meant; "": none is similar. Two mistakes at most, fewer in short words.
std::string similar_word(const std::string& word, const std::vector<std::string>& known);

// "NAME is no command", with a similar one; "": it is one.
std::string unknown_command(const std::string& name, const std::vector<const OptionList*>& commands);

// " (did you mean --NAME?)" for an option that a command does not have; "": none is similar.
std::string similar_option(const std::string& word, const Usage& usage, const OptionList& command);

// Parses the arguments of the program and sets the values of the chosen command's options. Wrong arguments are no
// exception but Outcome::kWrong; then some values may be set already.
Parsed parse_arguments(const Usage& usage, const std::vector<const OptionList*>& commands,
                       std::vector<std::string> arguments);

}  // namespace culprit::report
