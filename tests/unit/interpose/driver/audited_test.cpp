#include "interpose/driver/audited.h"

#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/support/pattern.h"

using namespace culprit;

TEST_CASE("functions that make or end something are audited, whatever their version", "[audit]") {
  for (const char* symbol : {"cuMemAlloc_v2",
                             "cuMemFree_v2",
                             "cuMemAllocAsync_ptsz",
                             "cuMemAllocFromPoolAsync",
                             "cuMemHostAlloc_v2",
                             "cuMemPoolCreate",
                             "cuMemMap",
                             "cuMemUnmap",
                             "cuMemRetainAllocationHandle",
                             "cuStreamCreateWithPriority",
                             "cuEventDestroy_v2",
                             "cuGraphInstantiateWithParams_ptsz",
                             "cuGraphAddMemAllocNode",
                             "cuGraphAddNode_v2",
                             "cuStreamEndCapture_ptsz",
                             "cuCtxCreate_v4",
                             "cuDevicePrimaryCtxReset_v2",
                             "cuIpcOpenMemHandle_v2",
                             "cuLibraryLoadData",
                             "cuGreenCtxCreate",
                             "cuSemaphoreCreate",
                             "cuSomethingNewCreate_v7"}) {
    INFO(symbol);
    CHECK(is_audited(symbol));
  }
  for (const char* symbol : {"cuMemGetInfo_v2", "cuMemcpyAsync", "cuLaunchKernel", "cuCtxSetCurrent",
                             "cuGraphAddKernelNode_v2", "cuGraphMemAllocNodeGetParams", "cuMemGetAllocationGranularity",
                             "cuStreamAttachMemAsync_ptsz", "cuGraphDestroyNode", "cuTensorMapEncodeTiled",
                             "cuGraphicsGLRegisterBuffer", "cuLogsRegisterCallback", "cuEventRecord", "INVALID", ""}) {
    INFO(symbol);
    CHECK_FALSE(is_audited(symbol));
  }
}

TEST_CASE("a row of any version of the function counts, if it records", "[audit]") {
  CHECK(has_recording_row("cuMemAlloc_v2"));
  CHECK(has_recording_row("cuMemHostAlloc_v2"));  // CUPTI's name of cuMemHostAlloc
  CHECK(has_recording_row("cuMemFree"));
  CHECK(has_recording_row("cuMemAllocAsync_ptsz"));
  CHECK_FALSE(has_recording_row("cuMemcpy"));                // HOOK_CHECK
  CHECK_FALSE(has_recording_row("cuSemaphoreCreate"));       // no row
  CHECK_FALSE(has_recording_row("cuMemAllocSomethingNew"));  // the beginning is a row's
}

TEST_CASE("the bytes are read from the parameters where they are known", "[audit]") {
  std::uint64_t address = 0;
  std::uint64_t pitch = 512;
  const std::uint64_t plain[] = {reinterpret_cast<std::uint64_t>(&address), 4096, 0};
  CHECK(audited_bytes("cuMemAlloc_v2", plain) == 4096);
  CHECK(audited_bytes("cuMemAllocFromPoolAsync_ptsz", plain) == 4096);
  CHECK(audited_bytes("cuMemAlloc", plain) == 0);  // of CUDA 2: sizes of 32 bits
  CHECK(audited_bytes("cuStreamCreate", plain) == 0);
  CHECK(audited_bytes("cuMemAlloc_v2", nullptr) == 0);
  const std::uint64_t pitched[] = {reinterpret_cast<std::uint64_t>(&address), reinterpret_cast<std::uint64_t>(&pitch),
                                   500, 10, 4};
  CHECK(audited_bytes("cuMemAllocPitch_v2", pitched) == 5120);
}

TEST_CASE("of CUPTI's functions, those that are audited and not hooked are known", "[audit]") {
  std::ifstream header(CULPRIT_CUPTI_IDS);
  if (!header) {
    WARN("left out: no cupti_driver_cbid.h here");
    return;
  }
  // None of these is in cuda.h, or each is of another platform.
  const char* expected =
      "cuBinaryFree|cuMemPeer(Unr|R)egister|cuSurfRef(Create|Destroy)|cuSemaphore(Create|Destroy)|"
      "cuMultiKernelCooperativeDomain(Create|Destroy)|cuStreamCreateForCaptureToCig";
  int audited = 0;
  const std::string text(std::istreambuf_iterator<char>(header), {});
  for (const std::string& call : test::first_groups(text, "CUPTI_DRIVER_TRACE_CBID_(cu\\w+)")) {
    if (!is_audited(call.c_str())) continue;
    ++audited;
    INFO(call);
    CHECK((has_recording_row(call.c_str()) || test::matches(call, expected)));
  }
  CHECK(audited > 100);
}
