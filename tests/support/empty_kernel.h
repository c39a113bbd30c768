#pragma once

// An empty kernel, compiled by the driver: no nvcc is needed, and any GPU from sm_75 on runs it.
constexpr char kEmptyKernel[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry empty_kernel() { ret; }
)";
