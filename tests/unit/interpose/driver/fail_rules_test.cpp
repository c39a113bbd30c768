#include "interpose/driver/fail_rules.h"

#include <cuda.h>

#include <memory>
#include <string>

#include "tests/catch.h"

using namespace culprit;

namespace {

bool applies(const FailRule& rule, Api api) { return rule.applies[static_cast<int>(api)]; }

}  // namespace

TEST_CASE("no text is no rule") {
  auto rules = std::make_unique<FailRules>();
  CHECK(parse_fail_rules(nullptr, rules.get()));
  CHECK_FALSE(rules->any());
  CHECK(parse_fail_rules("", rules.get()));
  CHECK_FALSE(rules->any());
}

TEST_CASE("rules to fail calls are read") {
  auto rules = std::make_unique<FailRules>();
  REQUIRE(
      parse_fail_rules("cuMemAlloc:2:700,alloc:3,cuMemcpyDtoH_v2_ptds:1:1,alloc-site:fedcba9876543210", rules.get()));
  REQUIRE(rules->count == 4);
  CHECK_FALSE(rules->note_sites);
  CHECK(rules->need_sites());
  const FailRule& call = rules->rules[0];
  CHECK(call.kind == FailRule::Kind::kCall);
  CHECK(call.nth == 2);
  CHECK(call.code == 700);
  CHECK(applies(call, Api::cuMemAlloc));
  CHECK(applies(call, Api::cuMemAlloc_v2));
  CHECK_FALSE(applies(call, Api::cuMemAllocAsync));
  CHECK_FALSE(applies(call, Api::cuMemAllocHost));
  const FailRule& allocation = rules->rules[1];
  CHECK(allocation.kind == FailRule::Kind::kAllocation);
  CHECK(allocation.nth == 3);
  CHECK(allocation.code == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(applies(allocation, Api::cuMemAllocAsync));
  CHECK_FALSE(applies(allocation, Api::cuStreamCreate));
  CHECK(applies(rules->rules[2], Api::cuMemcpyDtoH_v2_ptds));
  CHECK_FALSE(applies(rules->rules[2], Api::cuMemcpyDtoH_v2));
  CHECK(rules->rules[3].kind == FailRule::Kind::kAllocationSite);
  CHECK(rules->rules[3].site == 0xfedcba9876543210);
}

TEST_CASE("a name without version means all versions and twins") {
  auto rules = std::make_unique<FailRules>();
  REQUIRE(parse_fail_rules("cuMemcpyDtoHAsync:1:1", rules.get()));
  for (Api api : {Api::cuMemcpyDtoHAsync, Api::cuMemcpyDtoHAsync_v2, Api::cuMemcpyDtoHAsync_v2_ptsz})
    CHECK(applies(rules->rules[0], api));
  CHECK_FALSE(applies(rules->rules[0], Api::cuMemcpyDtoH_v2));
}

TEST_CASE("sites alone fail nothing") {
  auto rules = std::make_unique<FailRules>();
  REQUIRE(parse_fail_rules("sites", rules.get()));
  CHECK(rules->count == 0);
  CHECK(rules->note_sites);
  CHECK(rules->any());
}

TEST_CASE("rules that cannot be understood make no call fail") {
  auto rules = std::make_unique<FailRules>();
  for (const char* text : {"alloc",
                           "alloc:",
                           "alloc:0",
                           "alloc:x",
                           "alloc:1x",
                           "alloc:-1",
                           "alloc: 1",
                           "alloc:4294967296",
                           "alloc:1,",
                           ",alloc:1",
                           "alloc-site:",
                           "alloc-site:0",
                           "alloc-site:xyz",
                           "alloc-site:11112222333344445",
                           "site",
                           "cuMemAlloc",
                           "cuMemAlloc:1",
                           "cuMemAlloc:1:",
                           "cuMemAlloc:1:0",
                           "cuMemAlloc:0:1",
                           "cuMemAlloc::1",
                           "cuMemAlloc:1:CUDA_ERROR",
                           "cuMemAllo:1:2",
                           "cudaMalloc:1:2",
                           "cuMemAlloc_v3:1:2",
                           ":1:2",
                           "cuMemAlloc:1:2:3",
                           "alloc:1,nonsense"}) {
    INFO(text);
    CHECK_FALSE(parse_fail_rules(text, rules.get()));
    CHECK_FALSE(rules->any());
  }
  std::string many = "alloc:1";
  for (int i = 1; i < FailRules::kMost; ++i) many += ",alloc:1";
  CHECK(parse_fail_rules(many.c_str(), rules.get()));
  CHECK_FALSE(parse_fail_rules((many + ",alloc:1").c_str(), rules.get()));
  CHECK_FALSE(parse_fail_rules(("alloc:" + std::string(2000, '0') + "1").c_str(), rules.get()));
}

TEST_CASE("calls that allocate memory are counted as allocations") {
  for (Api api : {Api::cuMemAlloc_v2, Api::cuMemAllocManaged, Api::cuMemAllocPitch_v2, Api::cuMemAllocHost_v2,
                  Api::cuMemHostAlloc, Api::cuMemHostRegister_v2, Api::cuArrayCreate_v2, Api::cuMipmappedArrayCreate,
                  Api::cuMemAllocAsync_ptsz, Api::cuMemAllocFromPoolAsync, Api::cuMemCreate})
    CHECK(allocates_memory(api));
  for (Api api : {Api::cuMemFree_v2, Api::cuStreamCreate, Api::cuMemAddressReserve, Api::cuMemMap,
                  Api::cuModuleLoadData, Api::cuIpcOpenMemHandle_v2, Api::cuExternalMemoryGetMappedMipmappedArray,
                  Api::cuMemPoolCreate, Api::cuMemcpyHtoD_v2})
    CHECK_FALSE(allocates_memory(api));
}
