/* Ends well when the first argument says whether the library is there: "preloaded", or "alone". */
#include <culprit.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  const char* fail = getenv("CULPRIT_FAIL_TESTS");
  if (argc > 2 && (fail == NULL || strcmp(fail, "1") != 0)) return 2;
  culprit_mark_push("consumer");
  culprit_mark_pop();
  if (argc < 2) return 1;
  return culprit_version() == (strcmp(argv[1], "preloaded") == 0 ? CULPRIT_API_VERSION : 0) ? 0 : 1;
}
