// Display names and numbers.
#include <set>
#include <string>

#include "report/base/words.h"
#include "report/cuda/cuda_names.h"
#include "report/cuda/kinds.h"
#include "report/symbols/demangle.h"
#include "tests/catch.h"

using namespace culprit::report;

TEST_CASE("functions are named without signature", "[report][names]") {
  CHECK(function_name("_ZN6Solver4stepEi") == "Solver::step");
  CHECK(function_name("_Z3fooIiEvT_") == "foo<int>");
  CHECK(function_name("_ZN12_GLOBAL__N_14leakEv") == "(anonymous namespace)::leak");
  CHECK(function_name("_ZZ4mainENKUliE_clEi") == "main::{lambda(int)#1}::operator()");
  CHECK(function_name("_ZNK3FoocvbEv") == "Foo::operator bool");
  CHECK(function_name("_Znwm") == "operator new");
  CHECK(function_name("_ZNSt6vectorIiSaIiEE9push_backERKi") == "std::vector<int, std::allocator<int> >::push_back");
  CHECK(function_name("_Z4leakv.cold") == "leak");
  CHECK(function_name("_Z4leakv.constprop.0") == "leak");
  CHECK(function_name("helper.part.3") == "helper");
  CHECK(function_name("main") == "main");
  CHECK(function_name("memcpy@GLIBC_2.14") == "memcpy");
  CHECK(function_name("_Znot_mangled") == "_Znot_mangled");
  CHECK(strip_signature("cudaError cudaMalloc<float>(float**, unsigned long)") == "cudaMalloc<float>");
  CHECK(strip_signature("bool operator< <int>(A<int> const&, A<int> const&)") == "operator< <int>");
}

TEST_CASE("calls of the CUDA runtime are known by name", "[report][names]") {
  CHECK(is_runtime_api("cudaMalloc"));
  CHECK(is_runtime_api("cudaMallocAsync_ptsz"));
  CHECK(is_runtime_api("cudaMalloc<float>"));
  CHECK(is_runtime_api("cudaGetDeviceProperties_v2"));
  CHECK_FALSE(is_runtime_api("cudaMallocEverything"));
  CHECK_FALSE(is_runtime_api("mycuda::cudaMalloc"));
  CHECK_FALSE(is_runtime_api("cuMemAlloc_v2"));
  CHECK(source_api_name("cuMemAlloc_v2") == "cuMemAlloc");
  CHECK(source_api_name("cuMemAllocAsync_ptsz") == "cuMemAllocAsync");
  CHECK(source_api_name("cuArray3DCreate_v2") == "cuArray3DCreate");
  CHECK(source_api_name("cudaMalloc<float>") == "cudaMalloc");
  CHECK(source_api_name("cudaMalloc3D") == "cudaMalloc3D");
}

TEST_CASE("result codes have their names", "[report][names]") {
  CHECK(cuda_result_name(0) == "CUDA_SUCCESS");
  CHECK(cuda_result_name(1) == "CUDA_ERROR_INVALID_VALUE");
  CHECK(cuda_result_name(4) == "CUDA_ERROR_DEINITIALIZED");
  CHECK(cuda_result_name(999) == "CUDA_ERROR_UNKNOWN");
  CHECK(cuda_result_name(123456) == "CUresult 123456");
  CHECK(cuda_result_name(-1) == "CUresult -1");
}

TEST_CASE("sizes and times have three digits", "[report][names]") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(11001) == "10.7 KiB");
  CHECK(format_bytes(256ULL << 20) == "256 MiB");
  CHECK(format_bytes(5ULL << 28) == "1.25 GiB");
  CHECK(format_bytes((1ULL << 30) - 1) == "1.00 GiB");
  CHECK(format_bytes(~0ULL) == "16.0 EiB");
  CHECK(format_time(12400000000ULL) == "12.4 s");
  CHECK(format_time(530000) == "0.53 ms");
}

TEST_CASE("every kind has a class", "[report][names]") {
  CHECK(kind_name(culprit::format::Kind::kStreamOrdered) == "stream-ordered");
  CHECK(kind_class(culprit::format::Kind::kManaged) == KindClass::kDeviceMemory);
  CHECK(kind_class(culprit::format::Kind::kPinnedHost) == KindClass::kHostMemory);
  CHECK(kind_class(culprit::format::Kind::kVmmReservation) == KindClass::kObject);
  CHECK(kind_class(culprit::format::Kind::kPrimaryContext) == KindClass::kNeverCounted);
  CHECK(kind_name(static_cast<culprit::format::Kind>(200)) == "kind 200");
  CHECK(kind_class(static_cast<culprit::format::Kind>(200)) == KindClass::kObject);
  CHECK(kind_count_name(culprit::format::Kind::kLibrary, 7) == "libraries");
  CHECK(kind_count_name(culprit::format::Kind::kEvent, 1) == "event");
  std::set<std::string> names;
  for (const culprit::format::KindRow& row : culprit::format::kinds::kRows) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(kind_count_name(row.kind, 1) != kind_count_name(row.kind, 2));
    CHECK((kind_class(row.kind) == KindClass::kDeviceMemory || kind_class(row.kind) == KindClass::kHostMemory) ==
          culprit::format::is_physical(row.kind));
    CHECK((!culprit::format::is_on_device(row.kind) || culprit::format::is_memory(row.kind)));
    CHECK(culprit::format::ends(row.kind, row.kind));
  }
  CHECK_FALSE(culprit::format::is_memory(culprit::format::Kind::kNone));
  CHECK(culprit::format::ends(culprit::format::Kind::kDevice, culprit::format::Kind::kManaged));
  CHECK_FALSE(culprit::format::ends(culprit::format::Kind::kManaged, culprit::format::Kind::kDevice));
}

TEST_CASE("names from a dump cannot drive the terminal", "[report][names]") {
  CHECK(printable("a\x1b[31mb\nc") == "a?[31mb?c");
  CHECK(printable("käse") == "käse");
}
