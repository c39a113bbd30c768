#include "report/judge/python_unseen.h"

#include "interpose/format/python_versions.h"

namespace culprit::report {

using format::Header;
using format::kPythonVersions;
using format::PythonState;
using format::PythonViewState;
using format::reads_python;

namespace {

std::string name_of_python(std::uint32_t version) {
  if (version == 0) return "this Python";
  return "Python " + std::to_string(version >> 24) + "." + std::to_string(version >> 16 & 0xff);
}

}  // namespace

std::string python_lines_note(const Header& header) {
  const std::uint32_t version = header.python_version;
  const std::string name = name_of_python(version);
  switch (header.python_state) {
    case PythonState::kUnknownVersion:
      if (reads_python(version))
        return "no Python lines: culprit reads the frames of usual builds of CPython; this " + name + " is another one";
      return std::string("no Python lines: culprit reads the frames of Python ") + kPythonVersions + ", not of " + name;
    case PythonState::kFreeThreaded:
      return "no Python lines: culprit reads the frames of CPython with a GIL; this " + name + " is free-threaded";
    case PythonState::kDiffers:
      return "no Python lines: the interpreter does not keep its frames where a usual build of " + name + " does";
    case PythonState::kNoPython:
      if (version != 0) return "no Python lines: CULPRIT_PYTHON=0";
      break;
    case PythonState::kNotChecked:
    case PythonState::kRead:
      break;
  }
  return {};
}

std::string why_python_is_unseen(const Header& header, bool has_unseen_cache) {
  const std::string name = name_of_python(header.python_version);
  switch (header.python_state) {
    case PythonState::kUnknownVersion:
      return name + (reads_python(header.python_version) ? " is no usual build" : " is not known to culprit");
    case PythonState::kFreeThreaded:
      return name + " is free-threaded";
    case PythonState::kDiffers:
      return name + " is no usual build";
    case PythonState::kNoPython:
      if (header.python_version != 0) return "CULPRIT_PYTHON=0";
      break;
    case PythonState::kNotChecked:
      if (!has_unseen_cache) return {};  // a Python that is there and does nothing
      break;
    case PythonState::kRead:
      break;
  }
  switch (header.view_state) {
    case PythonViewState::kAsked:
      return "Python's main thread ran no code after the first CUDA call, or the program ended too soon after it";
    case PythonViewState::kLoaded:
      if (has_unseen_cache)
        return "Python ran no exit handlers that look inside (os._exit, a signal or exec ended the process)";
      break;
    case PythonViewState::kNone:
      break;
  }
  return has_unseen_cache ? "no Python was found that culprit can read (with CULPRIT_PYTHON=0 it looks for none)"
                          : std::string();
}

}  // namespace culprit::report
