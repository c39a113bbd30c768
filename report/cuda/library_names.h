// The names of NVIDIA's libraries, as their files begin.
#pragma once

namespace culprit::report {

constexpr char kDriverLibrary[] = "libcuda.so";
constexpr char kRuntimeLibrary[] = "libcudart.so";
// As the loader is asked for it.
constexpr char kManagementLibrary[] = "libnvidia-ml.so.1";

}  // namespace culprit::report
