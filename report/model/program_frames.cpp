#include "report/model/program_frames.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "report/base/words.h"
#include "report/model/frame_rules.h"
#include "report/model/frames.h"

namespace culprit::report {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

// The path below the folder where packages are installed; "" outside of one.
std::string_view below_packages(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = file.rfind(folder);
    if (at != std::string_view::npos) return file.substr(at + folder.size());
  }
  return {};
}

// The standard library, in ".../lib/python3.11/", ".../lib64/python3.11/" or ".../lib/python311.zip/"; and its modules
// that are compiled into the interpreter, from 3.11 on.
bool is_standard_library(std::string_view file) {
  if (begins_with(file, "<frozen ")) return true;
  constexpr std::string_view kName = "/python3";
  for (std::size_t at = file.find(kName); at != std::string_view::npos; at = file.find(kName, at + 1)) {
    const std::string_view before = file.substr(0, at);
    const std::string_view folder = base_name(before);
    std::size_t end = at + kName.size();
    if (end < file.size() && file[end] == '.') ++end;
    const std::size_t digits = end;
    while (end < file.size() && is_digit(file[end])) ++end;
    if (end < file.size() && file[end] == 't') ++end;  // without the GIL
    const std::string_view rest = file.substr(std::min(end, file.size()));
    const bool is_library = folder == "lib" || folder == "lib64";
    if (is_library && end > digits && (begins_with(rest, "/") || begins_with(rest, ".zip/"))) return true;
  }
  return false;
}

// Packages that run the program's functions: tests, cells of notebooks, measurements.
bool is_runner(std::string_view package) {
  static const std::set<std::string_view> kRunners = {
      "pytest", "_pytest",  "pluggy",  "xdist",     "execnet", "hypothesis", "nose",
      "nose2",  "coverage", "IPython", "ipykernel", "culprit", "unittest2",  "_hypothesis_pytestplugin.py"};
  return kRunners.count(package) != 0 || begins_with(package, "pytest_") || begins_with(package, "_pytest_");
}

bool is_of_runner(std::string_view file) {
  const std::string_view installed = below_packages(file);
  if (!installed.empty()) return is_runner(installed.substr(0, installed.find('/')));
  // In any other folder only names that a program would not give to its own files.
  return file.find("/_pytest/") != std::string_view::npos || file.find("/pluggy/_") != std::string_view::npos ||
         file.find("/python/culprit/") != std::string_view::npos ||
         file.find("/python_package/culprit/") != std::string_view::npos;
}

bool is_comprehension(std::string_view function) {
  const std::string_view name = function.substr(function.rfind('.') + 1);
  return name == "<listcomp>" || name == "<dictcomp>" || name == "<setcomp>";
}

// The interpreter's native code, extension modules of its standard library, and the glue between Python and others.
bool is_interpreter(const Frame& frame) {
  if (frame.python || frame.module == nullptr) return false;
  if (is_python(frame) || frame.module->path.find("/lib-dynload/") != std::string::npos) return true;
  return in_module(frame, "libboost_python") || is_binding_glue(frame);
}

// Cuts "-1.2" and "-1a2b3c4d" off the end.
bool cut_suffix(bool library, std::string_view* name) {
  const std::size_t dash = name->rfind('-');
  if (dash == std::string_view::npos || dash == 0) return false;
  const std::string_view suffix = name->substr(dash + 1);
  const bool hash = library && suffix.size() == 8 && std::all_of(suffix.begin(), suffix.end(), is_hex_digit);
  const bool numbers = !suffix.empty() && is_digit(suffix.front()) && is_digit(suffix.back()) &&
                       std::all_of(suffix.begin(), suffix.end(), [](char c) { return is_digit(c) || c == '.'; });
  // A program "solver-3" may be another one than "solver-4".
  const bool version = numbers && (library || suffix.find('.') != std::string_view::npos);
  if (!hash && !version) return false;
  name->remove_suffix(name->size() - dash);
  return true;
}

}  // namespace

bool is_program_frame(const Frame& frame) {
  if (frame.python)
    return !is_of_runner(frame.file) && (!below_packages(frame.file).empty() || !is_standard_library(frame.file)) &&
           !is_comprehension(frame.function);
  return !is_system_code(frame) && !is_interpreter(frame);
}

std::vector<const Frame*> program_frames(const ResolvedStack& stack) {
  std::vector<const Frame*> frames;
  for (std::size_t i = stack.hidden_inside; i + stack.hidden_outside < stack.frames.size(); ++i) {
    if (is_program_frame(*stack.frames[i])) frames.push_back(stack.frames[i]);
  }
  return frames;
}

const Frame* naming_frame(const ResolvedStack& stack) {
  const Frame* native = nullptr;
  const Frame* python = nullptr;
  for (std::size_t i = stack.hidden_inside; i + stack.hidden_outside < stack.frames.size(); ++i) {
    const Frame* frame = stack.frames[i];
    if (frame->python && python == nullptr) python = frame;
    if (!is_program_frame(*frame)) continue;
    if (frame->python) return frame;
    if (native == nullptr) native = frame;
  }
  // Without Python frames: the caller, unless it is the interpreter's.
  if (python == nullptr && stack.caller != nullptr && !is_interpreter(*stack.caller)) return stack.caller;
  if (native != nullptr) return native;
  if (python != nullptr) return python;
  return stack.caller != nullptr || stack.frames.empty() ? stack.caller : stack.frames.front();
}

const Frame* changeable_frame(const ResolvedStack& stack) {
  for (const Frame* frame : program_frames(stack)) {
    if (frame->python && below_packages(frame->file).empty()) return frame;
  }
  return naming_frame(stack);
}

std::string unversioned(std::string_view module) {
  const std::size_t so = std::min(module.find(".so."), module.size());
  const bool ends_so = so == module.size() && module.size() > 3 && module.substr(module.size() - 3) == ".so";
  const bool library = so != module.size() || ends_so;
  std::string_view name = ends_so ? module.substr(0, module.size() - 3) : module.substr(0, so);
  if (library) {
    for (const std::string_view tag : {".cpython-", ".abi3"}) name = name.substr(0, name.find(tag));
  }
  while (cut_suffix(library, &name)) {
  }
  // "libboost_python311" is another file for each version of Python.
  constexpr std::string_view kPython = "python3";
  const std::size_t python = name.rfind(kPython);
  if (library && python != std::string_view::npos && python + kPython.size() < name.size() &&
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(python + kPython.size()), name.end(), is_digit))
    name = name.substr(0, python + kPython.size() - 1);
  return std::string(name) + (library ? ".so" : "");
}

std::string library_name(const Frame& frame) {
  if (!frame.python) return frame.module != nullptr ? frame.module->name : "";
  const std::string_view installed = below_packages(frame.file);
  const std::size_t slash = installed.find('/');
  return std::string(slash != std::string_view::npos ? installed.substr(0, slash) : base_name(frame.file));
}

}  // namespace culprit::report
