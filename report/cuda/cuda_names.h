// Names from CUDA: result codes, runtime calls, driver symbols. Tables only, from the toolkit's headers.
#pragma once

#include <string>
#include <string_view>

namespace culprit::report {

// "CUDA_ERROR_INVALID_VALUE" for 1; "CUresult 12345" for a code that is in no toolkit in the table.
std::string cuda_result_name(int code);

// 2 for "CUDA_ERROR_OUT_OF_MEMORY"; -1 for a name that is in no toolkit in the table.
int cuda_result_code(std::string_view name);

// Why a call fails with this code, as a sentence without a full stop: "no context is current to the thread" for 201.
// Codes that allocations rarely give are explained by their name only.
std::string cuda_failure_reason(int code);

// Whether `symbol` (a plain or demangled function name) is a public call of the CUDA runtime: cudaMalloc, but also
// cudaMallocAsync_ptsz and the typed wrappers of <cuda_runtime.h>, such as cudaMalloc<float>.
bool is_runtime_api(std::string_view symbol);

// The name as written in source code: without the version (_v2), the default-stream variant (_ptsz, _ptds) and template
// arguments. "cuMemAlloc_v2" -> "cuMemAlloc".
std::string source_api_name(std::string_view symbol);

// Whether libculprit.so hooks the driver function `name`: an ELF symbol (cuMemAlloc_v2), or a name as in source code
// (cuMemAlloc), which stands for all its versions and variants.
bool is_hooked_function(std::string_view name);

}  // namespace culprit::report
