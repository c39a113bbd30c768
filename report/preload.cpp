#include "report/preload.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace culprit {
namespace {

// Finds libculprit.so beside this executable: in lib of the installed or built tree. Throws std::runtime_error.
std::string find_library() {
  namespace fs = std::filesystem;
  std::string path;
  const char* chosen = std::getenv("CULPRIT_LIBRARY");
  if (chosen != nullptr && chosen[0] != '\0') {
    path = fs::absolute(chosen).string();
    if (!fs::exists(path)) throw std::runtime_error(path + ": no such file; CULPRIT_LIBRARY must name libculprit.so");
  } else {
    const fs::path root = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
    for (const char* folder : {"lib", CULPRIT_INSTALL_LIBDIR, "lib64"}) {
      const fs::path candidate = root / folder / "libculprit.so";
      if (path.empty() && fs::exists(candidate)) path = candidate.string();
    }
    if (path.empty()) {
      throw std::runtime_error((root / "lib/libculprit.so").string() +
                               ": no such file; keep culprit and libculprit.so in one tree, or set CULPRIT_LIBRARY");
    }
  }
  if (path.find_first_of(" :") != std::string::npos) {
    throw std::runtime_error(path +
                             ": LD_PRELOAD cannot hold a path with spaces or colons; move the tree, or set "
                             "CULPRIT_LIBRARY to a link elsewhere");
  }
  return path;
}

std::string preload_value(const std::string& library) {
  const char* present = std::getenv("LD_PRELOAD");
  return present != nullptr && present[0] != '\0' ? library + ":" + present : library;
}

}  // namespace

Environment preload_environment(const std::string& pattern) {
  return {{"LD_PRELOAD", preload_value(find_library())}, {"CULPRIT_OUT", pattern}, {"CULPRIT_QUIET", "1"}};
}

}  // namespace culprit
