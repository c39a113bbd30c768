// Every route into the driver x every kind of resource: seen, named and counted once when it leaks; nothing left when
// freed.
#include "tests/catch.h"
#include "tests/process/table_of_kinds.h"

namespace culprit::test {
namespace {

const std::vector<ExpectedKind> kDriverKinds = {
#define KIND(name, kind, call) {#name, kind, call},
#include "tests/subjects/routes/kinds.def"
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
