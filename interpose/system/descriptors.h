// Files that the library opens in a process that counts on the numbers of its own files: open() returns the lowest
// number that is free, and programs rely on that (dup2-less redirection, daemons, tests that count descriptors).
#pragma once

namespace culprit {

struct OpenedFile {
  int fd;            // -errno when the file could not be opened
  bool may_be_kept;  // false: the program could have this number; close the file as soon as the work on it is done
};

// Opens `path` with open(2)'s flags (O_CLOEXEC is added) under a high number. So the program's next open() returns the
// same number as without the library, and the file is never descriptor 0, 1 or 2 of a program that had closed them.
//
// The number is the first free one from RLIMIT_NOFILE's soft limit on. The soft limit is raised for the call where the
// hard limit allows that, or root's right to raise that one, too; so the program has as many descriptors as without the
// library. (select() cannot watch numbers above 1023.) Else, and under a seccomp filter, the limit is not raised. The
// number is then the highest free one below the limit, at most 1023; it may be kept where the limit is 65536 or more.
// When the program uses all other numbers, it is the one that is left.
//
// A number for which the table of descriptors has to grow takes the kernel 6 to 24 ms in a process with several
// threads. grow_descriptor_table() is called before the driver starts its threads. Where the program had threads
// before, and `may_wait` is false, the file gets the highest free number of the present table, and may not be kept.
//
// The kernel cannot open a file under a chosen number: for some microseconds the file also has the lowest free one. A
// thread of the program that opens a file in that time gets the next number.
//
// Thread- and signal-safe; never allocates.
OpenedFile open_high(const char* path, int flags, unsigned mode, bool may_wait = false);

// Makes the table large enough for open_high(), if the process has one thread (threads_seen()).
void grow_descriptor_table();

// A socket for a datagram, to be closed at once. A descriptor or -errno. Not under a filter that may forbid it.
int datagram_socket();

}  // namespace culprit
