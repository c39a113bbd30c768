// Files that the library opens in a process that counts on the numbers of its own files: open() returns the lowest
// number that is free, and programs rely on that (dup2-less redirection, daemons, tests that count descriptors).
#pragma once

namespace culprit {

struct OpenedFile {
  int fd;     // -errno when the file could not be opened
  bool high;  // false: `fd` is the lowest number that was free, and has to be closed as soon as its work is done
};

// Opens `path` with open(2)'s flags (O_CLOEXEC is added) under a high number, so that the program's next open() returns
// the same number as without us, and so that the file is never descriptor 0, 1 or 2 of a program that had closed them.
//
// The number is the first free one from RLIMIT_NOFILE's soft limit on, which is raised for the call where the hard
// limit allows that: so the program has as many descriptors as without us, and select(), which can not look at numbers
// above 1023, is seldom concerned. Where the limit can not be raised (the hard one is as low, a seccomp filter is in
// force), the number is at most 1023, and the file counts among the program's own; with fewer than 65536
// descriptors none is taken away then: `high` is false, as it is when all numbers are in use.
//
// The kernel knows no way to open a file under a chosen number: for some microseconds the file has the lowest free one
// as well. A thread of the program that opens a file in just that time gets the number behind it.
//
// Thread- and signal-safe; never allocates.
OpenedFile open_high(const char* path, int flags, unsigned mode);

}  // namespace culprit
