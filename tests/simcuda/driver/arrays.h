#pragma once

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

struct Array : Object {
  static constexpr ObjectType kType = ObjectType::kArray;
  explicit Array(Context* array_context) : Object(kType, array_context) {}
  void release(DriverState& state) override;

  int device = 0;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  std::size_t row_bytes = 0;
  std::size_t rows = 1;  // of a slice
  std::size_t slices = 1;
  std::size_t charged = 0;
  char* data = nullptr;
  Object* mipmapped = nullptr;  // a level: ends with this array

  std::size_t bytes() const { return row_bytes * rows * slices; }
};

struct MipmappedArray : Object {
  static constexpr ObjectType kType = ObjectType::kMipmappedArray;
  explicit MipmappedArray(Context* array_context) : Object(kType, array_context) {}
  void release(DriverState& state) override;

  std::vector<Array*> levels;
};

std::size_t element_bytes(CUarray_format format, unsigned channels);
// Creates an array that is charged to the device unless its memory belongs to another object (external memory).
CUresult make_array(DriverState& state, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, bool charged,
                    Array** out);
CUresult make_mipmapped_array(DriverState& state, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor,
                              unsigned levels, bool charged, MipmappedArray** out);

}  // namespace simcuda
