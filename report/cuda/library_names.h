// The names of NVIDIA's libraries, as their files begin.
#pragma once

#include <string>
#include <string_view>

namespace culprit::report {

constexpr char kDriverLibrary[] = "libcuda.so";
constexpr char kRuntimeLibrary[] = "libcudart.so";
// As the loader is asked for it.
constexpr char kManagementLibrary[] = "libnvidia-ml.so.1";

// Whether the path, or a text with paths in it, names a file that begins with `library`.
inline bool names_library(std::string_view text, const std::string& library) {
  return text.find("/" + library) != std::string_view::npos;
}

}  // namespace culprit::report
