// The weak references of a library: linked to the program, or opened.
#include "tests/guest/programs/weak_names.h"

__attribute__((constructor)) static void constructed(void) { show_names("library's constructor:"); }

__attribute__((visibility("default"))) void show_in_library(void) { show_names("library:"); }
