// Files that the library opens in a process that counts on the numbers of its own files: open() returns the lowest
// number that is free, and programs rely on that (dup2-less redirection, daemons, tests that count descriptors).
#pragma once

namespace culprit {

struct OpenedFile {
  int fd;            // -errno when the file could not be opened
  bool may_be_kept;  // false: it is one that the program could have; close it as soon as its work is done
};

// Opens `path` with open(2)'s flags (O_CLOEXEC is added) under a high number, so that the program's next open() returns
// the same number as without us, and so that the file is never descriptor 0, 1 or 2 of a program that had closed them.
//
// The number is the first free one from RLIMIT_NOFILE's soft limit on, which is raised for the call where the hard
// limit allows that: so the program has as many descriptors as without us, and select(), which can not look at numbers
// above 1023, is seldom concerned. Where the limit can not be raised (the hard one is as low, a seccomp filter is in
// force), it is the highest free one below the limit, at most 1023, and one that the program could have; it may be kept
// where there are 65536 or more. When all numbers but one are in use, it is that one.
//
// The kernel knows no way to open a file under a chosen number: for some microseconds the file has the lowest free one
// as well. A thread of the program that opens a file in just that time gets the number behind it.
//
// Thread- and signal-safe; never allocates.
OpenedFile open_high(const char* path, int flags, unsigned mode);

}  // namespace culprit
