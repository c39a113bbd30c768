#include "report/commands/completion.h"

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "report/manual/manual.h"

namespace culprit::report {
namespace {

// The texts that may follow an option.
struct Values {
  std::vector<std::string> words;  // one of these
  bool files = false;              // the path of a file or a folder
};

Values values_of(const Option& option) {
  Values values;
  if (const auto* list = std::get_if<Option::OneOf>(&option.check)) values.words = list->values;
  const std::string type = option.type_name.value_or("");
  values.files = type == "FILE" || type == "DIR" || type == "PATTERN" || option.names == "dumps" ||
                 option.names == "FILE" || option.names == "DUMP";
  return values;
}

// Options that CLI11 adds to each command.
std::list<Option> with_common(const std::list<Option>& options, const Usage& usage, bool program) {
  std::list<Option> all = options;
  all.insert(all.end(), usage.everywhere.begin(), usage.everywhere.end());
  const auto add = [&](const char* names, const char* help) {
    all.emplace_back();
    all.back().names = names;
    all.back().value = std::function<void()>();
    all.back().help = help;
  };
  add("-h,--help", "Print the help and exit");
  if (program) add("-V,--version", "Print the version and exit");
  return all;
}

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

bool is_positional(const Option& option) { return option.names[0] != '-'; }

// The first sentence of a help text on one line, without the characters of `left_out`.
std::string short_help(const std::string& help, const std::string& left_out) {
  std::string text = help.substr(0, help.find_first_of(";\n("));
  text = text.substr(0, text.find(". "));
  std::string result;
  for (const char c : text) {
    if (left_out.find(c) == std::string::npos) result += c;
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::vector<std::string> option_names(const std::list<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) {
    if (is_positional(option)) continue;
    for (std::string& name : names_of(option)) names.push_back(std::move(name));
  }
  return names;
}

struct Sources {
  const Usage& usage;
  const std::vector<const OptionList*>& commands;
};

std::string command_names(const Sources& from) {
  std::vector<std::string> names;
  for (const OptionList* command : from.commands) names.push_back(command->command());
  return joined(names);
}

// The words of a positional argument that has a list of values; "help" has the commands and the manual's pages.
std::vector<std::string> positional_words(const Sources& from, const OptionList& command) {
  if (command.command() == "help") {
    std::vector<std::string> names;
    for (const OptionList* one : from.commands) names.push_back(one->command());
    for (std::string& topic : manual_topics()) {
      if (std::find(names.begin(), names.end(), topic) == names.end()) names.push_back(std::move(topic));
    }
    return names;
  }
  for (const Option& option : command.options()) {
    if (is_positional(option) && !values_of(option).words.empty()) return values_of(option).words;
  }
  return {};
}

std::string bash_script(const Sources& from) {
  std::string values;
  std::string lists;
  for (const OptionList* command : from.commands) {
    const std::list<Option> options = with_common(command->options(), from.usage, false);
    for (const Option& option : options) {
      if (is_positional(option) || !takes_value(option)) continue;
      const Values allowed = values_of(option);
      for (const std::string& name : names_of(option)) {
        values += "    '" + command->command() + " " + name + "') ";
        values += allowed.files           ? "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))"
                  : allowed.words.empty() ? "COMPREPLY=()"
                                          : "COMPREPLY=($(compgen -W '" + joined(allowed.words) + "' -- \"$cur\"))";
        values += "; return ;;\n";
      }
    }
    lists += "    " + command->command() + ") words='" + joined(option_names(options)) + "' plain='" +
             joined(positional_words(from, *command)) + "' ;;\n";
  }
  return "# bash completion of culprit, made by: culprit completion bash\n"
         "_culprit() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' words='' plain='' word i\n"
         "  # bash makes three words of --name=value.\n"
         "  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    word=${COMP_WORDS[i]}\n"
         "    if [[ $word == -- ]]; then\n"
         "      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1));\n"
         "      else compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -c -f -- \"$cur\")); fi\n"
         "      return\n"
         "    fi\n"
         "    if [[ -z $command && $word != -* ]]; then command=$word; fi\n"
         "  done\n"
         "  case \"$command $prev\" in\n" +
         values +
         "  esac\n"
         "  case $command in\n"
         "    '') words='" +
         joined(option_names(with_common({}, from.usage, true))) + "' plain='" + command_names(from) + "' ;;\n" +
         lists +
         "  esac\n"
         "  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "  elif [[ -n $plain ]]; then COMPREPLY=($(compgen -W \"$plain\" -- \"$cur\"))\n"
         "  else compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
         "}\n"
         "complete -F _culprit culprit\n";
}

// The words of _arguments for an option.
std::string zsh_option(const Option& option) {
  const std::vector<std::string> names = names_of(option);
  const bool list = std::holds_alternative<std::vector<std::string>*>(option.value) ||
                    std::holds_alternative<Option::Count>(option.value);
  std::string value;
  if (takes_value(option)) {
    const Values allowed = values_of(option);
    value = ":" + option.type_name.value_or("value");
    for (char& c : value) c = c == ':' || c == '[' || c == ']' ? ' ' : c;
    value[0] = ':';
    value += allowed.files ? ":_files" : allowed.words.empty() ? ": " : ":(" + joined(allowed.words) + ")";
  }
  std::string text;
  for (const std::string& name : names) {
    const std::string exclusion = list ? "*" : "(" + joined(names) + ")";
    const char* equals = takes_value(option) && name.compare(0, 2, "--") == 0 ? "=" : "";
    text.append("        '").append(exclusion).append(name).append(equals);
    text.append("[").append(short_help(option.help, "'[]`\\")).append("]").append(value).append("' \\\n");
  }
  return text;
}

std::string zsh_script(const Sources& from) {
  std::string commands;
  std::string cases;
  for (const OptionList* command : from.commands) {
    commands += "    '" + command->command() + ":" + short_help(command->help(), "'`:\\") + "'\n";
    cases += "    " + command->command() + ")\n      _arguments -s \\\n";
    for (const Option& option : with_common(command->options(), from.usage, false)) {
      if (!is_positional(option)) cases += zsh_option(option);
    }
    const std::vector<std::string> words = positional_words(from, *command);
    cases += command->program() ? "        '*::: :_normal' ;;\n"
             : words.empty()    ? "        '*:file:_files' ;;\n"
                                : "        '1:name:(" + joined(words) + ")' ;;\n";
  }
  std::string common;
  for (const Option& option : with_common({}, from.usage, true)) common += zsh_option(option);
  return "#compdef culprit\n"
         "# zsh completion of culprit, made by: culprit completion zsh\n"
         "_culprit() {\n"
         "  local -a commands\n"
         "  local state line curcontext=$curcontext\n"
         "  commands=(\n" +
         commands + "  )\n  _arguments -C -s \\\n" + common +
         "        '1: :->command' '*:: :->rest' && return\n"
         "  if [[ $state == command ]]; then _describe command commands; return; fi\n"
         "  case $words[1] in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _culprit ]]; then _culprit \"$@\"; else compdef _culprit culprit; fi\n";
}

std::string fish_option(const Option& option, const std::string& condition) {
  std::string text = "complete -c culprit -n '" + condition + "'";
  for (const std::string& name : names_of(option)) {
    text += name.compare(0, 2, "--") == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (takes_value(option)) {
    const Values allowed = values_of(option);
    text += allowed.files ? " -r -F" : allowed.words.empty() ? " -x" : " -x -a '" + joined(allowed.words) + "'";
  }
  return text + " -d '" + short_help(option.help, "'\\") + "'\n";
}

std::string fish_script(const Sources& from) {
  const std::string none = "not __fish_seen_subcommand_from " + command_names(from);
  std::string text = "# fish completion of culprit, made by: culprit completion fish\n";
  for (const Option& option : with_common({}, from.usage, true)) text += fish_option(option, none);
  for (const OptionList* command : from.commands) {
    text += "complete -c culprit -f -n '" + none + "' -a " + command->command() + " -d '" +
            short_help(command->help(), "'\\") + "'\n";
  }
  for (const OptionList* command : from.commands) {
    const std::string own = "__fish_seen_subcommand_from " + command->command();
    for (const Option& option : with_common(command->options(), from.usage, false)) {
      if (!is_positional(option)) text += fish_option(option, own);
    }
    const std::vector<std::string> words = positional_words(from, *command);
    if (!words.empty()) text += "complete -c culprit -f -n '" + own + "' -a '" + joined(words) + "'\n";
    if (command->program()) text += "complete -c culprit -n '" + own + "' -x -a '(__fish_complete_subcommand)'\n";
  }
  return text;
}

const std::map<std::string, std::string (*)(const Sources&)>& scripts() {
  static const std::map<std::string, std::string (*)(const Sources&)> all = {
      {"bash", bash_script}, {"fish", fish_script}, {"zsh", zsh_script}};
  return all;
}

}  // namespace

std::vector<std::string> completion_shells() {
  std::vector<std::string> names;
  for (const auto& [name, script] : scripts()) names.push_back(name);
  return names;
}

std::string completion_script(const std::string& shell, const Usage& usage,
                              const std::vector<const OptionList*>& commands) {
  return scripts().at(shell)({usage, commands});
}

}  // namespace culprit::report
