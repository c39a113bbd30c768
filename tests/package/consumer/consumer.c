/* Ends well when the version of the loaded library's functions is the first argument. */
#include <culprit.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  const char* fail = getenv("CULPRIT_FAIL_TESTS");
  if (argc > 2 && (fail == NULL || strcmp(fail, "1") != 0)) return 2;
  culprit_mark_push("consumer");
  culprit_mark_pop();
  return argc > 1 && atoi(argv[1]) == culprit_version() ? 0 : 1;
}
