// Every route into the driver x every kind of resource: seen, named and counted once when it leaks; nothing left when
// freed.
#include "tests/catch.h"
#include "tests/process/table_of_kinds.h"

namespace culprit::test {
namespace {

const std::vector<ExpectedKind> kDriverKinds = {
    // clang-format off
    {"device",                 "device",            "cuMemAlloc"},
    {"managed",                "managed",           "cuMemAllocManaged"},
    {"pitched",                "pitched",           "cuMemAllocPitch"},
    {"pinned_alloc_host",      "pinned-host",       "cuMemAllocHost"},
    {"pinned_host_alloc",      "pinned-host",       "cuMemHostAlloc"},
    {"registered",             "registered-host",   "cuMemHostRegister"},
    {"registered_old",         "registered-host",   "cuMemHostRegister"},
    {"array",                  "array",             "cuArrayCreate"},
    {"array_3d",               "array",             "cuArray3DCreate"},
    {"mipmapped",              "mipmapped-array",   "cuMipmappedArrayCreate"},
    {"async",                  "stream-ordered",    "cuMemAllocAsync"},
    {"async_freed_at_once",    "stream-ordered",    "cuMemAllocAsync"},
    {"async_from_pool",        "stream-ordered",    "cuMemAllocFromPoolAsync"},
    {"pool",                   "memory-pool",       "cuMemPoolCreate"},
    {"pool_import",            "pool-import",       "cuMemPoolImportFromShareableHandle"},
    {"ipc",                    "ipc-memory",        "cuIpcOpenMemHandle"},
    {"vmm_physical",           "vmm-physical",      "cuMemCreate"},
    {"vmm_reservation",        "vmm-reservation",   "cuMemAddressReserve"},
    {"vmm_mapping",            "vmm-physical",      "cuMemCreate"},
    {"vmm_retained",           "vmm-physical",      "cuMemCreate"},
    {"vmm_import",             "vmm-physical",      "cuMemCreate"},
    {"external",               "external-memory",   "cuImportExternalMemory"},
    {"external_buffer",        "external-buffer",   "cuExternalMemoryGetMappedBuffer"},
    {"multicast",              "multicast",         "cuMulticastCreate"},
    {"graph",                  "graph",             "cuGraphCreate"},
    {"graph_clone",            "graph",             "cuGraphClone"},
    {"graph_captured",         "graph",             "cuStreamEndCapture"},
    {"exec",                   "graph-exec",        "cuGraphInstantiateWithFlags"},
    {"exec_with_parameters",   "graph-exec",        "cuGraphInstantiateWithParams"},
    {"exec_old",               "graph-exec",        "cuGraphInstantiate"},
    {"graph_memory",           "graph-memory",      "cuGraphAddMemAllocNode"},
    {"graph_memory_captured",  "graph-memory",      "cuMemAllocAsync"},
    {"context",                "context",           "cuCtxCreate"},
    {"context_v3",             "context",           "cuCtxCreate"},
    {"context_v2",             "context",           "cuCtxCreate"},
    {"context_v1",             "context",           "cuCtxCreate"},
    {"green",                  "green-context",     "cuGreenCtxCreate"},
    {"green_stream",           "stream",            "cuGreenCtxStreamCreate"},
    {"stream",                 "stream",            "cuStreamCreate"},
    {"stream_with_priority",   "stream",            "cuStreamCreateWithPriority"},
    {"event",                  "event",             "cuEventCreate"},
    {"event_old",              "event",             "cuEventCreate"},
    {"event_from_ipc",         "event",             "cuIpcOpenEventHandle"},
    {"module",                 "module",            "cuModuleLoadData"},
    {"module_with_options",    "module",            "cuModuleLoadDataEx"},
    {"library",                "library",           "cuLibraryLoadData"},
    {"texture",                "texture-object",    "cuTexObjectCreate"},
    {"surface",                "surface-object",    "cuSurfObjectCreate"},
    {"texture_reference",      "texture-reference", "cuTexRefCreate"},
    {"link_state",             "link-state",        "cuLinkCreate"},
    {"user_object",            "user-object",       "cuUserObjectCreate"},
    // clang-format on
};

const std::vector<ExpectedKind> kRuntimeKinds = {
    // clang-format off
    {"cudaMalloc",                   "device",           "cudaMalloc"},
    {"cudaMallocManaged",            "managed",          "cudaMallocManaged"},
    {"cudaMallocPitch",              "pitched",          "cudaMallocPitch"},
    {"cudaMalloc3D",                 "pitched",          "cudaMalloc3D"},
    {"cudaMallocHost",               "pinned-host",      "cudaMallocHost"},
    {"cudaHostAlloc",                "pinned-host",      "cudaHostAlloc"},
    {"cudaHostRegister",             "registered-host",  "cudaHostRegister"},
    {"cudaMallocArray",              "array",            "cudaMallocArray"},
    {"cudaMalloc3DArray",            "array",            "cudaMalloc3DArray"},
    {"cudaMallocMipmappedArray",     "mipmapped-array",  "cudaMallocMipmappedArray"},
    {"cudaMallocAsync",              "stream-ordered",   "cudaMallocAsync"},
    {"cudaMallocFromPoolAsync",      "stream-ordered",   "cudaMallocFromPoolAsync"},
    {"cudaMemPoolCreate",            "memory-pool",      "cudaMemPoolCreate"},
    {"cudaStreamCreate",             "stream",           "cudaStreamCreate"},
    {"cudaStreamCreateWithPriority", "stream",           "cudaStreamCreateWithPriority"},
    {"cudaEventCreate",              "event",            "cudaEventCreate"},
    {"cudaGraphInstantiate",         "graph-exec",       "cudaGraphInstantiate"},
    {"cudaGraphCreate",              "graph",            "cudaGraphCreate"},
    {"cudaGraphAddMemAllocNode",     "graph-memory",     "cudaGraphAddMemAllocNode"},
    {"cudaCreateTextureObject",      "texture-object",   "cudaCreateTextureObject"},
    // clang-format on
};

void check_route(const std::string& subject, const std::string& route) {
  INFO("route " << route);
  check_leaked_rows(run_preloaded(subject, {route, "leak"}), kDriverKinds);
  check_freed_rows(run_preloaded(subject, {route, "free"}), kDriverKinds);
}

void check_runtime(const std::string& subject) {
  INFO("subject " << subject);
  check_leaked_rows(run_preloaded(subject, {"leak"}), kRuntimeKinds);
  check_freed_rows(run_preloaded(subject, {"free"}), kRuntimeKinds);
}

}  // namespace

TEST_CASE("route: linked driver symbols", "[route]") { check_route("routes_linked", "linked"); }
TEST_CASE("route: dlsym of the library's handle", "[route]") { check_route("routes", "dlsym"); }
TEST_CASE("route: dlsym RTLD_DEFAULT after a global dlopen", "[route]") { check_route("routes", "dlsym-default"); }
TEST_CASE("route: cuGetProcAddress of CUDA 11", "[route]") { check_route("routes", "proc-address-old"); }
TEST_CASE("route: cuGetProcAddress_v2", "[route]") { check_route("routes", "proc-address"); }
TEST_CASE("route: cuGetProcAddress_v2 of CUDA 12.0 with the legacy stream", "[route]") {
  check_route("routes", "proc-address-12");
}
TEST_CASE("route: cuGetProcAddress_v2 of CUDA 11.3", "[route]") { check_route("routes", "proc-address-11"); }
TEST_CASE("route: cuGetProcAddress_v2 with the per-thread stream", "[route]") {
  check_route("routes", "proc-address-per-thread");
}
TEST_CASE("route: cuGetProcAddress found through itself", "[route]") {
  check_route("routes", "proc-address-of-itself");
}
TEST_CASE("route: cudaGetDriverEntryPoint", "[route]") { check_route("routes", "entry-point"); }
TEST_CASE("route: cudaGetDriverEntryPointByVersion", "[route]") { check_route("routes", "entry-point-version"); }
TEST_CASE("route: linked and dlsym in one program", "[route]") { check_route("routes_linked", "dlsym"); }

TEST_CASE("runtime: shared cudart", "[runtime]") { check_runtime("runtime_kinds"); }
TEST_CASE("runtime: shared cudart with a per-thread default stream", "[runtime]") {
  check_runtime("runtime_kinds_per_thread");
}

TEST_CASE("runtime: static cudart", "[runtime]") {
  if (on_gpu()) {
    WARN("skipped: the simulated static cudart belongs to the simulated driver");
    return;
  }
  check_runtime("runtime_kinds_static");
}

TEST_CASE("runtime: NVIDIA's static cudart", "[runtime]") {
  if (!std::filesystem::exists(subject_path("runtime_kinds_nvstatic"))) {
    WARN("skipped: no libcudart_static.a when the subjects were built");
    return;
  }
  if (!on_gpu()) {
    WARN("skipped: NVIDIA's cudart wants NVIDIA's driver");
    return;
  }
  check_runtime("runtime_kinds_nvstatic");
}

}  // namespace culprit::test
