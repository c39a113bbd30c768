#pragma once

#include <cuda.h>

namespace simcuda {

// "2", "CUDA_ERROR_OUT_OF_MEMORY" -> the code; CUDA_SUCCESS when it is neither.
CUresult error_from_text(const char* text);

}  // namespace simcuda
