#include "report/proc/driver_module.h"

#include <sstream>

#include "report/proc/proc_text.h"

namespace culprit::report {
namespace {

// "580.65.06".
bool is_version(const std::string& word) {
  return word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos &&
         word.front() != '.' && word.back() != '.';
}

}  // namespace

DriverModule read_driver_module(const std::string& proc) {
  DriverModule module;
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (...)  Sun Jul 27 ..."
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."
  std::istringstream text(read_proc_text(proc + "/driver/nvidia/version"));
  std::string line;
  if (!std::getline(text, line) || line.rfind("NVRM version:", 0) != 0) return module;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (!is_version(word)) continue;
    module.version = word;
    module.open = line.find("Open Kernel Module") != std::string::npos;
    break;
  }
  return module;
}

}  // namespace culprit::report
