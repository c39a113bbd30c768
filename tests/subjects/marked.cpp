// Allocates under marks (culprit.h) and NVTX ranges. The argument names the calls: see main().
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "interpose/include/culprit.h"
#include "tests/subjects/check.h"
#if CULPRIT_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#define HAS_NVTX_PAYLOADS 1
#endif
#endif

SUBJECT_FUNCTION void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

// The sizes of the allocations identify the open marks.
static void use_marks() {
  culprit_mark_push("before CUDA");
  allocate(1001);
  {
    const culprit::Mark inner("inner");
    allocate(1002);
    std::thread([] { allocate(1003); }).join();  // nothing is open there
  }
  allocate(1004);
  culprit_mark_pop();
  allocate(1005);
  culprit_mark_pop();  // none is open: nothing happens
  culprit_mark("moment");
  allocate(1006);
  CHECKED(cudaFree(allocate(5000)));
  culprit_mark_push("epoch 1");
  allocate(1007);
  culprit_mark_pop();
  culprit_mark_push("epoch 2");
  allocate(1007);
  culprit_mark_pop();
}

static void use_epochs() {
  for (const char* epoch : {"epoch 1", "epoch 2", "epoch 2", "epoch 3"}) {
    const culprit::Mark mark(epoch);
    allocate(1000);
  }
}

static void use_deep_marks() {
  for (int i = 0; i < 40; ++i) culprit_mark_push(std::to_string(i).c_str());
  allocate(1001);
  for (int i = 0; i < 9; ++i) culprit_mark_pop();
  allocate(1002);
  for (int i = 0; i < 40; ++i) culprit_mark_pop();
  allocate(1003);
  culprit_mark_push(std::string(5000, 'x').c_str());
  allocate(1004);
}

static void use_ranges() {
#if CULPRIT_HAS_NVTX
  // A start/end range belongs to no thread: it is never the innermost range of one, and affects none.
  const nvtxRangeId_t process_wide = nvtxRangeStartA("process-wide");
  allocate(1000);
  EXPECTED(0, nvtxRangePushA("outer"));
  allocate(1001);
  EXPECTED(1, nvtxRangePushA("never allocates"));
  EXPECTED(1, nvtxRangePop());
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  EXPECTED(0, nvtxDomainRangePushEx(domain, &event));
  allocate(1002);
  const culprit::Mark mark("a mark too");
  allocate(1003);
  EXPECTED(0, nvtxRangePop());  // the default domain's range, below the other domain's
  allocate(1004);
  EXPECTED(0, nvtxDomainRangePop(domain));
  EXPECTED(0, nvtxRangePushW(L"wide"));
  allocate(1005);
  EXPECTED(0, nvtxRangePop());
  nvtxRangeEnd(process_wide);
  allocate(1006);
  EXPECTED(0, nvtxDomainRangePushEx(domain, &event));
  nvtxDomainDestroy(domain);
  allocate(1007);
#endif
}

// Ranges that a function of the payload extension begins or ends, as NCCL does.
static void use_payload_ranges() {
#if HAS_NVTX_PAYLOADS
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  EXPECTED(1, nvtxDomainIsEnabled(domain));
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "initialize";
  const std::uint64_t bytes = 64;
  const nvtxPayloadData_t payload = {NVTX_PAYLOAD_ENTRY_TYPE_UINT64, sizeof(bytes), &bytes};
  EXPECTED(0, nvtxDomainRangePushEx(domain, &event));
  allocate(1001);
  EXPECTED(0, nvtxRangePopPayload(domain, &payload, 1));
  allocate(1002);
  EXPECTED(0, nvtxRangePushPayload(domain, &payload, 1));
  EXPECTED(1, nvtxDomainRangePushEx(domain, &event));
  EXPECTED(1, nvtxRangePopPayload(domain, &payload, 1));
  allocate(1003);
  EXPECTED(0, nvtxDomainRangePop(domain));
  allocate(1004);
#endif
}

static void take_snapshot(const char* path) {
  allocate(1001);
  void* later_freed = allocate(1002);
  const std::uint64_t now = culprit_now();
  std::uint64_t count = 0;
  CHECKED(culprit_snapshot(path));
  CHECKED(cudaFree(later_freed));
  allocate(1003);
  if (culprit_version() == 0) return;
  EXPECTED(2004, culprit_live_bytes());
  EXPECTED(1003, culprit_live_bytes_since(now, &count));
  EXPECTED(1, count);
}

static void change_marks_and_fork() {
  culprit_mark_push("parent's");
  allocate(1001);
  if (fork() == 0) {
    allocate(1002);
    culprit_mark_pop();
    allocate(1003);
    exit(0);
  }
  CHECKED(wait(nullptr) < 0);
  culprit_mark_pop();
}

int main(int, char** argv) {
  const std::string what = argv[1];
  if (what == "marks") use_marks();
  if (what == "epochs") use_epochs();
  if (what == "deep") use_deep_marks();
  if (what == "ranges") use_ranges();
  if (what == "payload_ranges") use_payload_ranges();
  if (what == "snapshot") take_snapshot(argv[2]);
  if (what == "fork") change_marks_and_fork();
  if (what == "errors") {
    EXPECTED(argv[3] == nullptr ? ENODATA : atoi(argv[3]), culprit_snapshot(argv[2]));
    culprit_mark_push(nullptr);
    culprit_mark(nullptr);
    allocate(1001);
  }
  if (what == "switch") {
    culprit_stop();
    allocate(1001);
    culprit_start();
    allocate(1002);
  }
  printf("version %d\n", culprit_version());
  return 0;
}
