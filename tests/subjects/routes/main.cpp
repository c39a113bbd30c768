// routes ROUTE leak|free [KIND]: makes one resource of each kind (or of one) through functions found on ROUTE, leaving
// it behind or releasing it. Prints a line "KIND BYTES" for each, or "KIND unsupported CODE CALL".
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

int main(int count, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);  // a row that crashes the driver is then known by the last line
  const routes::Driver cuda = routes::find_driver(argv[1]);
  const bool leak = std::strcmp(argv[2], "leak") == 0;
  CHECKED(cuda.cuInit(0));
  CUcontext context = nullptr;
  CHECKED(cuda.cuDevicePrimaryCtxRetain(&context, 0));
  CHECKED(cuda.cuCtxSetCurrent(context));

  std::vector<routes::Kind> kinds;
  for (const auto& more :
       {routes::memory_kinds(), routes::vmm_kinds(), routes::graph_kinds(), routes::object_kinds()}) {
    kinds.insert(kinds.end(), more.begin(), more.end());
  }
  for (const routes::Kind& kind : kinds) {
    if (count > 3 && std::strcmp(argv[3], kind.name) != 0) continue;
    try {
      std::printf("%s %zu\n", kind.name, kind.make(cuda, leak));
    } catch (const routes::Unsupported& unsupported) {
      std::printf("%s unsupported %d %s\n", kind.name, unsupported.code, unsupported.call);
    }
    CHECKED(cuda.cuCtxSetCurrent(context));
  }
  return 0;
}
