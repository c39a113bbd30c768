#include "tests/support/run_preloaded.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <stdexcept>

#include "tests/catch.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

// A path in the built tree, or the one in the environment variable.
fs::path tree_path(const char* variable, const fs::path& relative_to_executable) {
  const char* value = std::getenv(variable);
  if (value != nullptr && *value != '\0') return value;
  return (fs::read_symlink("/proc/self/exe").parent_path() / relative_to_executable).lexically_normal();
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : separator) + part;
  return result;
}

std::string as_library(const std::string& name) {
  return name.find('/') != std::string::npos ? name : subject_path(name).string();
}

Group read_group(const nlohmann::json& json) {
  Group group;
  group.json = json;
  group.id = json.at("id").get<std::string>();
  group.kind = json.at("kind").get<std::string>();
  group.api = plain_api(json.at("api").get<std::string>());
  group.cause = json.value("cause", "");
  group.bytes = json.at("bytes").get<std::uint64_t>();
  group.count = json.at("count").get<std::uint64_t>();
  if (json.contains("device") && json["device"].is_number_integer()) group.device = json["device"].get<int>();
  group.stack = read_stack(json.at("stack"));
  return group;
}

}  // namespace

const fs::path& Run::dump() const {
  if (dumps.size() != 1)
    throw std::runtime_error("expected one dump, found " + std::to_string(dumps.size()) + "; stderr:\n" + err);
  return dumps.front();
}

bool Group::has_frame(const std::string& function) const { return test::has_frame(stack, function); }

std::uint64_t Report::leaked_bytes() const {
  std::uint64_t sum = 0;
  for (const Group& group : leaks) sum += group.bytes;
  return sum;
}

std::uint64_t Report::leaked_count() const {
  std::uint64_t sum = 0;
  for (const Group& group : leaks) sum += group.count;
  return sum;
}

std::vector<Group> Report::through(const std::string& function) const {
  std::vector<Group> result;
  for (const auto* groups : {&leaks, &resources}) {
    std::copy_if(groups->begin(), groups->end(), std::back_inserter(result),
                 [&](const Group& group) { return group.has_frame(function); });
  }
  return result;
}

std::vector<nlohmann::json> Report::errors(const std::string& type) const {
  std::vector<nlohmann::json> result;
  for (const nlohmann::json& error : json.at("errors")) {
    if (error.at("type") == type) result.push_back(error);
  }
  return result;
}

std::size_t Report::error_count() const { return json.at("errors").size(); }

bool on_gpu() {
  const char* value = std::getenv("CULPRIT_TEST_GPU");
  return value != nullptr && std::string(value) == "1";
}

bool skip_fork_child() {
  if (on_gpu()) WARN("skipped: NVIDIA's driver does not work in a child of an initialized parent");
  return on_gpu();
}

fs::path subject_path(const std::string& name) { return tree_path("CULPRIT_TEST_SUBJECTS", "../subjects") / name; }

std::vector<std::string> builds_of(const std::string& name) {
  std::vector<std::string> builds;
  for (const char* build : {"_O0", "_O2", "_clang_O0", "_clang_O2"}) {
    const bool wanted = !on_gpu() || std::strcmp(build, "_O2") == 0;
    if (wanted && fs::exists(subject_path(name + build))) builds.push_back(name + build);
  }
  REQUIRE(builds.size() >= (on_gpu() ? 1 : 2));
  return builds;
}

fs::path library_path() { return tree_path("CULPRIT_TEST_LIBRARY", "../lib/libculprit.so"); }

fs::path culprit_path() { return tree_path("CULPRIT_TEST_COMMAND", "../bin/culprit"); }

fs::path fake_nvml_path() { return tree_path("CULPRIT_TEST_NVML", "../lib/libfake_nvml.so"); }

fs::path simulated_driver_folder() { return tree_path("CULPRIT_TEST_SIMCUDA", "../simcuda"); }

Run run_preloaded(const std::string& subject, const std::vector<std::string>& arguments, RunOptions options) {
  const fs::path program = subject.find('/') != std::string::npos ? fs::path(subject) : subject_path(subject);
  if (!fs::exists(program)) throw std::runtime_error("no such subject: " + program.string());

  Run run;
  run.folder = options.folder ? options.folder : std::make_shared<TemporaryFolder>();
  std::vector<std::string> preloads;
  for (const std::string& name : options.preload_before) preloads.push_back(as_library(name));
  if (options.preload) preloads.push_back(library_path());
  for (const std::string& name : options.preload_after) preloads.push_back(as_library(name));

  std::map<std::string, std::string> environment = {
      {"LD_PRELOAD", join(preloads, ":")},
      {"CULPRIT_OUT", (run.folder->path() / "culprit.%n.%p.dump").string()},
      {"CULPRIT_QUIET", ""},
  };
  if (!on_gpu()) environment["LD_LIBRARY_PATH"] = simulated_driver_folder().string();
  for (const auto& [name, value] : options.environment) environment[name] = value;
  options.environment = std::move(environment);

  std::vector<std::string> argv = {program.string()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  static_cast<Finished&>(run) = run_program(argv, options);

  for (const fs::directory_entry& entry : fs::directory_iterator(run.folder->path())) {
    const fs::path& path = entry.path();  // files of the Python package, next to the dumps, end in .json
    if (path.filename().string().find(".dump") != std::string::npos && path.extension() != ".json")
      run.dumps.push_back(entry.path());
  }
  std::sort(run.dumps.begin(), run.dumps.end());
  return run;
}

Finished run_culprit(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment) {
  std::vector<std::string> argv = {culprit_path().string()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ProgramOptions options;
  options.environment = {
      {"LD_PRELOAD", ""}, {"NO_COLOR", "1"}, {"CULPRIT_LIBRARY", library_path().string()}, {"DEBUGINFOD_URLS", ""}};
  for (const auto& [name, value] : environment) options.environment[name] = value;
  return run_program(argv, options);
}

pid_t start_culprit(const std::vector<std::string>& arguments) {
  const std::string command = culprit_path().string();
  std::string library = "CULPRIT_LIBRARY=" + library_path().string();
  std::vector<char*> argv = {const_cast<char*>(command.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const char* libraries = std::getenv("LD_LIBRARY_PATH");
  std::string path = std::string("LD_LIBRARY_PATH=") + (libraries == nullptr ? "" : libraries);
  char* const environment[] = {library.data(), path.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {1, 2}) posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  REQUIRE(posix_spawn(&pid, command.c_str(), &actions, nullptr, argv.data(), environment) == 0);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

Report read_report(const fs::path& dump) {
  const Finished finished = run_culprit({"report", "--format", "json", "--resources", dump.string()});
  if (finished.exit_code != 0) {
    throw std::runtime_error("culprit report " + dump.string() + " ended with " + std::to_string(finished.exit_code) +
                             ":\n" + finished.err + finished.out);
  }
  Report report;
  report.json = nlohmann::json::parse(finished.out);
  for (const nlohmann::json& group : report.json.at("leaks")) report.leaks.push_back(read_group(group));
  for (const nlohmann::json& group : report.json.at("resources")) report.resources.push_back(read_group(group));
  return report;
}

std::vector<Frame> read_stack(const nlohmann::json& stack) {
  std::vector<Frame> frames;
  for (const nlohmann::json& json : stack) {
    Frame frame;
    const auto text = [&](const char* key) {
      return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
    };
    frame.function = text("function");
    frame.file = text("file");
    frame.module = text("module");
    if (json.contains("line") && json["line"].is_number_integer()) frame.line = json["line"].get<int>();
    frames.push_back(frame);
  }
  return frames;
}

bool has_frame(const std::vector<Frame>& stack, const std::string& function) {
  // Subjects name functions uniquely, so the enclosing namespaces and the parameters do not matter.
  const std::regex pattern("(.*[:) ])?" + function + "(\\(.*)?");
  return std::any_of(stack.begin(), stack.end(),
                     [&](const Frame& frame) { return std::regex_match(frame.function, pattern); });
}

std::string plain_api(std::string name) {
  static const std::regex kSuffix("(_v[0-9]+)?(_ptsz|_ptds)?$");
  return std::regex_replace(name, kSuffix, "");
}

}  // namespace culprit::test
