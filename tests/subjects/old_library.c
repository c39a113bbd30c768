/* Has the functions of a libculprit.so of version 0.2.0 for culprit.h, and tells of their calls: a program that was
 * built with a newer header keeps what that version has. */
#include <stdint.h>
#include <stdio.h>

int culprit_api_version(void) { return 2; }
void culprit_api_start(void) {}
void culprit_api_stop(void) {}
int culprit_api_snapshot(const char* path) { return path == NULL; }
void culprit_api_mark_push(const char* name) { printf("push %s\n", name); }
void culprit_api_mark_pop(void) {}
void culprit_api_mark(const char* name) { printf("mark %s\n", name == NULL ? "(null)" : name); }
uint64_t culprit_api_now(void) { return 1; }
uint64_t culprit_api_live_bytes(uint64_t since, uint64_t* count) {
  if (count != NULL) *count = 1;
  return since;
}
uint64_t culprit_api_not_recorded(void) { return 0; }
