#include "report/run/preload.h"

#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "report/base/environment.h"
#include "report/base/input_file.h"
#include "report/base/log.h"
#include "report/proc/process_folder.h"

namespace culprit::report {

std::string find_library() {
  namespace fs = std::filesystem;
  std::string path;
  const bool chosen = is_set("CULPRIT_LIBRARY");
  if (chosen) {
    path = fs::absolute(std::getenv("CULPRIT_LIBRARY")).string();
    if (!fs::exists(path))
      throw std::runtime_error(path + ": no such file, and CULPRIT_LIBRARY names it. Run: unset CULPRIT_LIBRARY");
  } else {
    const fs::path root = fs::path(own_program()).parent_path().parent_path();
    for (const char* folder : {"lib", CULPRIT_INSTALL_LIBDIR, "lib64"}) {
      const fs::path candidate = root / folder / "libculprit.so";
      if (!path.empty()) break;
      const bool there = fs::exists(candidate);
      log::trace("looked for the library: " + candidate.string() + (there ? "" : ": no such file"));
      if (there) path = candidate.string();
    }
    if (path.empty()) {
      const bool of_a_wheel = root.filename() == "_native";
      throw std::runtime_error((root / "lib/libculprit.so").string() + ": no such file. Run: " +
                               (of_a_wheel ? "pip install --force-reinstall culprit_gpu-*.whl"
                                           : "export CULPRIT_LIBRARY=/path/to/libculprit.so"));
    }
  }
  log::debug("the library is " + path + (chosen ? " (CULPRIT_LIBRARY)" : ""));
  return path;
}

namespace {

// A whole library for this command's processor, with the name of a symbol that each version exports.
bool is_culprit_library(const std::string& path) {
  Elf64_Ehdr header = {}, own = {};
  if (!read_beginning(path, &header, sizeof(header)) || !read_beginning(own_program(), &own, sizeof(own))) return false;
  const bool same_kind = std::memcmp(header.e_ident, own.e_ident, EI_VERSION) == 0 && header.e_machine == own.e_machine;
  const std::string content = read_input(path);
  // The last part of the file is the table of its sections.
  const std::uint64_t end = header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize;
  return same_kind && end <= content.size() && content.find("culprit_api_version") != std::string::npos;
}

}  // namespace

void check_library() {
  const std::string path = find_library();
  if (is_culprit_library(path)) return;
  throw std::runtime_error(path + ": is no libculprit.so" +
                           (is_set("CULPRIT_LIBRARY") ? ", and CULPRIT_LIBRARY names it. Run: unset CULPRIT_LIBRARY"
                                                      : ", or a part of one: install culprit again"));
}

namespace {

bool fits_in_preload(const std::string& path) { return path.find_first_of(" :") == std::string::npos; }

}  // namespace

std::string preloadable_library() {
  std::string path = find_library();
  if (!fits_in_preload(path)) {
    throw std::runtime_error(path +
                             ": LD_PRELOAD cannot hold a path with spaces or colons; move the tree, or set "
                             "CULPRIT_LIBRARY to a link elsewhere");
  }
  return path;
}

namespace {

// NVTX gives its ranges to one tool only. If a profiler is configured, it keeps them.
bool has_profiler() { return is_set("NVTX_INJECTION64_PATH") || is_set("CUDA_INJECTION64_PATH"); }

// The library, or a link to it that LD_PRELOAD can hold.
std::string library_or_link(const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path link = fs::path(folder) / "libculprit.so";
  std::string library = find_library();
  if (fits_in_preload(library) || !fits_in_preload(link.string())) return preloadable_library();
  if (!fs::is_symlink(link)) fs::create_symlink(library, link);
  log::debug("LD_PRELOAD names a link to the library, whose path has spaces or colons: " + link.string());
  return link.string();
}

}  // namespace

Environment preload_environment(const std::string& pattern, const std::string& folder) {
  const std::string library = library_or_link(folder);
  const std::string preloads = is_set("LD_PRELOAD") ? library + ":" + std::getenv("LD_PRELOAD") : library;
  Environment environment = {{"LD_PRELOAD", preloads}, {"CULPRIT_OUT", pattern}, {"CULPRIT_QUIET", "1"}};
  if (!has_profiler()) environment.emplace_back("NVTX_INJECTION64_PATH", library);
  for (const auto& [name, value] : environment) {
    std::string text = "the program gets ";
    log::trace(text.append(name).append("=").append(value));
  }
  return environment;
}

}  // namespace culprit::report
