// Names of CUDA's things: result codes, runtime calls, driver symbols. Tables only, from the toolkit's headers.
#pragma once

#include <string>
#include <string_view>

namespace culprit {

// "CUDA_ERROR_INVALID_VALUE" for 1; "CUresult 12345" for a code that no toolkit known here has.
std::string cuda_result_name(int code);

// 2 for "CUDA_ERROR_OUT_OF_MEMORY"; -1 when no toolkit known here has such a name.
int cuda_result_code(std::string_view name);

// Whether `symbol` (a plain or demangled function name) is a public call of the CUDA runtime: cudaMalloc, and also
// cudaMallocAsync_ptsz and the typed wrappers of <cuda_runtime.h>, cudaMalloc<float>.
bool is_runtime_api(std::string_view symbol);

// The name that people write in their source: without the version (_v2), without the default-stream variant (_ptsz,
// _ptds) and without template arguments. "cuMemAlloc_v2" -> "cuMemAlloc".
std::string source_api_name(std::string_view symbol);

// Whether libculprit.so hooks the driver function `name`: an ELF symbol (cuMemAlloc_v2), or the name in a source, which
// means all its versions and variants (cuMemAlloc).
bool is_hooked_function(std::string_view name);

}  // namespace culprit
