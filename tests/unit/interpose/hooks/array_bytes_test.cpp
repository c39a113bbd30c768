#include "interpose/hooks/array_bytes.h"

#include "tests/catch.h"

namespace culprit {
namespace {

CUDA_ARRAY3D_DESCRIPTOR_v2 described(std::size_t width, std::size_t height, std::size_t depth, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 description = {};
  description.Width = width;
  description.Height = height;
  description.Depth = depth;
  description.Format = CU_AD_FORMAT_FLOAT;
  description.NumChannels = 4;
  description.Flags = flags;
  return description;
}

std::uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR_v2& description, unsigned levels) {
  return array_bytes(&description, levels);
}

constexpr std::uint64_t kMost = ~std::uint64_t{0};

}  // namespace

TEST_CASE("an array has the bytes of its levels", "[arrays]") {
  const auto flat = described(8, 4, 0);
  CHECK(bytes_of(flat, 1) == 8 * 4 * 16);
  CHECK(bytes_of(flat, 2) == (8 * 4 + 4 * 2) * 16);
  CHECK(bytes_of(flat, 4) == (8 * 4 + 4 * 2 + 2 * 1 + 1) * 16);
  CHECK(bytes_of(described(2, 2, 8), 4) == (2 * 2 * 8 + 1 * 1 * 4 + 2 + 1) * 16);
  CHECK(bytes_of(described(2, 2, 8, CUDA_ARRAY3D_LAYERED), 2) == (2 * 2 * 8 + 8) * 16);
}

TEST_CASE("an array has no more levels than CUDA makes", "[arrays]") {
  CHECK(bytes_of(described(8, 4, 0), ~0U) == bytes_of(described(8, 4, 0), 4));
  CHECK(bytes_of(described(1, 1, 0), ~0U) == 16);
  CHECK(bytes_of(described(0, 0, 0), ~0U) == 16);
  CHECK(bytes_of(described(2, 2, 1024, CUDA_ARRAY3D_LAYERED), ~0U) ==
        bytes_of(described(2, 2, 1024, CUDA_ARRAY3D_LAYERED), 2));
  CHECK(bytes_of(described(2, 2, 1024), ~0U) == bytes_of(described(2, 2, 1024), 11));
}

TEST_CASE("a size of an array that does not fit is the largest number, not a small one", "[arrays]") {
  CHECK(bytes_of(described(kMost, kMost, kMost), ~0U) >= kMost / 8);
  CHECK(bytes_of(described(std::size_t{1} << 32, std::size_t{1} << 32, 0), 1) >= kMost / 8);
  auto compressed = described(kMost, 1, 0);
  compressed.Format = CU_AD_FORMAT_BC1_UNORM;
  CHECK(bytes_of(compressed, 1) >= kMost / 8);
}

}  // namespace culprit
