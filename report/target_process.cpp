#include "report/target_process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "report/doctor/proc_facts.h"
#include "report/proc_text.h"

namespace culprit {
namespace {

std::string folder_of(const std::string& proc, std::uint32_t pid) { return proc + "/" + std::to_string(pid); }

bool maps_library(const std::string& proc, std::uint32_t pid) {
  return read_proc_text(folder_of(proc, pid) + "/maps").find("/libculprit.so") != std::string::npos;
}

void add_descendants(const std::string& proc, std::uint32_t pid, std::vector<std::uint32_t>* found) {
  std::istringstream children(read_proc_text(folder_of(proc, pid) + "/task/" + std::to_string(pid) + "/children"));
  for (std::uint32_t child = 0; children >> child && found->size() < 1000;) {
    if (maps_library(proc, child)) found->push_back(child);
    add_descendants(proc, child, found);
  }
}

// A variable of the environment that the process was started with.
std::string variable_of(const std::string& environment, const std::string& name) {
  const std::string key = name + "=";
  for (std::size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
    if (environment.compare(at, key.size(), key) == 0) return environment.c_str() + at + key.size();
    if (environment.find('\0', at) == std::string::npos) break;
  }
  return {};
}

// The same names and numbers as the library takes; it has refused those that cannot be used.
int signal_of(std::string name) {
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (name.compare(0, 3, "SIG") == 0) name.erase(0, 3);
  if (name.compare(0, 5, "RTMIN") == 0) return SIGRTMIN + std::atoi(name.c_str() + 5);
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') return std::atoi(name.c_str());
  for (int number = 1; number < 32; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return 0;
}

bool catches(const std::string& status, int number) {
  const std::size_t at = status.find("\nSigCgt:");
  if (at == std::string::npos || number < 1 || number > 64) return false;
  return (std::strtoull(status.c_str() + at + 8, nullptr, 16) >> (number - 1) & 1) != 0;
}

}  // namespace

TargetProcess find_target(const std::string& proc, std::uint32_t pid) {
  TargetProcess target;
  target.pid = pid;
  const std::string name = "process " + std::to_string(pid);
  if (::access(folder_of(proc, pid).c_str(), F_OK) != 0) {
    target.problem = "there is no " + name;
    return target;
  }
  if (!std::ifstream(folder_of(proc, pid) + "/maps").is_open()) {
    target.problem = name + " belongs to another user: run culprit as that user, or as root";
    return target;
  }
  target.has_library = maps_library(proc, pid);
  if (!target.has_library) {
    std::vector<std::uint32_t> descendants;
    add_descendants(proc, pid, &descendants);
    if (descendants.size() > 1) {
      target.problem =
          name + " has " + std::to_string(descendants.size()) + " processes under culprit below it: name one of";
      for (std::uint32_t one : descendants) target.problem += " " + std::to_string(one);
      return target;
    }
    if (descendants.empty()) {
      target.problem = name + " does not run under culprit: start it with culprit run";
      return target;
    }
    target.pid = descendants.front();
    target.has_library = true;
  }
  target.dump = dump_of_process(proc, target.pid);
  const std::string environment = read_proc_text(folder_of(proc, target.pid) + "/environ");
  target.waits_for_signal = ::strcasecmp(variable_of(environment, "CULPRIT_START").c_str(), "signal") == 0;
  target.signal_name = variable_of(environment, "CULPRIT_SIGNAL");
  if (target.signal_name.empty()) target.signal_name = "USR2";
  target.signal_number = signal_of(target.signal_name);
  target.catches_signal = catches(read_proc_text(folder_of(proc, target.pid) + "/status"), target.signal_number);
  return target;
}

bool read_header(const std::string& proc, const TargetProcess& target, format::Header* header) {
  const int fd = open_in_process(proc, target.pid, target.dump);
  if (fd < 0) return false;
  const bool whole = ::pread(fd, header, sizeof(*header), 0) == static_cast<ssize_t>(sizeof(*header));
  ::close(fd);
  return whole && std::memcmp(header->magic, format::kMagic, sizeof(format::kMagic)) == 0;
}

}  // namespace culprit
