// routes ROUTE leak|free [KIND]: makes one resource of each kind (or of one) through functions found on ROUTE, leaving
// it behind or releasing it. Prints a line "KIND BYTES" for each, or "KIND unsupported CODE CALL".
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/subjects/check.h"
#include "tests/subjects/routes/routes.h"

namespace {

struct Kind {
  const char* name;
  std::size_t (*make)(const routes::Driver& cuda, bool leak);
};

const Kind kKinds[] = {
#define KIND(name, kind, call) {#name, routes::make_##name},
#include "tests/subjects/routes/kinds.def"
};

}  // namespace

int main(int count, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);  // a row that crashes the driver is then known by the last line
  const routes::Driver cuda(argv[1]);
  const bool leak = std::strcmp(argv[2], "leak") == 0;
  CHECKED(cuda.FUNCTION(cuInit)(0));
  CUcontext context = nullptr;
  CHECKED(cuda.FUNCTION(cuDevicePrimaryCtxRetain)(&context, 0));
  CHECKED(cuda.FUNCTION(cuCtxSetCurrent)(context));

  for (const Kind& kind : kKinds) {
    if (count > 3 && std::strcmp(argv[3], kind.name) != 0) continue;
    try {
      std::printf("%s %zu\n", kind.name, kind.make(cuda, leak));
    } catch (const routes::Unsupported& unsupported) {
      std::printf("%s unsupported %d %s\n", kind.name, unsupported.code, unsupported.call);
    }
    CHECKED(cuda.FUNCTION(cuCtxSetCurrent)(context));
  }
  return 0;
}
