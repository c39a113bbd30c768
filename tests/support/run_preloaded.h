// Shared by the process and the guest tests: run a subject with libculprit.so preloaded, then read its dumps with the
// culprit command. Black box: the tests never look into a dump.
//
// The tests find everything relative to their own executable (build/bin/process_test), so that the built tree can be
// copied to a machine with a GPU. There CULPRIT_TEST_GPU=1 leaves the simulated driver out.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace culprit::test {

struct RunOptions : ProgramOptions {
  bool preload = true;                      // false: the same program without the library, for comparisons
  std::vector<std::string> preload_before;  // libraries in front of libculprit.so, as paths or subject names
  std::vector<std::string> preload_after;
  std::shared_ptr<TemporaryFolder> folder;  // folder for dumps; empty: a fresh one
};

struct Run : Finished {
  std::shared_ptr<TemporaryFolder> folder;    // working directory of the run's dumps, kept as long as the Run
  std::vector<std::filesystem::path> dumps;   // the dumps in it, sorted by name
  const std::filesystem::path& dump() const;  // the only dump; throws std::runtime_error unless there is exactly one
};

struct Frame {
  std::string function;
  std::string file;
  std::string module;
  int line = 0;
};

struct Group {
  std::string id;
  std::string kind;
  std::string api;  // without the suffixes of driver symbols: cuMemAlloc for cuMemAlloc_v2
  std::string cause;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  int device = -1;
  std::vector<Frame> stack;
  nlohmann::json json;

  // No event says why it was not freed. It is lost, if that could be found out.
  bool is_unexplained() const { return cause == "never-freed" || cause == "lost"; }
  // True when a frame is `function`, whatever its namespace and parameters.
  bool has_frame(const std::string& function) const;
};

struct Report {
  nlohmann::json json;
  std::vector<Group> leaks;
  std::vector<Group> resources;

  std::uint64_t leaked_bytes() const;
  std::uint64_t leaked_count() const;
  // The groups, leaks and resources, whose stack passes through `function`.
  std::vector<Group> through(const std::string& function) const;
  // The errors of one type ("double-free", ...).
  std::vector<nlohmann::json> errors(const std::string& type) const;
  std::size_t error_count() const;
};

// True when the tests run on the machine's own driver (CULPRIT_TEST_GPU=1).
bool on_gpu();

// True, with a warning, on a GPU: NVIDIA's driver does not work in a fork child of a process that used it, so a test of
// such a child is not possible.
bool skip_fork_child();

// Paths of the parts of the built tree.
std::filesystem::path subject_path(const std::string& name);
// NAME_O0, NAME_O2, NAME_clang_O0 and NAME_clang_O2: those that were built. On a GPU NAME_O2 alone, because its driver
// starts three processes a second. REQUIREs two at least, one on a GPU.
std::vector<std::string> builds_of(const std::string& name);
std::filesystem::path library_path();
std::filesystem::path culprit_path();
// The library that stands for NVML (CULPRIT_NVML).
std::filesystem::path fake_nvml_path();
// The folder of the simulated driver. Without a GPU the programs need it in LD_LIBRARY_PATH.
std::filesystem::path simulated_driver_folder();

// Runs a subject (a name in the subjects folder, or a path) under the preloaded library. Throws std::runtime_error when
// the subject does not exist. The Run has the program's exit status; a time-out is never an exception.
Run run_preloaded(const std::string& subject, const std::vector<std::string>& arguments = {}, RunOptions options = {});

// Runs the culprit command, not under the library, without colours and without asking debuginfod; `environment` is
// added to that. The library that it preloads or attaches is library_path().
Finished run_culprit(const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment = {});
// Starts the culprit command without its output, and does not wait for it. REQUIREs that it starts.
pid_t start_culprit(const std::vector<std::string>& arguments);

// Reads a dump through `culprit report --format json --resources`. Throws std::runtime_error with the command's
// messages when it fails or prints anything but a report.
Report read_report(const std::filesystem::path& dump);

// The stack trace in a JSON array as frames; for stacks inside evidence and errors.
std::vector<Frame> read_stack(const nlohmann::json& stack);
bool has_frame(const std::vector<Frame>& stack, const std::string& function);

// An API name without the suffixes that only the driver's ELF symbols have: _v2, _ptsz, _ptds.
std::string plain_api(std::string name);

}  // namespace culprit::test
